//! What a model and a runner are to the core: a request with shapes, a node with devices.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

use plimsoll_core::device::{Capacity, Device, Health, Identity, Node, Sharing, Source};
use plimsoll_core::request::{
    self, Amount, Asks, Container, Need, NodeNeed, Request, RequestId, Role, Shape, Spec, Terms,
    Wishes,
};
use plimsoll_core::rules::{Effect, NodeRules, Requirement, Taint, Term};
use plimsoll_core::units::{Bytes, Name};

use crate::memory::{self, Known};
use crate::model::{Eviction, Model, Selector};
use crate::size::{Size, Span};
use crate::wire::{DeviceFacts, FactsSource, Registration};

/// Who asks for a slot: the model is the account, so that everything a model holds is summed in one
/// place.
pub fn slot_request_id(model: &str, slot: &str) -> RequestId {
    RequestId::new(model, slot)
}

/// The purpose of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client has reserved it.
    Reservation,
    /// It is started before a client asks: speculative to the core.
    Prewarm,
}

/// Returns the core request for a slot of a model.
pub fn slot_request(
    model: &Model,
    known: Known<'_>,
    slot: &str,
    purpose: Purpose,
    reload_cost: Span,
) -> Request {
    let terms = terms(model, purpose, reload_cost);
    Request { id: slot_request_id(model.name(), slot), spec: Arc::new(spec(model, known)), terms }
}

/// Returns the terms on which slots of a model hold their devices.
pub fn terms(model: &Model, purpose: Purpose, reload_cost: Span) -> Terms {
    let declared = model.declared();
    let eviction = match declared.eviction {
        Eviction::Never => request::Eviction::Never,
        Eviction::Idle => request::Eviction::Idle,
        Eviction::LowerPriority => request::Eviction::LowerPriority,
    };
    Terms {
        priority: declared.priority,
        waits: true,
        deadline: None,
        pinned: declared.pinned,
        speculative: purpose == Purpose::Prewarm,
        eviction,
        model: Some(declared.name.as_str().into()),
        idle_limit: Some(declared.idle_limit.into()),
        reload_cost: declared.reload_cost.unwrap_or(reload_cost).into(),
    }
}

/// What is asked: every size that is allowed, best first, and of each the devices that are
/// preferred before the rest.
pub fn spec(model: &Model, known: Known<'_>) -> Spec {
    let place = &model.declared().place;
    let mut shapes = Vec::new();
    for need in memory::needs(model, known) {
        if place.preferred.selects_gpus() {
            shapes.extend(
                wishes(&place.required, Some(&place.preferred)).map(|w| shape(model, &need, &w)),
            );
        }
        shapes.extend(wishes(&place.required, None).map(|w| shape(model, &need, &w)));
    }
    if model.sizes().is_empty() {
        shapes.push(Shape { containers: vec![container(model, Vec::new())] });
    }
    let labels = |selector: &Selector| -> Vec<Requirement> {
        selector
            .labels
            .iter()
            .map(|(key, value)| Requirement::label_is(key.as_str(), value.as_str()))
            .collect()
    };
    let preferred = labels(&place.preferred);
    let preferred = if preferred.is_empty() { Vec::new() } else { vec![(100, Term(preferred))] };
    let mut all = labels(&place.required);
    all.extend(
        needs_file(model).map(|file| Requirement::label_is(file_label(file), FILE_IS_THERE)),
    );
    let rules = NodeRules { all, preferred, ..NodeRules::default() };
    let resources = NodeNeed::default();
    Spec { asks: Asks::Shapes(shapes), resources, rules, leaning: request::Leaning::default() }
}

/// The file that a runner must have for a model: it says what the model needs, and nobody else
/// does.
pub fn needs_file(model: &Model) -> Option<&str> {
    let declared = model.declared();
    declared
        .file
        .as_deref()
        .filter(|_| declared.memory.is_none() && declared.runtime.kind().is_some())
}

/// What a node is labelled with that has a file.
pub fn file_label(file: &str) -> String {
    format!("file:{file}")
}

/// The value of that label.
pub const FILE_IS_THERE: &str = "there";

/// Labels a node with the files that its runner has.
pub fn set_files(node: &mut Node, files: &BTreeSet<Name>) {
    let labels = files.iter().map(|file| (file_label(file).into(), FILE_IS_THERE.into()));
    node.labels.extend(labels);
}

