//! The outcome of a decision in short: where a request is placed, or why not. This is what answers,
//! the queue and the journal carry; `wording` renders it.
//!
//! A [`Rejection`] is computed once per decision and shared by reference count. It counts reasons
//! instead of listing devices, so that its size depends on neither the fleet nor the number of
//! holders; the full table stays with the `Decision`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reason::{NodeReason, NotEvictable, Reason, RequestReason};
use crate::request::{Amount, RequestId};
use crate::room::DeviceRoom;
use crate::units::{Bytes, Name};

/// The outcome of one decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSummary {
    Placed(PlacedOn),
    Rejected(Arc<Rejection>),
}

/// The node and the devices that a request got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedOn {
    pub node: Name,
    /// By ordinal. Empty for work without devices; all cards that the device plugin may pick.
    pub devices: Vec<u16>,
}

/// A device of a node that is named elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRef {
    pub ordinal: u16,
    /// Its UUID, or `gpu-0` if no UUID is known.
    pub name: Name,
}

impl DecisionSummary {
    /// Returns true if the request was placed.
    pub fn is_placed(&self) -> bool {
        matches!(self, DecisionSummary::Placed(_))
    }

    /// Returns the node that the request got, or that came nearest.
    pub fn node(&self) -> Option<&Name> {
        match self {
            DecisionSummary::Placed(placed) => Some(&placed.node),
            DecisionSummary::Rejected(rejection) => rejection.nearest_node(),
        }
    }

    /// Returns the rejection, if the request was not placed.
    pub fn rejection(&self) -> Option<&Arc<Rejection>> {
        match self {
            DecisionSummary::Placed(_) => None,
            DecisionSummary::Rejected(rejection) => Some(rejection),
        }
    }
}

/// The reasons why one decision did not place its request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rejection {
    /// The needs of the shape that was tried last; empty for work without devices.
    pub asked: Vec<AskedNeed>,
    /// The reason of the request as a whole: it is malformed, or its gang is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestReason>,
    /// The best node for this request if it were alone. Only the gang is then in the way, or the
    /// gang is placed without this member; there are no counts and no nearest miss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits_on: Option<Name>,
    /// The number of devices that were judged, over all nodes that have enough of them.
    pub devices: u32,
    /// In checking order. The counts add up to `devices`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_reasons: Vec<DeviceReasonCount>,
    /// The number of nodes with fewer devices of the kind than the need wants.
    pub nodes_with_too_few_devices: u32,
    /// In checking order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_reasons: Vec<NodeReasonCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestMiss>,
    /// If memory is not what is missing: the first device that would fit without its holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupied: Option<OccupiedDevice>,
    /// If the request may evict but no eviction helps: the holders on the nearest node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_evictable: Option<HoldersNotEvictable>,
}

impl Rejection {
    /// Returns the node of the nearest miss.
    pub fn nearest_node(&self) -> Option<&Name> {
        self.nearest.as_ref().map(|nearest| &nearest.node)
    }
}

/// A number of devices and the memory asked of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedNeed {
    pub count: u16,
    pub amount: Amount,
}

/// A reason and the number of devices that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReasonCount {
    /// The reason of the first device, with its numbers.
    pub example: Reason,
    pub count: u32,
}

/// A reason and the number of nodes that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReasonCount {
    /// The reason of the first node by name, with its numbers.
    pub example: NodeReason,
    /// The first node by name.
    pub node: Name,
    pub count: u32,
}

/// The device that came nearest to fitting: it lacks the least memory, preferably among the devices
/// that would fit if they were empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearestMiss {
    pub node: Name,
    pub device: DeviceRef,
    /// The peak of the whole request on this device.
    pub need: Bytes,
    pub free: Bytes,
    /// The missing memory: `need` less `free`.
    pub short_by: Bytes,
    /// The memory of the device when it is empty.
    pub usable: Bytes,
    /// It would not fit even if the device were empty.
    pub too_small: bool,
    pub held_by: HeldBy,
}

/// A device that only its holders make unusable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OccupiedDevice {
    pub node: Name,
    pub device: DeviceRef,
    pub held_by: HeldBy,
}

/// The holders of one device at the time of the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldBy {
    /// The first [`HOLDERS_LISTED`] in order of arrival.
    pub holders: Vec<Holder>,
    /// The number of holders that are not listed.
    pub more: u32,
    /// Memory in use that belongs to no holder.
    pub foreign: Bytes,
}

/// The number of holders that a rejection lists.
pub const HOLDERS_LISTED: usize = 3;

/// A request that holds memory of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// As `account/name`.
    pub name: Name,
    /// `None` if it declares no memory.
    pub bytes: Option<Bytes>,
    pub state: HolderState,
}

/// The state of a holder. It has no more values than the reader of a rejection needs: every other
/// change of a holder's stage would make the reason of each pending request new, and journal it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderState {
    Holding,
    Releasing,
}

impl HeldBy {
    /// Lists the holders of a device, each once: it can have several charges there.
    pub fn from_room(room: &DeviceRoom) -> HeldBy {
        let mut holders = room.tenants().chunk_by(|one, next| one.holding == next.holding);
        let listed = holders.by_ref().take(HOLDERS_LISTED).map(|charges| Holder {
            name: charges[0].name.clone(),
            bytes: charges.iter().try_fold(Bytes::ZERO, |sum, one| Some(sum.plus(one.bytes?))),
            state: match charges[0].stage.is_releasing() {
                true => HolderState::Releasing,
                false => HolderState::Holding,
            },
        });
        HeldBy {
            holders: listed.collect(),
            more: u32::try_from(holders.count()).unwrap_or(u32::MAX),
            foreign: room.foreign(),
        }
    }

    /// Returns true if nothing is in use.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.foreign.is_zero()
    }
}

/// The holders of the nearest node that cannot be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldersNotEvictable {
    pub node: Name,
    /// The first [`HOLDERS_LISTED`], those on the nearest device first.
    pub holders: Vec<HolderNotEvictable>,
    /// The number of holders that are not listed.
    pub more: u32,
}

/// A holder that cannot be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderNotEvictable {
    pub request: RequestId,
    pub reason: NotEvictable,
    /// The pending request that is promised its memory, if it is already being released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_to: Option<RequestId>,
}
