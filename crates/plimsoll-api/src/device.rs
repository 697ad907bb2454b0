//! Nodes and devices as rows: capacity, charges and tenants.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Booked, Charge, Holding, HoldingId, Stage};
use plimsoll_core::device::{self, Device, Identity};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request;
use plimsoll_core::room::{NodeView, Tenant};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_kube::cluster::{Cluster, NodeFacts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::named;

/// A node of a cluster, and what its device plugin advertises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeRow {
    #[schema(value_type = String)]
    pub name: Name,
    /// Physical cards; null if the node's data is contradictory.
    pub physical: Option<u16>,
    /// Devices that the device plugin advertises, including tokens; null if it advertises none.
    pub advertised: Option<u64>,
    /// Tokens per card, if known.
    pub replicas: Option<u32>,
    /// `none`, `time-slicing`, `mps`, `shares` or `mixed`.
    pub sharing: String,
    /// `owned` or `plugin`.
    pub device_choice: String,
    /// `declared`, `register`, `label`, `capacity` or `none`.
    pub capacity_source: String,
    /// Healthy cards without tenants; null if unknown.
    pub idle_whole: Option<usize>,
    /// The reason why the node's devices are unknown, if they are.
    #[schema(value_type = Option<String>)]
    pub unknown: Option<Name>,
}

/// Converts the nodes of a cluster.
pub fn nodes(cluster: &Cluster, ledger: &Ledger) -> Vec<NodeRow> {
    cluster.nodes.iter().map(|facts| node(facts, ledger)).collect()
}

fn node(facts: &NodeFacts, ledger: &Ledger) -> NodeRow {
    let node = &facts.node;
    // If the sources of a node's devices contradict each other, none of their counts is better.
    let known = node.unknown.is_none() || !node.devices.is_empty();
    NodeRow {
        name: node.name.clone(),
        physical: known.then_some(facts.physical),
        advertised: facts.advertised,
        replicas: facts.replicas,
        sharing: sharing(&node.devices),
        device_choice: facts.choice.to_string(),
        capacity_source: facts.capacity_source.to_string(),
        idle_whole: idle_whole(facts, ledger).filter(|_| node.unknown.is_none()),
        unknown: node.unknown.clone(),
    }
}

/// Describes how a node's devices are shared, in one word.
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

/// Counts the healthy cards without tenants, less the faulty cards of which only the number is
/// known. If cards are split into slices and a slice is in use, its card is unknown, and so is the
/// count.
fn idle_whole(facts: &NodeFacts, ledger: &Ledger) -> Option<usize> {
    let view = ledger.view_of(&facts.node.name)?;
    let rows = view.node.devices.iter().zip(view.room.devices());
    let idle = rows
        .filter(|(device, room)| device.health == device::Health::Healthy && room.is_idle())
        .count();
    let (physical, devices) = (usize::from(facts.physical), view.room.devices().len());
    let cards = match idle {
        idle if physical == devices => idle,
        idle if idle == devices => physical,
        _ => return None,
    };
    Some(cards.saturating_sub(usize::from(view.node.missing_cards)))
}

named! {
    /// The identity of a device.
    DeviceIdentity {
        Uuid = "uuid",
        /// The name is derived from the ordinal.
        Assumed = "assumed",
    }
}

named! {
    /// The health of a device.
    Health {
        Healthy = "healthy",
        Faulty = "faulty",
        /// The node no longer reports it.
        Gone = "gone",
    }
}

named! {
    /// The stage of a tenant.
    TenantStage {
        Offered = "offered",
        /// Its start waits until no other tenant starts or stops on the device.
        Queued = "queued",
        /// Its start or binding was sent.
        Sent = "sent",
        Running = "running",
        Releasing = "releasing",
    }
}

impl From<Stage> for TenantStage {
    fn from(stage: Stage) -> TenantStage {
        match stage {
            Stage::Offered { .. } => TenantStage::Offered,
            Stage::Queued => TenantStage::Queued,
            Stage::Sent => TenantStage::Sent,
            Stage::Running { .. } => TenantStage::Running,
            Stage::Releasing { .. } => TenantStage::Releasing,
        }
    }
}

named! {
    /// The kind of a tenant's charge.
    ChargeKind {
        Share = "share",
        Whole = "whole",
        /// The tenant declared no memory.
        Undeclared = "undeclared",
    }
}

named! {
    /// The role of a container.
    Role {
        Init = "init",
        Sidecar = "sidecar",
        App = "app",
    }
}

impl From<request::Role> for Role {
    fn from(role: request::Role) -> Role {
        match role {
            request::Role::Init => Role::Init,
            request::Role::Sidecar => Role::Sidecar,
            request::Role::App => Role::App,
        }
    }
}

