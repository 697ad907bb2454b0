//! Nodes and devices as JSON: what they have, what is held of it, and by whom.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Charge, Holding, HoldingId};
use plimsoll_core::device::{Device, Health, Identity};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::room::{NodeView, Tenant};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_kube::cluster::{Cluster, NodeFacts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node, and what its device plugin makes of it.
#[derive(Serialize)]
pub struct NodeRow<'a> {
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

pub fn nodes<'a>(cluster: &'a Cluster, ledger: &Ledger) -> Vec<NodeRow<'a>> {
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
pub fn sharing(devices: &[Device]) -> String {
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
    let view = ledger.view_of(&facts.node.name)?;
    let rows = view.node.devices.iter().zip(view.room.devices());
    let idle =
        rows.filter(|(device, room)| device.health == Health::Healthy && room.is_idle()).count();
    let (physical, devices) = (usize::from(facts.physical), view.room.devices().len());
    let cards = match idle {
        idle if physical == devices => idle,
        idle if idle == devices => physical,
        _ => return None,
    };
    Some(cards.saturating_sub(usize::from(view.node.missing_cards)))
}

/// A device, and what is held of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceRow {
    /// Its node; a runner is one.
    #[schema(value_type = String)]
    pub node: Name,
    /// Its UUID, or `node/gpu-ORDINAL`.
    pub uuid: String,
    /// `uuid`, or `assumed` where the ordinal is a name that was made up.
    pub identity: String,
    /// Its model.
    #[schema(value_type = Option<String>)]
    pub model: Option<Name>,
    /// The memory it has.
    #[schema(value_type = Option<u64>)]
    pub total: Option<Bytes>,
    /// What the driver keeps.
    #[schema(value_type = u64)]
    pub reserve: Bytes,
    /// What may be booked when it is empty.
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// Booked to this very device and not being given back.
    #[schema(value_type = Option<u64>)]
    pub held: Option<Bytes>,
    /// Booked to one of several devices, this among them.
    #[schema(value_type = Option<u64>)]
    pub floating: Option<Bytes>,
    /// Being given back, not free yet.
    #[schema(value_type = Option<u64>)]
    pub releasing: Option<Bytes>,
    /// In use by nobody's booking.
    #[schema(value_type = u64)]
    pub foreign: Bytes,
    /// What is free.
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
    /// By how much it holds too much; 0 where it does not.
    #[schema(value_type = Option<u64>)]
    pub over_by: Option<Bytes>,
    /// `healthy`, `faulty` or `gone`.
    pub health: String,
    /// Closed to new work by its operator.
    pub cordoned: bool,
    /// Who is there.
    pub tenants: Vec<TenantRow>,
}

/// Somebody on a device. A slot of a model server is in the namespace of its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantRow {
    /// The namespace, or the model.
    #[schema(value_type = String)]
    pub namespace: Name,
    /// The pod, or the slot.
    #[schema(value_type = String)]
    pub pod: Name,
    /// What it holds there; null where nobody declared it.
    #[schema(value_type = Option<u64>)]
    pub bytes: Option<Bytes>,
    /// `offered`, `sent`, `running` or `releasing`.
    pub stage: String,
    /// The parts of its containers.
    pub containers: Vec<PartRow>,
}

/// A container's part in what its pod holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartRow {
    /// The container.
    #[schema(value_type = String)]
    pub name: Name,
    /// `init`, `sidecar` or `app`.
    pub role: String,
    /// Its own memory.
    #[schema(value_type = Option<u64>)]
    pub bytes: Option<Bytes>,
}

pub fn devices(cluster: &Cluster, ledger: &Ledger) -> Vec<DeviceRow> {
    let ids = cluster.nodes.iter().filter_map(|facts| ledger.node_id(&facts.node.name));
    let mut seen = std::collections::BTreeSet::new();
    let of = |id| ledger.view(id).map(|view| devices_of(view, ledger.holdings_on(id)));
    ids.filter(|id| seen.insert(*id)).filter_map(of).flatten().collect()
}

/// The devices of a node, by ordinal, with what these holdings have of them.
pub fn devices_of<'a>(
    view: &NodeView,
    holdings: impl Iterator<Item = (HoldingId, &'a Holding)>,
) -> Vec<DeviceRow> {
    let mut on: BTreeMap<u16, Vec<(HoldingId, &Holding, &Charge)>> = BTreeMap::new();
    for (holder, holding) in holdings {
        for charge in &holding.charges {
            for ordinal in &charge.on {
                on.entry(*ordinal).or_default().push((holder, holding, charge));
            }
        }
    }
    let ordinals = (0_u16..).zip(&view.node.devices).map(|(ordinal, _)| ordinal);
    ordinals
        .map(|ordinal| device(view, ordinal, on.get(&ordinal).map_or(&[], Vec::as_slice)))
        .collect()
}

fn device(view: &NodeView, ordinal: u16, on: &[(HoldingId, &Holding, &Charge)]) -> DeviceRow {
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
    let identity = match device.identity {
        Identity::Uuid(_) => "uuid",
        Identity::Ordinal => "assumed",
    };
    let health = match device.health {
        Health::Healthy => "healthy",
        Health::Faulty => "faulty",
        Health::Gone => "gone",
    };
    DeviceRow {
        node: view.node.name.clone(),
        uuid: view.node.device_label(at),
        identity: identity.to_string(),
        model: device.model.clone(),
        total: device.memory.total.bytes(),
        reserve: device.memory.reserve,
        usable: room.usable(),
        held: sum(room.held(), &|tenant| !tenant.stage.is_releasing() && !tenant.floating),
        floating: sum(room.floating(), &|tenant| !tenant.stage.is_releasing() && tenant.floating),
        releasing: sum(room.releasing(), &|tenant| tenant.stage.is_releasing()),
        foreign: room.foreign(),
        free: room.free(),
        over_by: room.usable().map(|_| room.over_by()),
        health: health.to_string(),
        cordoned: device.cordoned,
        tenants: tenants(on),
    }
}

/// One row a pod, also where several of its charges may be on this device.
fn tenants(on: &[(HoldingId, &Holding, &Charge)]) -> Vec<TenantRow> {
    let mut rows: Vec<(HoldingId, TenantRow)> = Vec::new();
    for &(id, holding, charge) in on {
        let parts = charge.parts.iter().map(|part| PartRow {
            name: part.container.clone(),
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
                    namespace: holding.request.account.clone(),
                    pod: holding.request.name.clone(),
                    bytes: charge.bytes(),
                    stage: holding.stage.name().to_string(),
                    containers: parts.collect(),
                },
            )),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}
