//! A decision in few words: counts over devices, and one sentence with the nearest miss. Made when somebody reads it.

use std::collections::BTreeMap;

use crate::decide::{Decision, Outcome};
use crate::reason::{NodeReason, Reason};
use crate::request::{Amount, Need, Shape};
use crate::units::Bytes;
use crate::verdict::{NeedVerdict, NodeVerdict};

/// Why a container found no devices on a node, as counts over the node's devices in checking order
/// (`2/8 NumaNotFit, 3/8 CardInsufficientMemory`); `None` when it passed.
pub fn container_reason(verdict: NodeVerdict, container: usize) -> Option<String> {
    let failed: Vec<String> = verdict
        .needs
        .iter()
        .filter(|need| usize::from(need.container) == container && !need.passed)
        .map(need_reason)
        .collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

fn need_reason(need: &NeedVerdict) -> String {
    let devices = need.devices.len();
    if devices < usize::from(need.wanted) {
        return "NodeInsufficientDevice".to_string();
    }
    let parts = counts(need.devices.iter().filter_map(|device| device.reason.as_ref()));
    parts
        .iter()
        .map(|(code, count)| format!("{count}/{devices} {code}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// How often each reason was given, in checking order.
pub fn counts<'a>(reasons: impl Iterator<Item = &'a Reason>) -> Vec<(&'static str, usize)> {
    let mut by_code: BTreeMap<&'static str, (&Reason, usize)> = BTreeMap::new();
    for reason in reasons {
        let row = by_code.entry(reason.code()).or_insert((reason, 0));
        *row = (row.0.min(reason), row.1 + 1);
    }
    let mut rows: Vec<_> =
        by_code.into_iter().map(|(code, (first, count))| (first, code, count)).collect();
    rows.sort();
    rows.into_iter().map(|(_, code, count)| (code, count)).collect()
}

/// The decision in one sentence: where it is placed, or why not and what came nearest. Made once for each decision.
pub fn sentence(decision: &Decision) -> String {
    decision.sentence.get_or_init(|| make_sentence(decision)).clone()
}

fn make_sentence(decision: &Decision) -> String {
    match &decision.outcome {
        Outcome::Placed(found) => format!("placed on {}", found.place.node),
        Outcome::Refused(Some(reason)) => match (own_place(decision), nearest(decision)) {
            (Some(node), _) => format!("{reason}; this one would find a place on {node}"),
            (None, Some(nearest)) => format!("{reason}; {}{nearest}", why(decision)),
            (None, None) => format!("{reason}{}", prefixed("; ", &why(decision))),
        },
        Outcome::Refused(None) => match why(decision) {
            why if why.is_empty() => "left out: its gang has the minimum it needs".to_string(),
            why => format!("{why}{}", nearest(decision).unwrap_or_default()),
        },
    }
}

/// The node where a request would be placed if only its own needs counted.
fn own_place(decision: &Decision) -> Option<&str> {
    let fitting = decision.table()?.unordered().filter_map(|verdict| verdict.finding.best.as_ref());
    let best = fitting
        .max_by_key(|best| (best.score.total(), std::cmp::Reverse(best.place.node.clone())))?;
    Some(&best.place.node)
}

fn prefixed(prefix: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{prefix}{text}") }
}

/// What was asked and how often each rule refused it; nothing when something fits or nothing was tried.
fn why(decision: &Decision) -> String {
    let (Some(table), Some(shape)) = (decision.table(), decision.spec.shapes().last()) else {
        return String::new();
    };
    if table.unordered().any(|verdict| verdict.fits()) {
        return String::new();
    }
    let mut nodes = Tally::default();
    let mut devices = Tally::default();
    let (mut judged, mut too_few) = (0, 0);
    for finding in table.by_name().into_iter().map(|verdict| verdict.finding) {
        if let Some(reason) = &finding.reason {
            nodes.count((reason, node_phrase(reason)), || node_detail(reason, &finding.node));
            continue;
        }
        let Some(need) = finding.needs.iter().find(|need| !need.passed) else { continue };
        if need.devices.len() < usize::from(need.wanted) {
            too_few += 1;
            continue;
        }
        judged += need.devices.len();
        for reason in need.devices.iter().filter_map(|device| device.reason.as_ref()) {
            devices.count((reason, reason.phrase()), || detail(reason));
        }
    }
    let mut parts: Vec<String> = Vec::new();
    parts.extend(
        devices
            .rows()
            .map(|(phrase, count, detail)| format!("{count} of {judged} devices {phrase}{detail}")),
    );
    if too_few > 0 {
        parts.push(format!(
            "{too_few} {} too few devices",
            plural(too_few, "node has", "nodes have")
        ));
    }
    let of_nodes = nodes.rows();
    parts.extend(of_nodes.map(|(phrase, count, detail)| {
        format!("{count} {} {phrase}{detail}", plural(count, "node", "nodes"))
    }));
    format!("no place for {}{}", describe(shape), prefixed(": ", &parts.join(", ")))
}

/// How often something was said, in checking order, with the details of the first time.
struct Tally<'a, R>(Vec<(&'a R, &'static str, usize, Option<String>)>);

impl<R> Default for Tally<'_, R> {
    fn default() -> Self {
        Tally(Vec::new())
    }
}

impl<'a, R: Ord> Tally<'a, R> {
    fn count(
        &mut self,
        (reason, phrase): (&'a R, &'static str),
        detail: impl FnOnce() -> Option<String>,
    ) {
        match self.0.iter_mut().find(|row| row.1 == phrase) {
            Some(row) => (row.0, row.2) = (row.0.min(reason), row.2 + 1),
            None => self.0.push((reason, phrase, 1, detail())),
        }
    }

    fn rows(mut self) -> impl Iterator<Item = (&'static str, usize, String)> {
        self.0.sort_by(|one, other| one.0.cmp(other.0));
        self.0.into_iter().map(|(_, phrase, count, detail)| {
            let such_as = if count > 1 { "such as: " } else { "" };
            (phrase, count, detail.map_or(String::new(), |detail| format!(" ({such_as}{detail})")))
        })
    }
}

/// What a count alone would hide of a device's reason.
fn detail(reason: &Reason) -> Option<String> {
    match reason {
        Reason::NeedUnknown { missing } => Some(format!("the request lacks {missing}")),
        Reason::CapacityUnknown { missing } => Some(format!("missing: {missing}")),
        Reason::StaleTelemetry { since } => Some(format!("since {since}")),
        Reason::ShortOfCores { need, free, .. } => Some(format!("needs {need}, {free} free")),
        _ => None,
    }
}

/// What a count alone would hide of a node's reason.
fn node_detail(reason: &NodeReason, node: &str) -> Option<String> {
    match reason {
        NodeReason::Silent { since } => Some(format!("{node} since {since}")),
        NodeReason::SelectorMismatch { wanted } => Some(format!("{wanted} is wanted")),
        NodeReason::TaintNotTolerated { taint } => Some(taint.to_string()),
        NodeReason::CapacityUnknown { missing } => Some(missing.to_string()),
        NodeReason::ShortOfCpu { need, free } => Some(format!("needs {need}, {free} free")),
        NodeReason::ShortOfNodeMemory { need, free } => Some(format!("needs {need}, {free} free")),
        NodeReason::PodsExhausted { pods } => Some(format!("it admits {pods}")),
        _ => None,
    }
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn nearest(decision: &Decision) -> Option<String> {
    if decision.table()?.unordered().any(|verdict| verdict.fits()) {
        return None;
    }
    let miss = decision.nearest_miss()?;
    let verdict =
        decision.table()?.unordered().find(|verdict| verdict.view.node.name == miss.node)?;
    let label = verdict.view.node.device_label(usize::from(miss.ordinal));
    let holders = holders(verdict, miss.ordinal);
    Some(format!(
        " (nearest: {label} on {}, needs {}, {} free, short by {}{})",
        miss.node,
        miss.need,
        miss.free,
        miss.short_by,
        prefixed("; held by ", &holders)
    ))
}

/// Who is on a device, with what they hold, as it was when it was judged.
pub fn holders(verdict: NodeVerdict, ordinal: u16) -> String {
    const SHOWN: usize = 4;
    let room = &verdict.view.room.devices()[usize::from(ordinal)];
    let tenant = |t: &crate::room::Tenant| {
        let bytes = t.bytes.map_or("undeclared".to_string(), |bytes| bytes.to_string());
        let stage = if t.stage.is_releasing() { ", releasing" } else { "" };
        format!("{} ({bytes}{stage})", t.name)
    };
    let mut names: Vec<String> = room.tenants().iter().take(SHOWN).map(tenant).collect();
    if room.tenants().len() > SHOWN {
        names.push(format!("{} more", room.tenants().len() - SHOWN));
    }
    if !room.foreign().is_zero() {
        names.push(format!("foreign processes ({})", room.foreign()));
    }
    names.join(", ")
}

/// What a shape asks, in few words.
pub fn describe(shape: &Shape) -> String {
    let needs: Vec<String> =
        shape.containers.iter().flat_map(|c| &c.needs).map(describe_need).collect();
    if needs.is_empty() { "work without devices".to_string() } else { needs.join(" and ") }
}

fn describe_need(need: &Need) -> String {
    let each = match &need.amount {
        Amount::Bytes(bytes) => Bytes::new(bytes.get()).to_string(),
        Amount::Portion(portion) => format!("{portion} of a device"),
        Amount::Whole => "a whole device".to_string(),
        Amount::Plain(_) => "a device without declared memory".to_string(),
        Amount::Profile(name) => format!("a {name} slice"),
        Amount::Unknown(_) => "an unknown amount".to_string(),
    };
    if need.count.get() == 1 { each } else { format!("{} x {each}", need.count) }
}

fn node_phrase(reason: &NodeReason) -> &'static str {
    match reason {
        NodeReason::NoSuchNode => "not there",
        NodeReason::NotNamed { .. } => "not the one named",
        NodeReason::Unschedulable => "unschedulable",
        NodeReason::Silent { .. } => "silent",
        NodeReason::SelectorMismatch { .. } | NodeReason::AffinityMismatch => "not selected",
        NodeReason::TaintNotTolerated { .. } => "tainted",
        NodeReason::CapacityUnknown { .. } => "of unknown capacity",
        NodeReason::ShortOfCpu { .. } => "short of CPU",
        NodeReason::ShortOfNodeMemory { .. } => "short of main memory",
        NodeReason::PodsExhausted { .. } => "full of pods",
        NodeReason::NotFound { .. } => "not decided within the search's steps",
    }
}