/// A device and its account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceRow {
    /// The node; a runner is a node.
    #[schema(value_type = String)]
    pub node: Name,
    /// The UUID, or `node/gpu-ORDINAL`.
    pub uuid: String,
    pub identity: DeviceIdentity,
    #[schema(value_type = Option<String>)]
    pub model: Option<Name>,
    #[schema(value_type = Option<u64>)]
    pub total: Option<Bytes>,
    /// The driver's reserve.
    #[schema(value_type = u64)]
    pub reserve: Bytes,
    /// The memory that can be charged on the empty device.
    #[schema(value_type = Option<u64>)]
    pub usable: Option<Bytes>,
    /// Charged on this device and not being released.
    #[schema(value_type = Option<u64>)]
    pub held: Option<Bytes>,
    /// Charged on one of several devices, including this one.
    #[schema(value_type = Option<u64>)]
    pub floating: Option<Bytes>,
    /// Being released, not free yet.
    #[schema(value_type = Option<u64>)]
    pub releasing: Option<Bytes>,
    /// In use outside of any charge.
    #[schema(value_type = u64)]
    pub foreign: Bytes,
    #[schema(value_type = Option<u64>)]
    pub free: Option<Bytes>,
    /// The memory by which it is overcommitted; 0 if it is not.
    #[schema(value_type = Option<u64>)]
    pub over_by: Option<Bytes>,
    pub health: Health,
    /// Closed to new work by the operator.
    pub cordoned: bool,
    /// Closed to new work by a breach: it is overcommitted, or its measured use contradicts its
    /// charges.
    pub closed: bool,
    pub tenants: Vec<TenantRow>,
}

impl DeviceRow {
    /// Returns whether the device is overcommitted.
    pub fn is_over(&self) -> bool {
        self.over_by.is_some_and(|over_by| !over_by.is_zero())
    }
}

/// A tenant of a device. The namespace of a slot is its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantRow {
    /// The namespace, or the model.
    #[schema(value_type = String)]
    pub namespace: Name,
    /// The pod, or the slot.
    #[schema(value_type = String)]
    pub pod: Name,
    /// The memory it holds there; null if it is undeclared, or a whole device of unknown size.
    #[schema(value_type = Option<u64>)]
    pub bytes: Option<Bytes>,
    pub charge: ChargeKind,
    /// It may be on another card instead: the device plugin picks the card.
    pub floating: bool,
    pub stage: TenantStage,
    pub containers: Vec<PartRow>,
}

/// One container's part of what a pod holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartRow {
    /// The container.
    #[schema(value_type = String)]
    pub name: Name,
    pub role: Role,
    #[schema(value_type = Option<u64>)]
    pub bytes: Option<Bytes>,
}

/// Converts the devices of a cluster, node by node.
pub fn devices(cluster: &Cluster, ledger: &Ledger) -> Vec<DeviceRow> {
    let ids = cluster.nodes.iter().filter_map(|facts| ledger.node_id(&facts.node.name));
    let mut seen = std::collections::BTreeSet::new();
    ids.filter(|id| seen.insert(*id))
        .filter_map(|id| Some(devices_of(ledger.view(id)?, ledger.holdings_on(id))))
        .flatten()
        .collect()
}

/// Converts the devices of a node in the order of their ordinals, with the holdings as tenants.
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
    // A sum is known if the amount of each of its tenants is known.
    let sum = |bytes: Bytes, counts: &dyn Fn(&Tenant) -> bool| {
        room.tenants()
            .iter()
            .filter(|tenant| counts(tenant))
            .all(|tenant| tenant.bytes.is_some())
            .then_some(bytes)
    };
    let identity = match device.identity {
        Identity::Uuid(_) => DeviceIdentity::Uuid,
        Identity::Ordinal => DeviceIdentity::Assumed,
    };
    let health = match device.health {
        device::Health::Healthy => Health::Healthy,
        device::Health::Faulty => Health::Faulty,
        device::Health::Gone => Health::Gone,
    };
    DeviceRow {
        node: view.node.name.clone(),
        uuid: view.node.device_label(at),
        identity,
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
        health,
        cordoned: device.cordoned,
        closed: room.takes_nothing(),
        tenants: tenants(on),
    }
}

/// Makes one row per pod, even if several of its charges may be on this device.
fn tenants(on: &[(HoldingId, &Holding, &Charge)]) -> Vec<TenantRow> {
    let mut rows: Vec<(HoldingId, TenantRow)> = Vec::new();
    for &(id, holding, charge) in on {
        let parts = charge.parts.iter().map(|part| PartRow {
            name: part.container.clone(),
            role: part.role.into(),
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
                    charge: kind(charge),
                    floating: charge.on.len() > 1,
                    stage: holding.stage.into(),
                    containers: parts.collect(),
                },
            )),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

fn kind(charge: &Charge) -> ChargeKind {
    match charge.amount {
        Booked::Share(_) => ChargeKind::Share,
        Booked::Whole { .. } => ChargeKind::Whole,
        Booked::Undeclared => ChargeKind::Undeclared,
    }
}
