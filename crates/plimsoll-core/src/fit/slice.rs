//! Fitting a need into a hardware slice of a partitioned device.

use super::{Mine, Taken, Wanted, fit_cores, fit_memory};
use crate::charge::Slice;
use crate::device::{Device, Geometry, Profile, Span};
use crate::reason::Reason;
use crate::request::Need;
use crate::room::DeviceRoom;

/// The smallest slice that is large enough and has a free place. Small odd slices start from the high end, so that
/// the low end stays open for large ones.
pub(super) fn fit_slice(
    geometry: &Geometry,
    device: &Device,
    room: &DeviceRoom,
    need: &Need,
    wanted: &Wanted,
    mine: Option<&Mine>,
) -> Result<Taken, Reason> {
    let own = mine.map_or(0, |mine| {
        mine.slices.iter().fold(0, |mask, slice| mask | slice.span.mask())
    });
    let taken = room.occupied() | own;
    let fits = |profile: &&Profile| match wanted {
        Wanted::Share(bytes) => profile.memory >= *bytes,
        Wanted::Profile(name) => profile.name == *name,
        Wanted::Whole => false,
    };
    let mut profiles: Vec<_> = geometry.profiles.iter().filter(fits).collect();
    profiles.sort_by_key(|profile| {
        (
            profile.memory,
            profile.placements.first().map_or(0, |span| span.size),
        )
    });
    let no_slice = || Reason::NoSlice {
        wanted: match wanted {
            Wanted::Share(bytes) => bytes.to_string().into(),
            Wanted::Profile(name) => name.clone(),
            Wanted::Whole => "the whole device".into(),
        },
    };
    if let Wanted::Share(need) = wanted
        && profiles.is_empty()
    {
        fit_memory(room, *need)?;
    }
    for profile in profiles {
        let Some(span) = free_span(profile, taken) else {
            continue;
        };
        let total = mine
            .map(|mine| mine.peak.total().bytes)
            .unwrap_or_default()
            .plus(profile.memory);
        fit_memory(room, total)?;
        fit_cores(device, room, profile.cores.0)?;
        return Ok(Taken {
            bytes: Some(profile.memory),
            whole: false,
            cores: profile.cores.0,
            slots: need.slots,
            slice: Some(Slice {
                profile: profile.name.clone(),
                span,
            }),
            peak: total,
        });
    }
    Err(no_slice())
}

fn free_span(profile: &Profile, taken: u64) -> Option<Span> {
    let from_high_end = profile.name.starts_with("1g.") || profile.name.starts_with("3g.");
    let free = profile
        .placements
        .iter()
        .copied()
        .filter(|span| span.mask() & taken == 0);
    if from_high_end {
        free.max_by_key(|span| span.start)
    } else {
        free.min_by_key(|span| span.start)
    }
}
