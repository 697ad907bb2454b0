//! Translation into core values: a model becomes a request with shapes, a runner becomes a node
//! with devices.

use std::num::NonZeroU16;
use std::sync::Arc;

use plimsoll_core::device::{Capacity, Device, Health, Identity, Node, Sharing, Source};
use plimsoll_core::request::{
    self, Amount, Asks, Container, DeviceSelector, Need, NodeNeed, Request, RequestId, Role, Shape,
    Spec, Terms,
};
use plimsoll_core::rules::{NodeRules, Requirement, Term};
use plimsoll_core::units::{Bytes, Name};

use crate::memory::{self, MemoryFacts};
use crate::model::{Eviction, Model, Selector};
use crate::size::{Size, Span};
use crate::wire::{DeviceFacts, FactsSource, Registration};

/// The weight of preferred labels, the largest that the core knows.
const PREFERRED_WEIGHT: u8 = 100;

/// Returns the id of a slot's request. The model is the account, so that the core sums what each
/// model holds.
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
    facts: MemoryFacts<'_>,
    slot: &str,
    purpose: Purpose,
    reload_cost: Span,
) -> Request {
    let terms = terms(model, purpose, reload_cost);
    Request { id: slot_request_id(model.name(), slot), spec: Arc::new(spec(model, facts)), terms }
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
        stop_limit: Some(declared.runtime.grace().into()),
    }
}

/// Returns the spec of a model's slots: a shape for each allowed number of GPUs, most preferred
/// first, and of each number the preferred devices before all allowed ones.
pub fn spec(model: &Model, facts: MemoryFacts<'_>) -> Spec {
    let placement = &model.declared().placement;
    let mut shapes = Vec::new();
    for need in memory::needs(model, facts) {
        if placement.preferred.selects_gpus() {
            let preferred = device_selector(&placement.required, Some(&placement.preferred));
            shapes.extend(preferred.map(|selector| shape(model, &need, &selector)));
        }
        let allowed = device_selector(&placement.required, None);
        shapes.extend(allowed.map(|selector| shape(model, &need, &selector)));
    }
    if model.sizes().is_empty() {
        shapes.push(Shape { containers: vec![container(model, Vec::new())] });
    }
    Spec {
        asks: Asks::Shapes(shapes),
        resources: NodeNeed::default(),
        rules: node_rules(model),
        hints: request::PlacementHints::default(),
    }
}

fn node_rules(model: &Model) -> NodeRules {
    let placement = &model.declared().placement;
    let preferred = label_requirements(&placement.preferred);
    let preferred =
        if preferred.is_empty() { Vec::new() } else { vec![(PREFERRED_WEIGHT, Term(preferred))] };
    NodeRules {
        all: label_requirements(&placement.required),
        preferred,
        files: model.declared().required_files().into_iter().map(Name::from).collect(),
        ..NodeRules::default()
    }
}

fn label_requirements(selector: &Selector) -> Vec<Requirement> {
    let labels = selector.labels.iter();
    labels.map(|(key, value)| Requirement::label_is(key.as_str(), value.as_str())).collect()
}

fn shape(model: &Model, memory: &memory::Need, selector: &DeviceSelector) -> Shape {
    let vendor = model.declared().vendor.as_str();
    let needs = match &memory.charge {
        Err(_) if memory.takes_whole_gpus() => {
            vec![device_need(vendor, Amount::Whole, usize::from(memory.gpus), selector)]
        }
        Err(unknown) => {
            let amount = Amount::Unknown(unknown.to_string().into());
            vec![device_need(vendor, amount, usize::from(memory.gpus), selector)]
        }
        Ok((_, sizes)) => sizes
            .chunk_by(Size::eq)
            .map(|run| device_need(vendor, Amount::bytes(run[0].0), run.len(), selector))
            .collect(),
    };
    Shape { containers: vec![container(model, needs)] }
}

fn device_need(vendor: &str, amount: Amount, count: usize, selector: &DeviceSelector) -> Need {
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    Need {
        count: NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN),
        selector: selector.clone(),
        ..Need::one(vendor, amount)
    }
}

fn container(model: &Model, needs: Vec<Need>) -> Container {
    Container { name: model.name().into(), role: Role::App, needs }
}

/// Returns the accepted devices; `None` if no device is both required and preferred.
fn device_selector(required: &Selector, preferred: Option<&Selector>) -> Option<DeviceSelector> {
    let anything = Selector::default();
    let preferred = preferred.unwrap_or(&anything);
    let models =
        if preferred.gpu_models.is_empty() { &required.gpu_models } else { &preferred.gpu_models };
    Some(DeviceSelector {
        models: names(models),
        uuids: names(&intersection(&required.uuids, &preferred.uuids)?),
        ordinals: intersection(&required.indices, &preferred.indices)?,
        ..DeviceSelector::default()
    })
}

fn names(texts: &[String]) -> Vec<Name> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

/// Returns the common elements of two lists, of which an empty one means everything; `None` if
/// there are none.
fn intersection<T: Clone + PartialEq>(required: &[T], preferred: &[T]) -> Option<Vec<T>> {
    match (required, preferred) {
        ([], list) | (list, []) => Some(list.to_vec()),
        _ => {
            let common: Vec<T> =
                preferred.iter().filter(|one| required.contains(one)).cloned().collect();
            (!common.is_empty()).then_some(common)
        }
    }
}

/// Returns the node that represents a runner in the core.
pub fn node(runner: &str, registration: &Registration) -> Node {
    let labels = registration.labels.iter();
    Node {
        labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        devices: registration.devices.iter().map(device).collect(),
        ..Node::new(runner)
    }
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
