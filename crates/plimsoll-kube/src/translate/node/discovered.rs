//! GPUs described by the labels of NVIDIA's feature discovery: number, memory, sharing.
//!
//! One set of labels describes all cards of a node, or all MIG instances of one profile. If counts
//! and capacity disagree, the node probably has cards of several models, and the labels are not
//! trusted.

use plimsoll_core::device::{Capacity, Device, Health, Identity, Sharing, Source, Strategy};
use plimsoll_core::units::Name;

use crate::declared::DEVICES;
use crate::labels::{self, FeatureLabels, Field};
use crate::object;

use super::advertised::{self, SHARED};
use super::notes::{Note, Notes};
use super::tokens::{Claim, Counted};
use super::{NVIDIA, Shown, memory, mig};

/// The resource of NVIDIA's device plugin.
pub(super) const GPU: &str = "nvidia.com/gpu";

/// The suffix of the model's name where the device plugin shares the card.
const SHARED_PRODUCT: &str = "-SHARED";

/// Reads the devices that labels describe, whole cards first.
pub(super) fn devices(node: &object::Node, notes: &mut Notes) -> Shown {
    let labels = FeatureLabels::read(&node.metadata.labels);
    let profiles = mig::profiles(&labels, &node.status);
    let mut shown = whole(node, &labels, !profiles.is_empty(), notes);
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
    beside_slices: bool,
    notes: &mut Notes,
) -> Shown {
    if let Some(note) = unusable(labels) {
        notes.close(note);
        return Shown::default();
    }
    let advertised = match advertised::of(&node.status, &[GPU, SHARED]) {
        Ok(advertised) => advertised,
        Err(problem) => {
            notes.close(unreadable(problem));
            return Shown::default();
        }
    };
    let Some(count) = mig::whole_cards(labels, advertised, beside_slices, &node.status, notes)
    else {
        return Shown::default();
    };
    let described = !beside_slices && (labels.memory_mib.is_some() || labels.product.is_some());
    let claim =
        Claim { resource: GPU, count: &count, replicas: &labels.replicas, described, advertised };
    // With labels alone the plugin picks among the cards.
    let Some(counted) = claim.count(notes) else {
        return Shown { plugin_picks: true, ..Shown::default() };
    };
    let group = Group {
        resource: GPU,
        kind: NVIDIA,
        memory: &labels.memory_mib,
        product: labels.product.as_deref(),
        is_mps: labels.sharing == Some(labels::Sharing::Mps),
    };
    group.shown(counted, notes)
}

/// Returns the reason why the labels describe no usable card, if there is one.
fn unusable(labels: &FeatureLabels) -> Option<Note> {
    if let Some(Err(error)) = &labels.mig_strategy {
        let note = Note::error("label-unreadable", error.to_string());
        return Some(
            note.remedy(format!(
                "correct the label, or declare the devices in annotation {DEVICES}"
            )),
        );
    }
    let invalid = labels.product.as_ref().filter(|product| product.contains("-MIG-INVALID"))?;
    let message = format!(
        "label {} is {invalid}: under the MIG strategy \"single\" the cards of this node are not all cut alike",
        labels::PRODUCT
    );
    let remedy = "cut all cards into instances of one profile, or use the MIG strategy \"mixed\"";
    Some(Note::warning("mig-invalid", message).remedy(remedy))
}

pub(super) fn unreadable(problem: String) -> Note {
    let remedy = format!(
        "restart the device plugin on this node, or declare its devices in annotation {DEVICES}"
    );
    Note::error("quantity-unreadable", problem).remedy(remedy)
}

/// Devices that one set of labels describes.
pub(super) struct Group<'a> {
    pub(super) resource: &'a str,
    pub(super) kind: &'a str,
    pub(super) memory: &'a Field<u64>,
    pub(super) product: Option<&'a str>,
    pub(super) is_mps: bool,
}

impl Group<'_> {
    /// Creates the devices, once their number is known.
    pub(super) fn shown(&self, counted: Counted, notes: &mut Notes) -> Shown {
        if counted.cards == 0 {
            return Shown::default();
        }
        let device = self.device(counted, notes);
        let missing = (counted.missing > 0).then(|| (device.kind.clone(), counted.missing));
        Shown {
            devices: vec![device; usize::from(counted.cards)],
            physical: counted.cards,
            tokens: Some(counted.tokens),
            missing: missing.into_iter().collect(),
            plugin_picks: true,
            sources: [Source::Label].into(),
            ..Shown::default()
        }
    }

    fn device(&self, counted: Counted, notes: &mut Notes) -> Device {
        let sharing = sharing(counted.tokens, self.product, self.is_mps);
        Device {
            identity: Identity::Ordinal,
            kind: self.kind.into(),
            model: self.product.filter(|product| !product.is_empty()).map(Name::from),
            memory: memory::memory(self.capacity(counted.cards, notes)),
            cores: None,
            slots: (sharing != Sharing::Exclusive).then_some(counted.tokens),
            sharing,
            numa: None,
            mode: self.is_mps.then(|| "mps".into()),
            health: Health::Healthy,
            cordoned: false,
            geometry: None,
            links: Default::default(),
        }
    }

    fn capacity(&self, cards: u16, notes: &mut Notes) -> Capacity {
        let label = format!("label {}.memory", self.resource);
        let missing = match self.memory {
            Some(Ok(mib)) => return memory::of_mib(*mib, Source::Label, &label),
            Some(Err(error)) => error.to_string(),
            None => label.clone(),
        };
        let problem =
            if self.memory.is_some() { missing.clone() } else { format!("{label} is missing") };
        let message = format!(
            "{problem}: how much memory {cards} of {} have is unknown, so that they take whole-device work only",
            self.resource
        );
        let remedy = format!(
            "run NVIDIA's GPU feature discovery on this node, or declare its devices in annotation {DEVICES}"
        );
        let note =
            Note::warning("memory-label-missing", message).with([("cards", u64::from(cards))]);
        notes.add(note.remedy(remedy));
        memory::unknown(missing)
    }
}

/// Determines the sharing of a card with this many tokens. A model's name that says it is shared
/// overrides the number.
pub(super) fn sharing(tokens: u32, product: Option<&str>, is_mps: bool) -> Sharing {
    let named_shared = product.is_some_and(|product| product.ends_with(SHARED_PRODUCT));
    if tokens <= 1 && !named_shared {
        return Sharing::Exclusive;
    }
    let strategy = if is_mps { Strategy::Mps } else { Strategy::TimeSlicing };
    Sharing::Tokens { replicas: tokens, strategy }
}
