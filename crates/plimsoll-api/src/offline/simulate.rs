//! The output of `plimsoll simulate -o json`.

use plimsoll_core::charge::Charge;
use plimsoll_core::device::Node;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::{Request, Shape};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::verdict::Candidate;
use serde::{Deserialize, Serialize};

use super::InputRow;
use crate::breach::BreachRow;
use crate::clause::ClauseRow;
use crate::device::{DeviceRow, NodeRow, Role};
use crate::explanation::{PromisedRow, RemedyRow};
use crate::forecast::{AccountRow, ForecastRow};
use crate::names::named;
use crate::verdict::{self, CandidateRow, ScorePart};

/// The output of `plimsoll simulate -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulateOutput {
    pub schema_version: u32,
    pub policy: Name,
    pub input: InputRow,
    pub nodes: Vec<NodeRow>,
    /// Every device after all decisions.
    pub devices: Vec<DeviceRow>,
    /// Placed pods in queue order.
    pub placements: Vec<PlacementRow>,
    /// Pods that are not placed, in queue order.
    pub unplaced: Vec<UnplacedRow>,
    pub breaches: Vec<BreachRow>,
    /// The accounts with a share after all decisions; empty without `--accounts`.
    pub accounts: Vec<AccountRow>,
    pub not_considered: Vec<NotConsideredRow>,
}

/// A pod that was placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRow {
    pub namespace: Name,
    pub pod: Name,
    pub node: Name,
    pub score: i64,
    pub score_parts: Vec<ScorePart>,
    #[serde(flatten)]
    pub chosen: ChosenDevices,
}

impl PlacementRow {
    /// Converts a placement that a ledger holds.
    pub fn new(request: &Request, found: &Candidate, ledger: &Ledger) -> PlacementRow {
        let node = &found.placement.node;
        let shape = request.spec.shapes().get(usize::from(found.placement.shape));
        let held = ledger.of_request(&request.id).map(|(_, holding)| holding.charges.as_slice());
        let view = ledger.view_of(node);
        let chosen =
            view.map(|view| ChosenDevices::new(&view.node, shape, held.unwrap_or_default()));
        PlacementRow {
            namespace: request.id.account.clone(),
            pod: request.id.name.clone(),
            node: node.clone(),
            score: found.score.total(),
            score_parts: verdict::score_parts(&found.score),
            chosen: chosen.unwrap_or_default(),
        }
    }
}

/// The devices that a pod holds or gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenDevices {
    /// The pod's charges: on each device the peak over all containers.
    pub devices: Vec<ChargedDeviceRow>,
    /// The parts of each container, including containers without devices.
    pub containers: Vec<ChosenContainerRow>,
}

/// A charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargedDeviceRow {
    #[serde(flatten)]
    pub device: ChosenDevice,
    /// Null for a whole device of unknown size, or if undeclared.
    pub bytes: Option<Bytes>,
}

/// A container and its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenContainerRow {
    pub name: Name,
    pub role: Role,
    pub devices: Vec<ChosenDeviceRow>,
}

/// A container's part of a charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenDeviceRow {
    #[serde(flatten)]
    pub device: ChosenDevice,
    /// Null for a whole device of unknown size, or if undeclared.
    pub bytes: Option<Bytes>,
    pub cores: u32,
}

/// A device, or the devices of which the device plugin picks one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenDevice {
    /// Null if the device plugin picks the card.
    pub uuid: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
}

impl ChosenDevices {
    /// Converts charges on a node; containers are in the order of the shape.
    pub fn new(node: &Node, shape: Option<&Shape>, charges: &[Charge]) -> ChosenDevices {
        let mut chosen = ChosenDevices::default();
        for container in shape.into_iter().flat_map(|shape| &shape.containers) {
            chosen.container(&container.name, container.role.into());
        }
        for charge in charges {
            let device = ChosenDevice::new(node, &charge.on);
            for part in &charge.parts {
                let (device, bytes, cores) = (device.clone(), part.bytes, part.cores.0);
                let container = chosen.container(&part.container, part.role.into());
                container.devices.push(ChosenDeviceRow { device, bytes, cores });
            }
            chosen.devices.push(ChargedDeviceRow { device, bytes: charge.bytes() });
        }
        chosen
    }

    fn container(&mut self, name: &Name, role: Role) -> &mut ChosenContainerRow {
        let known = self.containers.iter().position(|row| row.name == *name);
        let at = known.unwrap_or_else(|| {
            let row = ChosenContainerRow { name: name.clone(), role, devices: Vec::new() };
            self.containers.push(row);
            self.containers.len() - 1
        });
        &mut self.containers[at]
    }
}

impl ChosenDevice {
    fn new(node: &Node, on: &[u16]) -> ChosenDevice {
        let labels = on.iter().map(|ordinal| node.device_label(usize::from(*ordinal)));
        let mut one_of: Vec<String> = labels.collect();
        let uuid = if one_of.len() == 1 { one_of.pop() } else { None };
        ChosenDevice { uuid, one_of }
    }
}

named! {
    /// The status of a pod that is not placed.
    UnplacedStatus {
        /// Not placed now; it may be later.
        Pending = "pending",
        /// It would not fit even without any other pod.
        Impossible = "impossible",
    }
}

/// A pod that was not placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnplacedRow {
    pub namespace: Name,
    pub pod: Name,
    pub status: UnplacedStatus,
    /// The rejection in one sentence, with the nearest miss.
    pub summary: String,
    /// The same line by line.
    pub clauses: Vec<ClauseRow>,
    pub promised: Option<PromisedRow>,
    /// Its account and its expected start; null if it is impossible.
    pub forecast: Option<ForecastRow>,
    pub nodes_considered: usize,
    /// The nearest ten of them; all with `--full`.
    pub candidates: Vec<CandidateRow>,
    pub would_fit_if: Vec<RemedyRow>,
}

/// Parts of a pod that were not considered, or the reason why the pod was not counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotConsideredRow {
    pub namespace: Name,
    pub pod: Name,
    pub what: Vec<Name>,
}
