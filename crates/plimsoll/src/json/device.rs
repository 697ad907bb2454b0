//! Nodes and devices as JSON: what they have, what is held of it, and by whom.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Charge, Holding, HoldingId};
use plimsoll_core::device::{Device, Health, Identity};
use plimsoll_core::ledger::{Ledger, NodeId};
use plimsoll_core::room::{NodeView, Tenant};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_kube::cluster::{Cluster, NodeFacts};
use serde::Serialize;

/// A node, and what its device plugin makes of it.
#[derive(Serialize)]
pub(super) struct NodeRow<'a> {
    name: &'a Name,
    physical: Option<u16>,
    advertised: Option<u64>,
    replicas: Option<u32>,
    sharing: String,
    device_choice: String,
    capacity_source: &'static str,
    idle_whole: Option<usize>,
    unknown: Option<&'a Name>,
}

pub(super) fn nodes<'a>(cluster: &'a Cluster, ledger: &Ledger) -> Vec<NodeRow<'a>> {
    cluster.nodes.iter().map(|facts| node(facts, ledger)).collect()
}

fn node<'a>(facts: &'a NodeFacts, ledger: &Ledger) -> NodeRow<'a> {
    let node = &facts.node;
    // Where what a node has contradicts itself, no count of it is better than another.
    let known = node.unknown.is_none() || !node.devices.is_empty();
    NodeRow {
        name: &node.name,
        physical: known.then_some(facts.physical),
        advertised: facts.advertised,
        replicas: facts.replicas,
        sharing: sharing(&node.devices),
        device_choice: facts.choice.to_string(),
        capacity_source: facts.capacity_source,
        idle_whole: idle_whole(facts, ledger).filter(|_| node.unknown.is_none()),
        unknown: node.unknown.as_ref(),
    }
}

/// How a node's devices are shared, in one word.
pub(crate) fn sharing(devices: &[Device]) -> String {
    let mut kinds: Vec<String> = devices.iter().map(|device| device.sharing.to_string()).collect();
    kinds.sort();
    kinds.dedup();
    match &kinds[..] {
        [] => "none".to_string(),
        [one] => one.clone(),
        _ => "mixed".to_string(),
    }
}

/// Cards that are healthy and have nobody on them, less those that are faulty without anybody saying which. Where cards
/// are cut into slices and a slice is taken, nobody says whose slice that is, and the number is not known.
fn idle_whole(facts: &NodeFacts, ledger: &Ledger) -> Option<usize> {
    let view = ledger.view(ledger.node_id(&facts.node.name)?)?;
    let rows = view.node.devices.iter().zip(view.room.devices());
    let idle = rows.filter(|(device, room)| device.health == Health::Healthy && room.is_idle()).count();
    let (physical, devices) = (usize::from(facts.physical), view.room.devices().len());
    let cards = match idle {
        idle if physical == devices => idle,
        idle if idle == devices => physical,
        _ => return None,
    };
    Some(cards.saturating_sub(usize::from(view.node.missing_cards)))
}

/// A device, and what is held of it.
#[derive(Serialize)]
pub(super) struct DeviceRow<'a> {
    node: &'a Name,
    uuid: String,
    identity: &'static str,
    model: Option<&'a Name>,
    total: Option<Bytes>,
    reserve: Bytes,
    usable: Option<Bytes>,
    held: Option<Bytes>,
    floating: Option<Bytes>,
    releasing: Option<Bytes>,
    foreign: Bytes,
    free: Option<Bytes>,
    over_by: Option<Bytes>,
    health: &'static str,
    cordoned: bool,
    tenants: Vec<TenantRow<'a>>,
}

/// Somebody on a device.
#[derive(Serialize)]
struct TenantRow<'a> {
    namespace: &'a Name,
    pod: &'a Name,
    bytes: Option<Bytes>,
    stage: &'static str,
    containers: Vec<PartRow<'a>>,
}

