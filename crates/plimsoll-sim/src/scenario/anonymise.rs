//! Replaces the names in a state and keeps the numbers. Equal names get equal replacements.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_core::charge::Holding;
use plimsoll_core::device::{Capacity, Identity, Node};
use plimsoll_core::request::{Amount, Asks, DeviceSelector, Request, RequestId, Spec, Terms};
use plimsoll_core::rules::{NodeRules, Operator, Requirement, Subject, Term};
use plimsoll_core::units::Name;

use super::state::State;

/// Returns the state with replaced names of nodes, accounts, requests, containers, models, UUIDs
/// and labels.
#[must_use]
pub fn anonymise(state: &State) -> State {
    let mut mask = Mask { compares: compares_numbers(state), ..Mask::default() };
    let mut state = state.clone();
    state.nodes.iter_mut().for_each(|node| mask.node(node));
    state.measured.iter_mut().for_each(|(node, ..)| mask.hide("node", node));
    state.holdings.iter_mut().for_each(|holding| mask.holding(holding));
    state.pending.iter_mut().for_each(|request| mask.request(request));
    for (name, _, members) in &mut state.gangs {
        mask.hide("gang", name);
        members.iter_mut().for_each(|member| mask.request(member));
    }
    state
}

/// Returns true if a rule compares a label's value as a number.
fn compares_numbers(state: &State) -> bool {
    let members = state.gangs.iter().flat_map(|(_, _, members)| members);
    let asked = state.pending.iter().chain(members).map(|request| &*request.spec);
    let held = state.holdings.iter().filter_map(|holding| holding.spec.as_deref());
    let rules = asked.chain(held).map(|spec| &spec.rules);
    let requirements = rules.flat_map(|rules| {
        let terms = rules.any.iter().chain(rules.preferred.iter().map(|(_, term)| term));
        rules.all.iter().chain(terms.flat_map(|term| &term.0))
    });
    requirements.into_iter().any(|one| matches!(one.operator, Operator::Gt(_) | Operator::Lt(_)))
}

#[derive(Default)]
struct Mask {
    compares: bool,
    known: BTreeMap<(&'static str, Name), Name>,
    counts: BTreeMap<&'static str, u32>,
}

impl Mask {
    fn hide(&mut self, kind: &'static str, name: &mut Name) {
        let counts = &mut self.counts;
        let masked = self.known.entry((kind, name.clone())).or_insert_with(|| {
            let count = counts.entry(kind).or_default();
            *count += 1;
            format!("{kind}-{count}").into()
        });
        *name = masked.clone();
    }

    fn hide_all(&mut self, kind: &'static str, names: &mut [Name]) {
        names.iter_mut().for_each(|name| self.hide(kind, name));
    }

    fn node(&mut self, node: &mut Node) {
        self.hide("node", &mut node.name);
        let labels = std::mem::take(&mut node.labels);
        node.labels = labels.into_iter().map(|(key, value)| self.label(key, value)).collect();
        for taint in &mut node.taints {
            self.hide("key", &mut taint.key);
            if !taint.value.is_empty() {
                self.value(&mut taint.value);
            }
        }
        node.files = std::mem::take(&mut node.files)
            .into_iter()
            .map(|mut file| {
                self.hide("file", &mut file);
                file
            })
            .collect();
        if let Some(unknown) = &mut node.unknown {
            *unknown = "something is missing".into();
        }
        for device in &mut node.devices {
            if let Identity::Uuid(uuid) = &mut device.identity {
                self.hide("GPU", uuid);
            }
            if let Some(board) = &mut device.board {
                self.hide("board", board);
            }
            if let Some(model) = &mut device.model {
                self.hide("model", model);
            }
            if let Capacity::Unknown { missing } = &mut device.memory.total {
                *missing = "something is missing".into();
            }
        }
    }

    fn label(&mut self, mut key: Name, mut value: Name) -> (Name, Name) {
        self.hide("key", &mut key);
        self.value(&mut value);
        (key, value)
    }

    /// A value that is a number stays where rules compare numbers.
    fn value(&mut self, value: &mut Name) {
        if !self.compares || value.parse::<i64>().is_err() {
            self.hide("value", value);
        }
    }

    fn id(&mut self, id: &mut RequestId) {
        let same = id.uid == id.name;
        self.hide("ns", &mut id.account);
        self.hide("pod", &mut id.name);
        if same {
            id.uid = id.name.clone();
        } else {
            self.hide("uid", &mut id.uid);
        }
    }

    fn terms(&mut self, terms: &mut Terms) {
        if let Some(model) = &mut terms.model {
            self.hide("served", model);
        }
    }

    fn holding(&mut self, holding: &mut Holding) {
        self.id(&mut holding.request);
        self.hide("node", &mut holding.node);
        self.terms(&mut holding.terms);
        for part in holding.charges.iter_mut().flat_map(|charge| &mut charge.parts) {
            self.hide("container", &mut part.container);
        }
        if let Some(spec) = &mut holding.spec {
            self.spec(Arc::make_mut(spec));
        }
    }

    fn request(&mut self, request: &mut Request) {
        self.id(&mut request.id);
        self.terms(&mut request.terms);
        self.spec(Arc::make_mut(&mut request.spec));
    }

    fn spec(&mut self, spec: &mut Spec) {
        self.rules(&mut spec.rules);
        match &mut spec.asks {
            Asks::Malformed(misuse) | Asks::Waiting(misuse) => {
                misuse.problem = "it cannot be understood".into();
                misuse.fields = vec!["a field".into()];
            }
            Asks::Shapes(shapes) => {
                for container in shapes.iter_mut().flat_map(|shape| &mut shape.containers) {
                    self.hide("container", &mut container.name);
                    for need in &mut container.needs {
                        self.hide_selector(&mut need.selector);
                        if let Amount::Unknown(missing) = &mut need.amount {
                            *missing = "something".into();
                        }
                    }
                }
            }
        }
    }

    fn hide_selector(&mut self, selector: &mut DeviceSelector) {
        self.hide_all("model", &mut selector.models);
        self.hide_all("model", &mut selector.not_models);
        self.hide_all("GPU", &mut selector.uuids);
        self.hide_all("GPU", &mut selector.not_uuids);
    }

    fn rules(&mut self, rules: &mut NodeRules) {
        if let Some(named) = &mut rules.named {
            self.hide("node", named);
        }
        rules.all.iter_mut().for_each(|requirement| self.requirement(requirement));
        self.hide_all("file", &mut rules.files);
        let terms = rules.any.iter_mut().chain(rules.preferred.iter_mut().map(|(_, term)| term));
        for Term(requirements) in terms {
            requirements.iter_mut().for_each(|requirement| self.requirement(requirement));
        }
        for toleration in &mut rules.tolerations {
            if let Some(key) = &mut toleration.key {
                self.hide("key", key);
            }
            if let Some(value) = toleration.value.as_mut().filter(|value| !value.is_empty()) {
                self.value(value);
            }
        }
    }

    fn requirement(&mut self, requirement: &mut Requirement) {
        let of_label = match &mut requirement.subject {
            Subject::Label(key) => {
                self.hide("key", key);
                true
            }
            Subject::NodeName => false,
        };
        if let Operator::In(values) | Operator::NotIn(values) = &mut requirement.operator {
            for value in values {
                if of_label { self.value(value) } else { self.hide("node", value) }
            }
        }
    }
}
