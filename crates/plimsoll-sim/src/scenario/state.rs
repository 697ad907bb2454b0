//! Writes a state as a scenario: nodes, holdings and pending requests. Running the text yields the
//! same ledger.

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Part, Stage};
use plimsoll_core::device::{
    Capacity, Device, Identity, Node, Profile, Sharing, Strategy, Telemetry,
};
use plimsoll_core::request::{
    Amount, Asks, Compute, Misuse, Need, NodeNeed, PlacementHints, PlainRule, Request, RequestId,
    Shape, Spec, Terms,
};
use plimsoll_core::resources::ResourceAmounts;
use plimsoll_core::room::Measured;
use plimsoll_core::rules::NodeRules;
use plimsoll_core::units::{Name, Timespan};

use super::ask::{EVICTIONS, PLAIN_RULES};
use super::fleet::{HEALTH, SOURCES};
use super::presets;
use super::rules::{requirement_text, term_text, toleration_text};
use super::words::{quoted, size_text};

/// All that a scenario can begin with.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Each measurement with its node and device.
    pub measured: Vec<(Name, u16, Measured)>,
    /// In the order of their arrival.
    pub holdings: Vec<Holding>,
    /// In turn.
    pub pending: Vec<Request>,
    /// Pending gangs: name, minimum and members.
    pub gangs: Vec<(Name, u32, Vec<Request>)>,
}

