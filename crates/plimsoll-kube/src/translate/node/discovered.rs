//! GPUs described by the labels of NVIDIA's feature discovery: number, memory, sharing.
//!
//! One set of labels describes all cards of a node, or all MIG instances of one profile. If counts
//! and capacity disagree, the node probably has cards of several models, and the labels are not
//! trusted.

use std::collections::BTreeSet;

use plimsoll_core::device::{Capacity, Device, Health, Identity, Sharing, Source, Strategy};
use plimsoll_core::units::Name;

use crate::finding::LabelProblem;
use crate::labels::{self, FeatureLabels, Field};
use crate::object;

use super::advertised::{self, Advertised, SHARED};
use super::notes::Notes;
use super::tokens::{CountFacts, Counted};
use super::{NVIDIA, NodeDevices, cloud, counted, memory, mig};

/// The resource of NVIDIA's device plugin.
pub(super) const GPU: &str = "nvidia.com/gpu";

/// The suffix of the model's name where the device plugin shares the card.
pub(super) const SHARED_PRODUCT: &str = "-SHARED";

/// Reads the devices that labels describe, whole cards first.
pub(super) fn devices(node: &object::Node, notes: &mut Notes) -> NodeDevices {
    let labels = FeatureLabels::read(&node.metadata.labels);
    let mut profiles = mig::profiles(&labels, &node.status);
    mig::drop_stale(&mut profiles, &labels, &node.status, notes);
    let mut shown = whole(node, &labels, &profiles, notes);
    for profile in profiles {
        shown.add(mig::instances(node, &labels, &profile, notes));
    }
    if let Some(Ok(cards)) = labels.count
        && !shown.devices.is_empty()
    {
        shown.physical = u16::try_from(cards).unwrap_or(u16::MAX);
    }
    shown
}

/// Reads the cards that are not cut into MIG instances.
fn whole(
    node: &object::Node,
    labels: &FeatureLabels,
    profiles: &BTreeSet<String>,
    notes: &mut Notes,
) -> NodeDevices {
    if let Some(problem) = unusable(labels) {
        notes.add(problem);
        return NodeDevices::default();
    }
    let advertised = match advertised::sum(&node.status, &[GPU, SHARED]) {
        Ok(advertised) => advertised,
        Err(amount) => {
            notes.add(LabelProblem::DeviceCountUnreadable(amount));
            return NodeDevices::default();
        }
    };
    let Some(count) = mig::whole_cards(labels, advertised, profiles, &node.status, notes) else {
        return NodeDevices::default();
    };
    let (count, replicas) = match without_count(node, labels, &count, advertised, profiles) {
        Uncounted::Facts(count, replicas) => (count, replicas),
        Uncounted::MaybeShared(number) => {
            let total = memory::unknown(format!("label {GPU}.count is missing"));
            return counted::maybe_shared(GPU, NVIDIA, number, total, notes);
        }
    };
    let described =
        profiles.is_empty() && (labels.memory_mib.is_some() || labels.product.is_some());
    let facts =
        CountFacts { resource: GPU, count: &count, replicas: &replicas, described, advertised };
    // With labels alone the plugin picks among the cards.
    let Some(counted) = facts.count(notes) else {
        return NodeDevices { plugin_picks: true, ..NodeDevices::default() };
    };
    let mut shown = Group::whole(labels).shown(counted, notes);
    if labels.count.is_none() && !shown.devices.is_empty() {
        shown.sources = [Source::Capacity].into();
    }
    shown
}

/// The number of cards and tokens, where it can be known without NVIDIA's count label.
enum Uncounted {
    Facts(Field<u64>, Field<u64>),
    /// The number of advertised devices; each can be a card or a share of one.
    MaybeShared(u64),
}

/// Finds the number of cards where the count label is missing: a single advertised device is one
/// card, and several are cards if the cloud provider says so.
fn without_count(
    node: &object::Node,
    labels: &FeatureLabels,
    count: &Field<u64>,
    advertised: Advertised,
    profiles: &BTreeSet<String>,
) -> Uncounted {
    let said = || Uncounted::Facts(count.clone(), labels.replicas.clone());
    let Some(number) = advertised.capacity.filter(|number| *number > 0) else { return said() };
    if count.is_some() {
        return said();
    }
    // The provider counts all cards of the machine, including those that are cut into instances.
    let cloud = profiles.is_empty().then(|| cloud::cards(&node.metadata.labels, number)).flatten();
    if let Some(cloud) = cloud {
        return Uncounted::Facts(Some(Ok(cloud.cards)), Some(Ok(cloud.tokens_per_card)));
    }
    match (number, &labels.replicas) {
        (1, _) => Uncounted::Facts(Some(Ok(1)), labels.replicas.clone()),
        (number, _) => Uncounted::MaybeShared(number),
    }
}

