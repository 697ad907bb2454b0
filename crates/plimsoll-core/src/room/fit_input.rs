//! The compact row of one device that `fit` and the score read.

use super::{DeviceRoom, kind_index};
use crate::device::{Health, Node, Sharing, Telemetry};
use crate::units::{Bytes, Millis, Name};

/// Everything that `fit` and the score read of a device's usage, in one row of 88 bytes.
///
/// A decision judges every device of the fleet. Reading [`DeviceRoom`] for that would follow a
/// pointer and touch a list of tenants per device; reading rows that lie side by side in
/// `NodeRoom::fit_inputs` runs at memory bandwidth. A row is derived from its `DeviceRoom` after
/// each change of it and holds no sum of its own.
///
/// Equality has a meaning: `fit` and the score cannot distinguish two devices with equal facts and
/// equal rows, whatever their tenants and the stages of these. `memo` reuses verdicts and the
/// search skips symmetric devices on that ground. A field that `fit` starts to read must therefore
/// be added here, and `room/tests.rs` must list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FitInput {
    /// Zero if unknown; check `known`.
    pub usable: Bytes,
    pub load: Bytes,
    /// The memory that a new request may take ([`DeviceRoom::open`]); zero if unknown.
    pub open: Bytes,
    /// The part of a new charge with a token that takes the place of a charge in `load`
    /// (`floating`).
    pub displaced: Bytes,
    /// Occupied hardware slices as a bit mask.
    pub occupied: u64,
    /// The time of the last measurement, if it is stale.
    pub stale_since: Option<Millis>,
    /// Total compute; zero if it is not accounted.
    pub cores: u32,
    pub cores_free: u32,
    /// All slots, of the group where the device plugin picks the card; `None` if not limited.
    pub slots: Option<u32>,
    /// Slots in use, of the group where the device plugin picks the card.
    pub slots_used: u32,
    /// Index into the node's sorted list of kinds.
    pub kind: u16,
    /// Healthy, not cordoned, not closed, not stale, not divided into equal shares, and no die of a
    /// card: the checks of these can be skipped.
    pub ready: bool,
    pub closed: bool,
    /// The capacity is known.
    pub known: bool,
    pub tenanted: bool,
    /// A tenant's memory is undeclared.
    pub undeclared: bool,
    /// The device is partitioned into hardware slices.
    pub partitioned: bool,
}

impl FitInput {
    /// Derives the row of a device from its facts and its usage.
    pub(super) fn read(node: &Node, kinds: &[Name], ordinal: usize, room: &DeviceRoom) -> Self {
        let device = &node.devices[ordinal];
        let cores = device.cores.map_or(0, |cores| cores.0);
        let stale_since = match room.telemetry {
            Telemetry::Stale { since } => Some(since),
            Telemetry::None | Telemetry::Fresh { .. } => None,
        };
        let works = device.health == Health::Healthy
            && !device.cordoned
            && device.sharing != Sharing::EqualShares
            && device.board.is_none();
        FitInput {
            usable: room.usable.unwrap_or(Bytes::ZERO),
            load: room.load(),
            open: room.open().unwrap_or(Bytes::ZERO),
            displaced: room.displaced(),
            occupied: room.occupied,
            stale_since,
            cores,
            cores_free: cores.saturating_sub(room.cores),
            slots: device.slots,
            slots_used: room.slots,
            kind: kind_index(kinds, &device.kind).expect("the list has the kind of every device"),
            ready: works && !room.closed && stale_since.is_none(),
            closed: room.closed,
            known: room.usable.is_some(),
            tenanted: !room.tenants.is_empty(),
            undeclared: room.undeclared > 0,
            partitioned: device.geometry.is_some(),
        }
    }
}