fn shape(model: &Model, memory: &memory::Need, wishes: &Wishes) -> Shape {
    let need = |amount: Amount, count: u16| Need {
        count: NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN),
        wishes: wishes.clone(),
        ..Need::one(model.declared().vendor.as_str(), amount)
    };
    let needs = match &memory.charge {
        Err(missing) => vec![need(Amount::Unknown(missing.as_str().into()), memory.gpus)],
        Ok((_, sizes)) => {
            let runs = sizes.chunk_by(|one: &Size, other| one == other);
            runs.map(|run| {
                need(Amount::bytes(run[0].0), u16::try_from(run.len()).unwrap_or(u16::MAX))
            })
            .collect()
        }
    };
    Shape { containers: vec![container(model, needs)] }
}

fn container(model: &Model, needs: Vec<Need>) -> Container {
    Container { name: model.name().into(), role: Role::App, needs }
}

/// Which devices will do; `None` where what is preferred and what is required leave none.
fn wishes(required: &Selector, preferred: Option<&Selector>) -> Option<Wishes> {
    let none = Selector::default();
    let preferred = preferred.unwrap_or(&none);
    let models =
        if preferred.gpu_models.is_empty() { &required.gpu_models } else { &preferred.gpu_models };
    let uuids = both(&required.uuids, &preferred.uuids)?;
    let names = |texts: &[String]| texts.iter().map(|text| Name::from(text.as_str())).collect();
    Some(Wishes {
        models: names(models),
        uuids: names(&uuids),
        ordinals: both(&required.indices, &preferred.indices)?,
        ..Wishes::default()
    })
}

/// What is in both lists, where an empty list is everything; `None` when that is nothing.
fn both<T: Clone + PartialEq>(required: &[T], preferred: &[T]) -> Option<Vec<T>> {
    match (required, preferred) {
        ([], list) | (list, []) => Some(list.to_vec()),
        (required, preferred) => {
            let common: Vec<T> =
                preferred.iter().filter(|one| required.contains(one)).cloned().collect();
            (!common.is_empty()).then_some(common)
        }
    }
}

/// The node that a runner is to the core.
pub fn node(runner: &str, registration: &Registration) -> Node {
    let name = |text: &String| Name::from(text.as_str());
    Node {
        labels: registration.labels.iter().map(|(key, value)| (name(key), name(value))).collect(),
        devices: registration.devices.iter().map(device).collect(),
        ..Node::new(runner)
    }
}

/// What stands on a node once for every start that failed there in a row: it is chosen after those
/// without it.
const START_FAILED: &str = "plimsoll.dev/start-failed";

/// How many starts failed on a node in a row.
pub fn failed_starts(node: &Node) -> u16 {
    let failed = node.taints.iter().filter(|taint| &*taint.key == START_FAILED).count();
    u16::try_from(failed).unwrap_or(u16::MAX)
}

/// So many starts failed on a node in a row.
pub fn set_failed_starts(node: &mut Node, failed: u16) {
    node.taints.retain(|taint| &*taint.key != START_FAILED);
    node.taints.extend((1..=failed).map(|number| Taint {
        key: START_FAILED.into(),
        value: number.to_string().into(),
        effect: Effect::PreferNoSchedule,
    }));
}

fn device(facts: &DeviceFacts) -> Device {
    let source = match facts.source {
        FactsSource::Declared => Source::Declared,
        FactsSource::Nvml => Source::Nvml,
    };
    let mut device = Device::new(facts.kind.as_str(), Bytes::ZERO, source);
    device.identity =
        facts.uuid.as_deref().map_or(Identity::Ordinal, |uuid| Identity::Uuid(uuid.into()));
    device.model = facts.model.as_deref().map(Name::from);
    device.memory.total = match facts.total {
        Some(total) if total > 0 => Capacity::Known { bytes: Bytes::new(total), source },
        _ => Capacity::Unknown { missing: "the runner reports no memory".into() },
    };
    device.memory.reserve = Bytes::new(facts.reserve);
    device.memory.cap = facts.cap.map(Bytes::new);
    device.sharing = Sharing::Shares;
    device.numa = facts.numa;
    device.health = if facts.healthy { Health::Healthy } else { Health::Faulty };
    device
}