/// Returns the reason why the labels describe no usable card, if there is one.
fn unusable(labels: &FeatureLabels) -> Option<LabelProblem> {
    if let Some(Err(error)) = &labels.mig_strategy {
        return Some(LabelProblem::Unreadable(error.clone()));
    }
    let invalid = labels.product.as_ref().filter(|product| product.contains("-MIG-INVALID"))?;
    Some(LabelProblem::MigMixed { product: invalid.clone() })
}

/// Devices that one set of labels describes.
pub(super) struct Group<'a> {
    pub(super) resource: &'a str,
    pub(super) kind: &'a str,
    pub(super) memory: &'a Field<u64>,
    pub(super) product: Option<&'a str>,
    pub(super) strategy: Strategy,
}

impl<'a> Group<'a> {
    /// Creates the group of cards that are not cut.
    fn whole(labels: &'a FeatureLabels) -> Group<'a> {
        Group {
            resource: GPU,
            kind: NVIDIA,
            memory: &labels.memory_mib,
            product: labels.product.as_deref(),
            strategy: strategy(labels),
        }
    }

    /// Creates the devices, once their number is known.
    pub(super) fn shown(&self, counted: Counted, notes: &mut Notes) -> NodeDevices {
        if counted.cards == 0 {
            return NodeDevices::default();
        }
        let device = self.device(counted, notes);
        let missing = (counted.missing > 0).then(|| (device.kind.clone(), counted.missing));
        NodeDevices {
            devices: vec![device; usize::from(counted.cards)],
            physical: counted.cards,
            tokens: Some(counted.tokens),
            missing: missing.into_iter().collect(),
            plugin_picks: true,
            sources: [Source::Label].into(),
            ..NodeDevices::default()
        }
    }

    fn device(&self, counted: Counted, notes: &mut Notes) -> Device {
        let sharing = sharing(counted.tokens, self.product, self.strategy);
        Device {
            identity: Identity::Ordinal,
            kind: self.kind.into(),
            model: self.product.filter(|product| !product.is_empty()).map(Name::from),
            memory: memory::memory(self.capacity(counted.cards, notes)),
            cores: None,
            slots: (sharing != Sharing::Exclusive).then_some(counted.tokens),
            sharing,
            numa: None,
            board: None,
            mode: (self.strategy == Strategy::Mps).then(|| "mps".into()),
            health: Health::Healthy,
            cordoned: false,
            geometry: None,
            links: Default::default(),
        }
    }

    fn capacity(&self, cards: u16, notes: &mut Notes) -> Capacity {
        let label = format!("label {}.memory", self.resource);
        let error = match self.memory {
            Some(Ok(mib)) => return memory::of_mib(*mib, Source::Label, &label),
            Some(Err(error)) => Some(error.clone()),
            None => None,
        };
        let missing = error.as_ref().map_or(format!("{label} is missing"), ToString::to_string);
        notes.add(LabelProblem::MemoryMissing { resource: self.resource.into(), cards, error });
        memory::unknown(missing)
    }
}

/// Returns the sharing strategy that the labels name; time-slicing without one.
pub(super) fn strategy(labels: &FeatureLabels) -> Strategy {
    match labels.sharing {
        Some(labels::Sharing::Mps) => Strategy::Mps,
        _ => Strategy::TimeSlicing,
    }
}

/// Determines the sharing of a card with this many tokens. A model's name that says it is shared
/// overrides the number.
pub(super) fn sharing(tokens: u32, product: Option<&str>, strategy: Strategy) -> Sharing {
    let named_shared = product.is_some_and(|product| product.ends_with(SHARED_PRODUCT));
    if tokens <= 1 && !named_shared {
        return Sharing::Exclusive;
    }
    Sharing::Tokens { replicas: tokens, strategy }
}
