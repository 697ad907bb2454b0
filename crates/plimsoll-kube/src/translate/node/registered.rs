//! Devices of HAMi's register annotations, and devices that follow from capacity by HAMi's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_core::device::{
    Capacity, Device, Geometry, Health, Identity, Profile, Sharing, Source, Span,
};
use plimsoll_core::units::{Cores, Name};

use crate::declared::DEVICES;
use crate::finding::{AnnotationProblem, MigProfileProblem, PluginProblem};
use crate::hami::capacity;
use crate::hami::register::{MigProfile, Placement, RegisteredDevice, SCORE, decode_score};
use crate::hami::vendor::{
    MemorySource, Register, SOFT_SPLIT, SOFT_SPLIT_MODE, TEMPLATE_MODE, VENDORS, Vendor,
};
use crate::object;

use super::notes::Notes;
use super::{NVIDIA, NodeDevices, advertised, memory, mig, narrow, scaled, shortfall};

/// Vendors whose cards are listed under one of two names, depending on how they are handed out.
const SAME_CARDS: &[[&str; 2]] =
    &[["Metax-GPU", "Metax-SGPU"], ["GCU", "Enflame"], ["kunlun", "XPU"]];

/// The mode of NVIDIA's cards where HAMi's library shares them out.
const HAMI_CORE: &str = "hami-core";

/// The domains of register annotations: HAMi's, that of its first versions, and Volcano's.
const REGISTER_DOMAINS: &[&str] = &["hami.io", "4pd.io", "volcano.sh"];

/// Reads the devices of every vendor that is not `taken` by a stronger source. A vendor with an
/// unreadable list is returned without devices, so that no weaker source replaces it.
pub(super) fn devices(
    node: &object::Node,
    taken: &BTreeSet<String>,
    notes: &mut Notes,
) -> Vec<(&'static str, NodeDevices)> {
    let mut found = Vec::new();
    for vendor in VENDORS.iter().filter(|vendor| !taken.contains(vendor.name)) {
        match capacity::devices(
            vendor,
            notes.node(),
            &node.metadata.annotations,
            &node.status.capacity,
        ) {
            Ok(None) => {}
            Ok(Some(listed)) if listed.is_empty() => {
                check_empty(vendor, node, notes);
                found.push((vendor.name, NodeDevices::default()));
            }
            Ok(Some(listed)) => found.push((vendor.name, of_vendor(vendor, node, listed, notes))),
            Err(error) => {
                notes.add(AnnotationProblem::RegisterUnreadable(error));
                found.push((vendor.name, NodeDevices::default()));
            }
        }
    }
    check_same_cards(&found, notes);
    found
}

/// Reports advertised devices that no register lists. `known` are the devices of other sources: if
/// there are none, the node's devices are unknown.
pub(super) fn check_listed(
    node: &object::Node,
    taken: &BTreeSet<String>,
    known: &[Device],
    notes: &mut Notes,
) {
    for vendor in
        VENDORS.iter().filter(|vendor| vendor.name != NVIDIA && !taken.contains(vendor.name))
    {
        let Some(key) = annotation(vendor) else { continue };
        let Ok(advertised::Advertised { capacity: Some(advertised @ 1..), .. }) =
            advertised::sum(&node.status, &[vendor.count])
        else {
            continue;
        };
        let (resource, has_other_devices) = (vendor.count.into(), !known.is_empty());
        notes.add(AnnotationProblem::RegisterMissing {
            resource,
            key,
            advertised,
            has_other_devices,
        });
    }
}

/// Reports advertised devices of a vendor whose register is empty.
fn check_empty(vendor: &Vendor, node: &object::Node, notes: &mut Notes) {
    let Some(key) = annotation(vendor) else { return };
    let mut names = vec![vendor.count];
    if vendor.name == NVIDIA {
        names.push(advertised::SHARED);
        names.extend(mig::resources(&node.status));
    }
    if let Ok(advertised::Advertised { capacity: Some(advertised @ 1..), .. }) =
        advertised::sum(&node.status, &names)
    {
        notes.add(AnnotationProblem::RegisterEmpty { vendor: vendor.name, key, advertised });
    }
}

/// Reports cards with more compute than a card has: their operator scales it.
fn note_scaled_cores(listed: &[RegisteredDevice], notes: &mut Notes) {
    for device in listed {
        if let Some(cores @ 101..) = device.cores {
            notes.add(PluginProblem::CoresScaled { uuid: device.id.as_str().into(), cores });
        }
    }
}

