//! The devices that an operator declares. They override all other sources for their vendor.

use plimsoll_core::device::{Device, Health, Identity, Memory, Sharing, Source};
use plimsoll_core::units::{Bytes, Cores, Name};

use crate::declared::{self, DEVICES, DeclaredDevice, DeviceChoice, Size};
use crate::finding::{AnnotationProblem, LabelProblem};
use crate::hami::vendor::Vendor;
use crate::labels::FeatureLabels;
use crate::object;
use crate::quantity::quoted;

use super::advertised::{self, Advertised, SHARED};
use super::discovered::{GPU, sharing, strategy};
use super::notes::Notes;
use super::{NVIDIA, NodeDevices, memory, mig, narrow, tokens};

/// Reads the declared devices. An unreadable declaration is an error, so that no weaker source
/// replaces it.
pub(super) fn devices(
    node: &object::Node,
    annotated: Option<DeviceChoice>,
    notes: &mut Notes,
) -> Result<NodeDevices, ()> {
    let Some(text) = node.metadata.annotations.get(DEVICES) else {
        return Ok(NodeDevices::default());
    };
    let listed = declared::decode(text)
        .map_err(|error| notes.add(AnnotationProblem::DeclarationUnreadable(error)))?;
    check_vendors(&listed, notes)?;
    if listed.is_empty() {
        notes.add(AnnotationProblem::DeclarationEmpty);
        return Ok(NodeDevices::default());
    }
    let mut by_index: Vec<(u32, DeclaredDevice)> = (0_u32..).zip(listed).collect();
    by_index.sort_by_key(|(position, device)| device.index.unwrap_or(*position));
    let listed: Vec<DeclaredDevice> = by_index.into_iter().map(|(_, device)| device).collect();
    Ok(shown(node, &listed, annotated, notes))
}

/// Rejects unknown vendors: no request could ask for their devices.
fn check_vendors(listed: &[DeclaredDevice], notes: &mut Notes) -> Result<(), ()> {
    let known = |vendor: &str| {
        Vendor::by_name(vendor).is_some() || vendor.starts_with(mig::RESOURCE_PREFIX)
    };
    let Some(device) = listed.iter().find(|device| !known(&device.vendor)) else { return Ok(()) };
    let vendor = quoted(&device.vendor);
    notes.add(AnnotationProblem::DeclaredVendorUnknown { vendor });
    Err(())
}

fn shown(
    node: &object::Node,
    listed: &[DeclaredDevice],
    annotated: Option<DeviceChoice>,
    notes: &mut Notes,
) -> NodeDevices {
    let cards = listed.iter().filter(|device| device.vendor == NVIDIA).count() as u64;
    let labels = FeatureLabels::read(&node.metadata.labels);
    let tokens = tokens_per_card(node, &labels, cards, notes);
    let by_labels = sharing(tokens.per_card, labels.product.as_deref(), strategy(&labels));
    let of = |device: &DeclaredDevice| {
        let nvidia = device.vendor == NVIDIA;
        match (annotated, by_labels) {
            (Some(DeviceChoice::Owned), _) => Sharing::Shares,
            (_, tokens) if nvidia => tokens,
            _ => Sharing::Exclusive,
        }
    };
    let shares_tokens = cards > 0 && by_labels != Sharing::Exclusive;
    let slots = |device: &DeclaredDevice| {
        let by_tokens = (shares_tokens && device.vendor == NVIDIA).then_some(tokens.per_card);
        device.slots.map(|slots| u32::try_from(slots).unwrap_or(u32::MAX)).or(by_tokens)
    };
    NodeDevices {
        devices: listed
            .iter()
            .map(|declared| device(declared, of(declared), slots(declared)))
            .collect(),
        physical: narrow(listed.len()),
        tokens: (cards > 0 && tokens.known).then_some(tokens.per_card),
        missing: (tokens.missing > 0)
            .then(|| (Name::from(NVIDIA), tokens.missing))
            .into_iter()
            .collect(),
        plugin_picks: shares_tokens,
        sources: [Source::Declared].into(),
        foreign: foreign(listed),
    }
}

fn foreign(listed: &[DeclaredDevice]) -> Vec<(u16, Bytes)> {
    let used = listed.iter().enumerate();
    used.filter_map(|(at, device)| Some((narrow(at), Bytes::new(device.foreign?.0)))).collect()
}

fn device(declared: &DeclaredDevice, sharing: Sharing, slots: Option<u32>) -> Device {
    let bytes = |size: Size| Bytes::new(size.0);
    let missing = || format!("annotation {DEVICES} does not tell the memory of this device");
    let total = match declared.memory.map(bytes) {
        Some(bytes) if bytes <= Bytes::DEVICE_MAX => {
            plimsoll_core::device::Capacity::Known { bytes, source: Source::Declared }
        }
        Some(bytes) => {
            memory::unknown(format!("annotation {DEVICES} declares {bytes}, which no device has"))
        }
        None => memory::unknown(missing()),
    };
    Device {
        identity: declared
            .uuid
            .as_deref()
            .map_or(Identity::Ordinal, |uuid| Identity::Uuid(uuid.into())),
        kind: declared.vendor.as_str().into(),
        model: declared.model.as_deref().map(Name::from),
        memory: Memory {
            total,
            reserve: declared.reserve.map_or(Bytes::ZERO, bytes),
            cap: declared.cap.map(bytes),
        },
        cores: declared.cores.map(|cores| Cores(u32::try_from(cores).unwrap_or(u32::MAX))),
        slots,
        sharing,
        numa: declared.numa.and_then(|numa| u16::try_from(numa).ok()),
        board: None,
        mode: declared.mode.as_deref().map(Name::from),
        health: if declared.health { Health::Healthy } else { Health::Faulty },
        cordoned: false,
        geometry: None,
        links: Default::default(),
    }
}

/// Tokens of declared cards, by labels and device plugin.
struct Tokens {
    per_card: u32,
    /// True if a label or the plugin gives the number.
    known: bool,
    missing: u16,
}

/// Determines the tokens per declared card. The number of cards is declared; tokens only show how
/// they are shared.
fn tokens_per_card(
    node: &object::Node,
    labels: &FeatureLabels,
    cards: u64,
    notes: &mut Notes,
) -> Tokens {
    let said = advertised::sum(&node.status, &[GPU, SHARED]).unwrap_or_else(|amount| {
        notes.add(LabelProblem::DeviceCountUnreadable(amount));
        Advertised::default()
    });
    let labelled = labels.replicas.as_ref().and_then(|replicas| replicas.as_ref().ok()).copied();
    let advertised = said
        .capacity
        .filter(|number| cards > 0 && number.is_multiple_of(cards))
        .map(|number| number / cards);
    // The larger number counts: treating a shared card as exclusive would promise too much.
    let said_tokens = advertised.max(labelled).filter(|tokens| *tokens > 0);
    let (per_card, known) = (said_tokens.unwrap_or(1), said_tokens.is_some());
    if cards > 0 && said.capacity.is_some_and(|number| number != cards.saturating_mul(per_card)) {
        notes.add(AnnotationProblem::DeclarationContradicts {
            resource: GPU.into(),
            cards,
            tokens_per_card: per_card,
            advertised: said.capacity.unwrap_or(0),
        });
        return Tokens { per_card: clip(per_card), known, missing: 0 };
    }
    let missing =
        if cards > 0 { tokens::missing(GPU, cards, per_card, said, notes).unwrap_or(0) } else { 0 };
    Tokens { per_card: clip(per_card), known, missing }
}

fn clip(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