/// The scenario that yields this state.
pub fn from_state(state: &State) -> String {
    let mut lines = vec!["# A recorded state: nodes, holdings and pending requests.".to_string()];
    for node in &state.nodes {
        lines.push(node_line(node));
        for (ordinal, device) in node.devices.iter().enumerate() {
            lines.push(device_line(node, ordinal, device));
        }
    }
    lines.extend(state.measured.iter().map(measured_line));
    lines.extend(state.holdings.iter().map(holding_line));
    lines.extend(state.pending.iter().map(|request| request_line("submit", request)));
    for (name, minimum, members) in &state.gangs {
        lines.extend(members.iter().map(|member| request_line("member", member)));
        lines.push(format!("gang {} min={minimum}", quoted(name)));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Words of one line.
struct Line(String);

impl Line {
    fn new(command: &str, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        Line(format!("{command} {}", names.join(" ")).trim_end().to_string())
    }

    fn word(&mut self, word: &str) {
        self.0.push(' ');
        self.0.push_str(&quoted(word));
    }

    fn pair(&mut self, key: &str, value: impl AsRef<str>) {
        self.0.push_str(&format!(" {}={}", quoted(key), quoted(value.as_ref())));
    }

    fn pair_if(&mut self, key: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.pair(key, value);
        }
    }

    fn list_if(&mut self, key: &str, values: &[Name]) {
        self.pair_if(key, (!values.is_empty()).then(|| values.join(",")));
    }
}

fn called<T: PartialEq>(known: &[(&'static str, T)], wanted: &T) -> &'static str {
    known.iter().find(|(_, value)| value == wanted).map_or("", |(name, _)| name)
}

fn node_line(node: &Node) -> String {
    let mut line = Line::new("node", &[&node.name]);
    line.pair("choice", node.choice.to_string());
    line.pair_if("missing", (node.missing_cards > 0).then(|| node.missing_cards.to_string()));
    line.pair_if("unknown", node.unknown.as_ref());
    line.pair_if("unschedulable", node.unschedulable.then_some("yes"));
    line.pair_if("cpu", node.allocatable.cpu.map(|cpu| cpu.to_string()));
    line.pair_if("memory", node.allocatable.memory.map(size_text));
    line.pair_if("pods", node.allocatable.pods.map(|pods| pods.to_string()));
    resource_amount_words(&mut line, &node.allocatable.extended);
    node.taints.iter().for_each(|taint| line.pair("taint", taint.to_string()));
    node.files.iter().for_each(|file| line.pair("file", file));
    let failed = (node.failed_starts > 0).then(|| node.failed_starts.to_string());
    line.pair_if("failed-starts", failed);
    node.labels.iter().for_each(|(key, value)| line.pair(&format!("label.{key}"), value));
    line.0
}

fn profile_text(profile: &Profile) -> String {
    let spans: Vec<String> =
        profile.placements.iter().map(|span| format!("{}+{}", span.start, span.size)).collect();
    format!(
        "{}:{}:{}:{}",
        profile.name,
        size_text(profile.memory),
        profile.cores.0,
        spans.join(",")
    )
}

fn device_line(node: &Node, ordinal: usize, device: &Device) -> String {
    let mut line = Line::new("device", &[&node.name, &ordinal.to_string()]);
    line.pair("kind", &device.kind);
    if let Identity::Uuid(uuid) = &device.identity {
        line.pair("uuid", uuid);
    }
    line.pair_if("model", device.model.as_ref());
    match &device.memory.total {
        Capacity::Known { bytes, source } => {
            line.pair("memory", size_text(*bytes));
            line.pair("source", called(&SOURCES, source));
        }
        Capacity::Unknown { missing } => line.pair("memory", format!("unknown:{missing}")),
    }
    line.pair_if(
        "reserve",
        (!device.memory.reserve.is_zero()).then(|| size_text(device.memory.reserve)),
    );
    line.pair_if("cap", device.memory.cap.map(size_text));
    line.pair_if("cores", device.cores.map(|cores| cores.0.to_string()));
    line.pair_if("slots", device.slots.map(|slots| slots.to_string()));
    line.pair_if("sharing", sharing(device.sharing));
    line.pair_if("numa", device.numa.map(|numa| numa.to_string()));
    line.pair_if("board", device.board.as_ref());
    line.pair_if("mode", device.mode.as_ref());
    let health = called(&HEALTH, &device.health);
    line.pair_if("health", (health != "healthy").then_some(health));
    line.pair_if("cordoned", device.cordoned.then_some("yes"));
    if let Some(geometry) = device.geometry.as_deref() {
        match presets::name_of(geometry) {
            Some(preset) => line.pair("slices", preset),
            None => geometry
                .profiles
                .iter()
                .for_each(|profile| line.pair("profile", profile_text(profile))),
        }
    }
    let links: Vec<String> = device.links.iter().map(|(to, link)| format!("{to}:{link}")).collect();
    line.pair_if("links", (!links.is_empty()).then(|| links.join(",")));
    line.0
}

fn measured_line((node, ordinal, measured): &(Name, u16, Measured)) -> String {
    let mut line = Line::new("measured", &[node, &ordinal.to_string()]);
    line.pair("foreign", size_text(measured.foreign));
    line.pair(
        "telemetry",
        match measured.telemetry {
            Telemetry::None => "none".to_string(),
            Telemetry::Fresh { at } => format!("fresh@{at}"),
            Telemetry::Stale { since } => format!("stale@{since}"),
        },
    );
    line.pair_if("closed", measured.closed.then_some("yes"));
    line.0
}

fn sharing(sharing: Sharing) -> Option<String> {
    match sharing {
        Sharing::Exclusive => None,
        Sharing::Shares | Sharing::EqualShares => Some(sharing.to_string()),
        Sharing::Tokens { replicas, strategy: Strategy::TimeSlicing } => {
            Some(format!("time-slicing:{replicas}"))
        }
        Sharing::Tokens { replicas, strategy: Strategy::Mps } => Some(format!("mps:{replicas}")),
    }
}

fn id_text(id: &RequestId) -> String {
    format!("{}/{}", id.account, id.name)
}

fn holding_line(holding: &Holding) -> String {
    let mut line = Line::new("observed", &[&id_text(&holding.request), &holding.node]);
    for charge in &holding.charges {
        charge_words(&mut line, charge);
    }
    line.pair_if(
        "uid",
        (holding.request.uid != holding.request.name).then_some(&holding.request.uid),
    );
    line.pair("stage", stage(holding.stage));
    line.pair_if(
        "activity",
        match holding.activity {
            Activity::Unknown => None,
            Activity::Active { requests } => Some(format!("active:{requests}")),
            Activity::Idle { since } => Some(format!("idle@{since}")),
        },
    );
    term_words(&mut line, &holding.terms);
    let asked = holding.spec.as_ref().map(|spec| &spec.resources);
    if asked != Some(&holding.resources) {
        line.pair("cpu", holding.resources.cpu.to_string());
        line.pair("memory", size_text(holding.resources.memory));
        line.pair("pods", holding.resources.pods.to_string());
        resource_amount_words(&mut line, &holding.resources.extended);
    }
    if let Some(spec) = &holding.spec {
        line.word("asks");
        spec_words(&mut line, spec);
    }
    line.0
}

fn stage(stage: Stage) -> String {
    match stage {
        Stage::Offered { until } => format!("offered@{until}"),
        Stage::Queued => "queued".to_string(),
        Stage::Sent => "sent".to_string(),
        Stage::Running { since } => format!("running@{since}"),
        Stage::Releasing { since } => format!("releasing@{since}"),
    }
}

fn charge_words(line: &mut Line, charge: &Charge) {
    let on: Vec<String> = charge.on.iter().map(ToString::to_string).collect();
    let amount = match charge.amount {
        Booked::Share(bytes) => size_text(plimsoll_core::units::Bytes::new(bytes.get())),
        Booked::Whole { .. } => "whole".to_string(),
        Booked::Undeclared => "undeclared".to_string(),
    };
    line.word(&format!("{}:{amount}", on.join(",")));
    line.pair_if("cores", (charge.cores.0 > 0).then(|| charge.cores.0.to_string()));
    line.pair_if("slots", (charge.slots != 1).then(|| charge.slots.to_string()));
    line.pair_if(
        "slice",
        charge.slice.as_ref().map(|s| format!("{}@{}+{}", s.profile, s.span.start, s.span.size)),
    );
    let part = |part: &Part| {
        let bytes = part.bytes.map_or("undeclared".to_string(), size_text);
        format!("{}:{}:{bytes}:{}", part.container, part.role, part.cores.0)
    };
    charge.parts.iter().for_each(|one| line.pair("part", part(one)));
}

fn request_line(command: &str, request: &Request) -> String {
    let mut line = Line::new(command, &[&id_text(&request.id)]);
    spec_words(&mut line, &request.spec);
    line.pair_if("uid", (request.id.uid != request.id.name).then_some(&request.id.uid));
    term_words(&mut line, &request.terms);
    line.0
}

fn term_words(line: &mut Line, terms: &Terms) {
    line.pair_if("priority", (terms.priority != 0).then(|| terms.priority.to_string()));
    if terms.pinned {
        line.word("pinned");
    }
    if terms.speculative {
        line.word("speculative");
    }
    if terms.waits {
        line.word("waits");
    }
    let evicts = called(&EVICTIONS, &terms.eviction);
    line.pair_if("evicts", (evicts != "never").then_some(evicts));
    line.pair_if("model", terms.model.as_ref());
    line.pair_if("idle", terms.idle_limit.map(|limit| limit.to_string()));
    line.pair_if("stop", terms.stop_limit.map(|limit| limit.to_string()));
    line.pair_if("deadline", terms.deadline.map(|deadline| deadline.to_string()));
    line.pair_if(
        "reload",
        (terms.reload_cost > Timespan::ZERO).then(|| terms.reload_cost.to_string()),
    );
}

fn unjudged_words(line: &mut Line, kind: &str, misuse: &Misuse) {
    line.word(&format!("{kind}:{}", misuse.fields.join(",")));
    line.pair("problem", &misuse.problem);
}

fn spec_words(line: &mut Line, spec: &Spec) {
    match &spec.asks {
        Asks::Malformed(misuse) => unjudged_words(line, "malformed", misuse),
        Asks::Waiting(misuse) => unjudged_words(line, "waiting", misuse),
        Asks::Shapes(shapes) => {
            for (at, shape) in shapes.iter().enumerate() {
                if at > 0 {
                    line.0.push_str(" |");
                }
                shape_words(line, shape);
            }
        }
    }
    resource_words(line, &spec.resources);
    rule_words(line, &spec.rules);
    hint_words(line, &spec.hints);
}

fn shape_words(line: &mut Line, shape: &Shape) {
    for container in &shape.containers {
        line.word(&format!("{}:{}", container.role, container.name));
        container.needs.iter().for_each(|need| need_words(line, need));
    }
}

fn need_words(line: &mut Line, need: &Need) {
    let amount = match &need.amount {
        Amount::Bytes(bytes) => size_text(plimsoll_core::units::Bytes::new(bytes.get())),
        Amount::Portion(portion) => {
            let (parts, of) = portion.parts();
            format!("{parts}/{of}")
        }
        Amount::Whole => "whole".to_string(),
        Amount::Plain(rule) => format!("plain:{}", called::<PlainRule>(&PLAIN_RULES, rule)),
        Amount::Profile(name) => format!("slice:{name}"),
        Amount::Unknown(missing) => format!("unknown:{missing}"),
    };
    line.word(&format!("{}x{amount}", need.count));
    line.pair("kind", &need.kind);
    line.pair_if(
        "cores",
        match need.compute {
            Compute::Any => None,
            Compute::Units(units) => Some(units.0.to_string()),
            Compute::Percent(percent) => Some(format!("{percent}%")),
            Compute::All => Some("all".to_string()),
        },
    );
    line.pair_if("slots", (need.slots != 1).then(|| need.slots.to_string()));
    let selector = &need.selector;
    line.list_if("type", &selector.models);
    line.list_if("not-type", &selector.not_models);
    line.list_if("uuid", &selector.uuids);
    line.list_if("not-uuid", &selector.not_uuids);
    line.list_if("mode", &selector.modes);
    line.pair_if("numa", selector.one_numa.then_some("one"));
    if selector.alone {
        line.word("alone");
    }
    if selector.linked {
        line.word("linked");
    }
}

fn resource_words(line: &mut Line, need: &NodeNeed) {
    line.pair_if("cpu", (need.cpu.0 > 0).then(|| need.cpu.to_string()));
    line.pair_if("memory", (!need.memory.is_zero()).then(|| size_text(need.memory)));
    line.pair_if("pods", (need.pods > 0).then(|| need.pods.to_string()));
    resource_amount_words(line, &need.extended);
}

fn resource_amount_words(line: &mut Line, amounts: &ResourceAmounts) {
    amounts
        .iter()
        .for_each(|(resource, amount)| line.pair("resource", format!("{resource}:{amount}")));
}

fn rule_words(line: &mut Line, rules: &NodeRules) {
    line.pair_if("node", rules.named.as_ref());
    rules.all.iter().for_each(|requirement| line.pair("select", requirement_text(requirement)));
    rules.files.iter().for_each(|file| line.pair("file", file));
    rules.any.iter().for_each(|term| line.pair("any", term_text(term)));
    rules
        .preferred
        .iter()
        .for_each(|(weight, term)| line.pair("prefer", format!("{weight}:{}", term_text(term))));
    rules
        .tolerations
        .iter()
        .for_each(|toleration| line.pair("tolerate", toleration_text(toleration)));
}

fn hint_words(line: &mut Line, hints: &PlacementHints) {
    let order = |order: plimsoll_core::request::Order| match order {
        plimsoll_core::request::Order::Pack => "pack",
        plimsoll_core::request::Order::Spread => "spread",
    };
    line.pair_if("nodes", hints.nodes.map(order));
    line.pair_if("devices", hints.devices.map(order));
    line.pair_if("weights", hints.weights.map(|w| format!("{}:{}:{}", w.slots, w.cores, w.memory)));
}
