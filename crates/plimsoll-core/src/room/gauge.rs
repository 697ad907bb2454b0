//! The short row that judging reads of each device.

use super::DeviceRoom;
use crate::device::{Health, Node, Telemetry};
use crate::units::{Bytes, Millis, Name};

/// All that `fit` and the score read of a device's account, boiled down to one short row, so that judging every device of a cluster
/// runs at the speed of memory. Read off the account whenever that changes, never summed by itself. Of two accounts with the same
/// row whoever judges finds the same, whoever the tenants are and wherever in their lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gauge {
    /// What may be used when empty; nothing when unknown.
    pub usable: Bytes,
    /// Everything that counts against the line.
    pub load: Bytes,
    /// What a new request may have.
    pub open: Bytes,
    /// The slices that are taken of a partitioned device, as bits.
    pub occupied: u64,
    /// Since when it has not been measured any more.
    pub stale_since: Option<Millis>,
    /// Compute there is; none where it is not accounted.
    pub cores: u32,
    /// Compute left.
    pub cores_free: u32,
    /// Slots left; as many as can be counted where they are not limited.
    pub slots_free: u32,
    /// Its kind, as a place in the node's list of kinds.
    pub kind: u8,
    /// Works, is open, and is measured freshly enough.
    pub ready: bool,
    /// Its books and its memory disagree.
    pub closed: bool,
    /// Its memory is known.
    pub known: bool,
    /// Somebody is there.
    pub tenanted: bool,
    /// Somebody is there whose use nothing bounds.
    pub undeclared: bool,
    /// It is cut into hardware slices.
    pub partitioned: bool,
}

impl Gauge {
    /// Reads the account of a node's device.
    pub(super) fn read(node: &Node, kinds: &[Name], ordinal: usize, room: &DeviceRoom) -> Self {
        let device = &node.devices[ordinal];
        let cores = device.cores.map_or(0, |cores| cores.0);
        let slots = device.slots.unwrap_or(u32::MAX);
        let stale_since = match room.telemetry {
            Telemetry::Stale { since } => Some(since),
            Telemetry::None | Telemetry::Fresh { .. } => None,
        };
        let works = device.health == Health::Healthy && !device.cordoned;
        Gauge {
            usable: room.usable.unwrap_or(Bytes::ZERO),
            load: room.load(),
            open: room.open().unwrap_or(Bytes::ZERO),
            occupied: room.occupied,
            stale_since,
            cores,
            cores_free: cores.saturating_sub(room.cores),
            slots_free: slots.saturating_sub(room.slots),
            kind: kinds
                .iter()
                .position(|kind| *kind == device.kind)
                .and_then(|k| u8::try_from(k).ok())
                .unwrap_or(u8::MAX),
            ready: works && !room.closed && stale_since.is_none(),
            closed: room.closed,
            known: room.usable.is_some(),
            tenanted: !room.tenants.is_empty(),
            undeclared: room.undeclared > 0,
            partitioned: device.geometry.is_some(),
        }
    }
}