/// Reports registers of names that are not read: of older plugins, and of Volcano. `known` are the
/// devices of other sources: if there are none, the node's devices are unknown.
pub(super) fn check_unread(node: &object::Node, known: &[Device], notes: &mut Notes) {
    let is_read = |key: &str| VENDORS.iter().any(|vendor| annotation(vendor) == Some(key));
    for (key, text) in node.metadata.annotations.iter() {
        let Some((domain, name)) = key.split_once('/') else { continue };
        let is_register = name.starts_with("node-register-")
            || (name.starts_with("node-") && name.ends_with("-register"));
        if REGISTER_DOMAINS.contains(&domain)
            && is_register
            && !is_read(key)
            && !matches!(text.trim(), "" | "[]" | "null")
        {
            let has_other_devices = !known.is_empty();
            notes.add(PluginProblem::RegisterUnread { key: key.into(), has_other_devices });
        }
    }
}

/// Returns the annotation that lists a vendor's devices, if there is one.
fn annotation(vendor: &Vendor) -> Option<&'static str> {
    match vendor.register {
        Register::Annotation(key) | Register::MetaxSgpu(key) | Register::EnflameDrs(key) => {
            Some(key)
        }
        Register::Capacity(_) => None,
    }
}

fn check_same_cards(found: &[(&'static str, NodeDevices)], notes: &mut Notes) {
    let has = |word: &str| found.iter().any(|(of, shown)| *of == word && !shown.devices.is_empty());
    for [whole, shared] in SAME_CARDS.iter().filter(|[whole, shared]| has(whole) && has(shared)) {
        notes.add(AnnotationProblem::CardsListedTwice { whole, shared });
    }
}

fn of_vendor(
    vendor: &'static Vendor,
    node: &object::Node,
    mut listed: Vec<RegisteredDevice>,
    notes: &mut Notes,
) -> NodeDevices {
    listed.sort_by_key(|device| device.index);
    let source = match vendor.register {
        Register::Capacity(_) => Source::Capacity,
        _ => Source::Register,
    };
    let mut devices: Vec<Device> =
        listed.iter().map(|listed| device(vendor, listed, source, notes)).collect();
    if vendor.name == NVIDIA {
        scaled::cap_at_label(node, &mut devices, notes);
        link(node, &mut devices, notes);
    }
    if vendor.name == NVIDIA {
        note_scaled_cores(&listed, notes);
        // HAMi's only mode before it wrote modes.
        devices.iter_mut().for_each(|device| {
            device.mode.get_or_insert_with(|| HAMI_CORE.into());
        });
    }
    if vendor.has_soft_split() {
        let is_soft = node.metadata.annotations.get(SOFT_SPLIT) == Some("true");
        let mode = if is_soft { SOFT_SPLIT_MODE } else { TEMPLATE_MODE };
        devices.iter_mut().for_each(|device| device.mode = Some(mode.into()));
    }
    let missing = annotation(vendor)
        .map_or(0, |key| shortfall::missing_cards(vendor, key, node, &listed, notes));
    let tokens = listed.first().map(|device| device.slots);
    let tokens = tokens.filter(|tokens| listed.iter().all(|device| device.slots == *tokens));
    NodeDevices {
        physical: narrow(devices.len()),
        tokens: tokens.and_then(|tokens| u32::try_from(tokens).ok()),
        devices,
        missing: (missing > 0).then(|| (vendor.name.into(), missing)).into_iter().collect(),
        sources: [source].into(),
        ..NodeDevices::default()
    }
}

fn device(
    vendor: &'static Vendor,
    listed: &RegisteredDevice,
    source: Source,
    notes: &mut Notes,
) -> Device {
    let shares = if vendor.equal_shares { Sharing::EqualShares } else { Sharing::Shares };
    let taken_whole = listed.slots <= 1 && vendor.memory_source != MemorySource::Reported;
    Device {
        identity: Identity::Uuid(listed.id.as_str().into()),
        kind: vendor.name.into(),
        model: (!listed.model.is_empty()).then(|| listed.model.as_str().into()),
        memory: memory::memory(total(vendor, listed, source)),
        cores: listed.cores.map(|cores| Cores(u32::try_from(cores).unwrap_or(u32::MAX))),
        slots: Some(u32::try_from(listed.slots).unwrap_or(u32::MAX)),
        sharing: if taken_whole { Sharing::Exclusive } else { shares },
        numa: listed.numa.and_then(|numa| u16::try_from(numa).ok()),
        board: listed.board.as_deref().map(Name::from),
        mode: listed.mode.as_deref().map(Name::from),
        health: if listed.healthy { Health::Healthy } else { Health::Faulty },
        cordoned: false,
        geometry: geometry(vendor, listed, notes),
        links: BTreeMap::new(),
    }
}

fn total(vendor: &'static Vendor, listed: &RegisteredDevice, source: Source) -> Capacity {
    let field = match vendor.register {
        Register::Annotation(key) => format!("devmem of {} in annotation {key}", listed.id),
        Register::MetaxSgpu(key) => format!("totalVRam of {} in annotation {key}", listed.id),
        Register::EnflameDrs(key) => format!("profiles in annotation {key}"),
        Register::Capacity(_) => {
            let resource = vendor.memory.map_or(vendor.count, |memory| memory.name);
            format!("capacity {resource} of a card")
        }
    };
    match (vendor.memory_source, listed.memory_mib) {
        (MemorySource::Reported, Some(mib)) => memory::of_mib(mib, source, &field),
        (MemorySource::Reported, None) => memory::unknown(format!("{field} is missing")),
        (MemorySource::Assumed(mib), _) => memory::unknown(format!(
            "nothing on the node says how much memory a device of {} has (HAMi assumes {mib} MiB); annotation {DEVICES} can",
            vendor.count
        )),
        (MemorySource::Unknown, _) => memory::unknown(format!(
            "nothing on the node says how much memory a device of {} has; annotation {DEVICES} can",
            vendor.count
        )),
    }
}

/// Reads the MIG profiles of a card. Without profiles no instance is placed on it.
fn geometry(
    vendor: &'static Vendor,
    listed: &RegisteredDevice,
    notes: &mut Notes,
) -> Option<Arc<Geometry>> {
    let is_drs = matches!(vendor.register, Register::EnflameDrs(_));
    let is_cut = listed.mode.as_deref() == Some("mig") || is_drs && !listed.mig_profiles.is_empty();
    if !is_cut {
        return None;
    }
    let problem = match listed.mig_profiles.iter().map(profile).collect::<Result<Vec<_>, _>>() {
        Ok(profiles) if !profiles.is_empty() => return Some(Arc::new(Geometry { profiles })),
        Ok(_) => MigProfileProblem::NoProfiles,
        Err(problem) => problem,
    };
    let key = annotation(vendor).unwrap_or(vendor.count);
    let device = listed.id.clone();
    notes.add(AnnotationProblem::MigProfilesUnreadable { key, device, problem });
    Some(Arc::new(Geometry { profiles: Vec::new() }))
}

fn profile(listed: &MigProfile) -> Result<Profile, MigProfileProblem> {
    let name = || listed.name.clone();
    let memory = memory::bytes(listed.memory_mib)
        .ok_or_else(|| MigProfileProblem::Memory { profile: name(), mib: listed.memory_mib })?;
    let cores = u32::try_from(listed.core)
        .map_err(|_| MigProfileProblem::Cores { profile: name(), cores: listed.core })?;
    let placements = listed
        .placements
        .iter()
        .map(|placement| span(&listed.name, placement))
        .collect::<Result<_, _>>()?;
    Ok(Profile { name: listed.name.as_str().into(), memory, cores: Cores(cores), placements })
}

/// Converts a placement. Slices are bits of a word: a slice beyond the last bit would overlap
/// nothing.
fn span(profile: &str, placement: &Placement) -> Result<Span, MigProfileProblem> {
    let Placement { start, size } = *placement;
    let problem = || MigProfileProblem::Placement { profile: profile.to_owned(), start, size };
    let fits = size > 0 && start.checked_add(size).is_some_and(|end| end <= 64);
    let narrow = |number: u32| u8::try_from(number).ok().filter(|_| fits).ok_or_else(problem);
    Ok(Span { start: narrow(start)?, size: narrow(size)? })
}

/// Reads the connection scores of NVIDIA's cards. They only order devices, so that unreadable ones
/// close nothing.
fn link(node: &object::Node, devices: &mut [Device], notes: &mut Notes) {
    let Some(text) = node.metadata.annotations.get(SCORE) else { return };
    let scores = match decode_score(text) {
        Ok(scores) => scores,
        Err(error) => {
            notes.add(AnnotationProblem::ScoreUnreadable(error));
            return;
        }
    };
    let label = |device: &Device| match &device.identity {
        Identity::Uuid(uuid) => uuid.to_string(),
        Identity::Ordinal => String::new(),
    };
    let ordinals: BTreeMap<String, u16> = devices.iter().map(label).zip(0..).collect();
    for device in devices {
        let row = scores.get(&label(device)).into_iter().flatten();
        let known =
            row.filter_map(|(to, score)| Some((*ordinals.get(to)?, u32::try_from(*score).ok()?)));
        device.links = known.collect();
    }
}