/// A container's part in what its pod holds.
#[derive(Serialize)]
struct PartRow<'a> {
    name: &'a Name,
    role: String,
    bytes: Option<Bytes>,
}

pub(super) fn devices<'a>(cluster: &Cluster, ledger: &'a Ledger) -> Vec<DeviceRow<'a>> {
    let ids = cluster.nodes.iter().filter_map(|facts| ledger.node_id(&facts.node.name));
    let mut seen = std::collections::BTreeSet::new();
    ids.filter(|id| seen.insert(*id)).flat_map(|id| devices_of(ledger, id)).collect()
}

fn devices_of(ledger: &Ledger, id: NodeId) -> Vec<DeviceRow<'_>> {
    let Some(view) = ledger.view(id) else { return Vec::new() };
    let mut on: BTreeMap<u16, Vec<(HoldingId, &Holding, &Charge)>> = BTreeMap::new();
    for (holder, holding) in ledger.holdings_on(id) {
        for charge in &holding.charges {
            for ordinal in &charge.on {
                on.entry(*ordinal).or_default().push((holder, holding, charge));
            }
        }
    }
    let ordinals = (0_u16..).zip(&view.node.devices).map(|(ordinal, _)| ordinal);
    ordinals.map(|ordinal| device(view, ordinal, on.get(&ordinal).map_or(&[], Vec::as_slice))).collect()
}

fn device<'a>(
    view: &'a NodeView,
    ordinal: u16,
    on: &[(HoldingId, &'a Holding, &'a Charge)],
) -> DeviceRow<'a> {
    let at = usize::from(ordinal);
    let (device, room) = (&view.node.devices[at], &view.room.devices()[at]);
    // A sum is known where what each of its tenants holds is known.
    let sum = |bytes: Bytes, counts: &dyn Fn(&Tenant) -> bool| {
        room.tenants()
            .iter()
            .filter(|tenant| counts(tenant))
            .all(|tenant| tenant.bytes.is_some())
            .then_some(bytes)
    };
    DeviceRow {
        node: &view.node.name,
        uuid: view.node.device_label(at),
        identity: match device.identity {
            Identity::Uuid(_) => "uuid",
            Identity::Ordinal => "assumed",
        },
        model: device.model.as_ref(),
        total: device.memory.total.bytes(),
        reserve: device.memory.reserve,
        usable: room.usable(),
        held: sum(room.held(), &|tenant| !tenant.stage.is_releasing() && !tenant.floating),
        floating: sum(room.floating(), &|tenant| !tenant.stage.is_releasing() && tenant.floating),
        releasing: sum(room.releasing(), &|tenant| tenant.stage.is_releasing()),
        foreign: room.foreign(),
        free: room.free(),
        over_by: room.usable().map(|_| room.over_by()),
        health: match device.health {
            Health::Healthy => "healthy",
            Health::Faulty => "faulty",
            Health::Gone => "gone",
        },
        cordoned: device.cordoned,
        tenants: tenants(on),
    }
}

/// One row a pod, also where several of its charges may be on this device.
fn tenants<'a>(on: &[(HoldingId, &'a Holding, &'a Charge)]) -> Vec<TenantRow<'a>> {
    let mut rows: Vec<(HoldingId, TenantRow<'a>)> = Vec::new();
    for &(id, holding, charge) in on {
        let parts = charge.parts.iter().map(|part| PartRow {
            name: &part.container,
            role: part.role.to_string(),
            bytes: part.bytes,
        });
        match rows.last_mut().filter(|(last, _)| *last == id) {
            Some((_, row)) => {
                row.bytes = row.bytes.zip(charge.bytes()).map(|(sum, more)| sum.plus(more));
                row.containers.extend(parts);
            }
            None => rows.push((
                id,
                TenantRow {
                    namespace: &holding.request.account,
                    pod: &holding.request.name,
                    bytes: charge.bytes(),
                    stage: holding.stage.name(),
                    containers: parts.collect(),
                },
            )),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}
