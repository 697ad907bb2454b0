//! The devices that an allocated claim holds.

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Part, Stage};
use plimsoll_core::device::{Identity, Node};
use plimsoll_core::request::{NodeNeed, Role, Terms};
use plimsoll_core::units::{Bytes, Cores, Millis, Name};

use crate::finding::{ClaimProblem, Finding, PodProblem, Problem};
use crate::object::{ClaimAllocation, ClaimedDevice, ResourceClaim};

use super::super::Translation;
use super::super::index::Index;
use super::claims::{claim_id, selected_node};
use super::pools::{Pools, Published};

/// Translates an allocated claim into its holding.
///
/// `None` if it holds no accelerator, or if the index does not know its node.
pub fn claim_holding(claim: &ResourceClaim, index: &Index) -> Option<Translation<Holding>> {
    let allocation = claim.status.allocation.as_ref()?;
    let pools = index.pools();
    let results: Vec<&ClaimedDevice> = held_results(allocation, pools).collect();
    let node = &index.site(node_of(allocation, pools)?)?.facts()?.node;
    let name = Name::from(claim.metadata.namespaced_name());
    let mut findings = Vec::new();
    let mut charges: Vec<Charge> = Vec::new();
    for result in results {
        let spot = pools.find(result).and_then(|device| spot(result, device, node));
        let (on, amount) = match spot {
            Some((ordinal, amount)) => (vec![ordinal], amount),
            None => {
                findings.push(unknown_device(&name, result, node));
                (possible_cards(&result.driver, node), Booked::Undeclared)
            }
        };
        if !on.is_empty() {
            add(&mut charges, on, amount, &result.device, node);
        }
    }
    (!charges.is_empty() || !findings.is_empty())
        .then(|| Translation { value: holding(claim, node, charges), findings })
}

/// Finds an allocated claim whose node is not known, so that its devices are not counted.
pub(in crate::translate) fn unplaced(claim: &ResourceClaim, index: &Index) -> Option<Finding> {
    let allocation = claim.status.allocation.as_ref()?;
    held_results(allocation, index.pools()).next()?;
    let node = node_of(allocation, index.pools());
    if node.and_then(|node| index.node(node)).is_some() {
        return None;
    }
    let name = claim.metadata.namespaced_name().into();
    let node = node.map(Name::from);
    let problem = ClaimProblem::NodeUnknown { claim: name, node: node.clone() };
    Some(Finding { node, device: None, problem: Problem::Pod(PodProblem::Claim(problem)) })
}

/// Lists the devices that are held: not those with monitoring access, and no network cards. A
/// device that no slice lists can be an accelerator.
fn held_results<'a>(
    allocation: &'a ClaimAllocation,
    pools: &Pools,
) -> impl Iterator<Item = &'a ClaimedDevice> {
    let results = allocation.devices.results.iter();
    results.filter(|result| {
        result.admin_access != Some(true)
            && pools.find(result).is_none_or(Published::is_accelerator)
    })
}

fn node_of<'a>(allocation: &'a ClaimAllocation, pools: &'a Pools) -> Option<&'a str> {
    let results = &allocation.devices.results;
    selected_node(allocation)
        .or_else(|| results.iter().find_map(|result| pools.find(result)?.node()))
        .or_else(|| results.iter().find_map(|result| pools.node_of_pool(result)))
}

/// Finds the card of a device and the held amount: its own card, or that of which it is a part.
fn spot(result: &ClaimedDevice, device: Published<'_>, node: &Node) -> Option<(u16, Booked)> {
    let consumed = result.consumed_memory().map(|bytes| Booked::share(Bytes::new(bytes)));
    if let Some(ordinal) = card(node, &device.identity()) {
        let usable = node.devices[usize::from(ordinal)].memory.usable();
        // A part of a device is consumed only where the driver allows several claims on it.
        let whole = Booked::Whole { bytes: usable };
        return Some((ordinal, consumed.unwrap_or(whole)));
    }
    let ordinal = card(node, device.parent()?)?;
    let size =
        device.device.memory().map_or(Booked::Undeclared, |bytes| Booked::share(Bytes::new(bytes)));
    Some((ordinal, consumed.unwrap_or(size)))
}

fn card(node: &Node, identity: &str) -> Option<u16> {
    let is_named = |known: &Identity| matches!(known, Identity::Uuid(uuid) if **uuid == *identity);
    let position = node.devices.iter().position(|device| is_named(&device.identity))?;
    u16::try_from(position).ok()
}

/// Lists the cards that an unknown device of a driver can be: those of the driver and its vendor,
/// or all if there are none.
fn possible_cards(driver: &str, node: &Node) -> Vec<u16> {
    let vendor = super::super::node::vendor_of_driver(driver);
    let kinds: Vec<bool> = node
        .devices
        .iter()
        .map(|device| *device.kind == *driver || Some(&*device.kind) == vendor)
        .collect();
    let all = !kinds.contains(&true);
    let possible = (0_u16..).zip(kinds).filter(|(_, of_kind)| all || *of_kind);
    possible.map(|(ordinal, _)| ordinal).collect()
}

/// Adds a device to the charges: one charge per card.
fn add(charges: &mut Vec<Charge>, on: Vec<u16>, amount: Booked, device: &str, node: &Node) {
    let bytes = match amount {
        Booked::Share(bytes) => Some(Bytes::new(bytes.get())),
        Booked::Whole { bytes } => bytes,
        Booked::Undeclared => None,
    };
    let part = Part { container: device.into(), role: Role::App, bytes, cores: Cores(0) };
    let Some(known) = charges.iter_mut().find(|charge| charge.on == on) else {
        charges.push(Charge {
            on,
            amount,
            cores: Cores(0),
            slots: 0,
            slice: None,
            parts: vec![part],
        });
        return;
    };
    let usable = || on.first().and_then(|at| node.devices.get(usize::from(*at))?.memory.usable());
    known.amount = match (known.amount, amount) {
        (Booked::Undeclared, _) | (_, Booked::Undeclared) => Booked::Undeclared,
        (Booked::Share(one), Booked::Share(other)) => {
            Booked::share(Bytes::new(one.get()).plus(Bytes::new(other.get())))
        }
        _ => Booked::Whole { bytes: usable() },
    };
    known.parts.push(part);
}

fn unknown_device(claim: &Name, result: &ClaimedDevice, node: &Node) -> Finding {
    let device = format!("{}/{}/{}", result.driver, result.pool, result.device).into();
    let problem = ClaimProblem::UnknownDevice { claim: claim.clone(), device };
    let problem = Problem::Pod(PodProblem::Claim(problem));
    Finding { node: Some(node.name.clone()), device: None, problem }
}

fn holding(claim: &ResourceClaim, node: &Node, charges: Vec<Charge>) -> Holding {
    let since = Millis(0);
    Holding {
        request: claim_id(&claim.metadata),
        node: node.name.clone(),
        stage: if claim.metadata.is_terminating() {
            Stage::Releasing { since }
        } else {
            Stage::Running { since }
        },
        charges,
        resources: NodeNeed::default(),
        terms: Terms::default(),
        activity: Activity::Unknown,
        spec: None,
    }
}
