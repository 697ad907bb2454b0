//! Fitting a need into a hardware slice of a partitioned device.

use super::spot::{Spot, Wanted};
use super::{Mine, Taken};
use crate::charge::Slice;
use crate::device::{Profile, Span};
use crate::reason::Reason;
use crate::request::Need;
use crate::units::Bytes;

impl Spot<'_> {
    /// The smallest slice that is large enough and has a free place.
    pub(super) fn fit_slice(&self, need: &Need, wanted: &Wanted) -> Result<Taken, Reason> {
        if self.mine.is_some_and(|mine| mine.whole) {
            return Err(Reason::NoSlice { wanted: wanted.name() });
        }
        let profiles = self.profiles(wanted);
        if let (Wanted::Share(bytes), true) = (wanted, profiles.is_empty()) {
            self.fit_memory(*bytes)?;
        }
        let own = self
            .mine
            .map_or(0, |mine| mine.slices.iter().fold(0, |mask, slice| mask | slice.span.mask()));
        let taken = self.gauge.occupied | own;
        let free =
            profiles.into_iter().find_map(|profile| Some((profile, free_span(profile, taken)?)));
        let Some((profile, span)) = free else {
            return Err(Reason::NoSlice { wanted: wanted.name() });
        };
        // Every container keeps its slice for the pod's whole life, so these add up whatever their roles.
        let peak = self.mine.map_or(Bytes::ZERO, Mine::slice_bytes).plus(profile.memory);
        self.fit_memory(peak)?;
        let sum = |amount: fn(&Taken) -> u32| {
            self.mine.map_or(0, |mine| mine.parts.iter().map(|(_, t)| amount(t)).sum::<u32>())
        };
        self.fit_cores(sum(|taken| taken.cores).saturating_add(profile.cores.0))?;
        if sum(|taken| taken.slots).saturating_add(need.slots) > self.gauge.slots_free {
            return Err(Reason::SlotsExhausted { slots: self.device.slots.unwrap_or(u32::MAX) });
        }
        let slice = Some(Box::new(Slice { profile: profile.name.clone(), span }));
        let (bytes, cores) = (Some(profile.memory), profile.cores.0);
        Ok(Taken { bytes, whole: false, cores, slots: need.slots, slice, peak })
    }

    /// The profiles that would do, the smallest first.
    fn profiles(&self, wanted: &Wanted) -> Vec<&Profile> {
        let would_do = |profile: &&Profile| match wanted {
            Wanted::Share(bytes) => profile.memory >= *bytes,
            Wanted::Profile(name) => profile.name == *name,
            Wanted::Whole => false,
        };
        let all = self.device.geometry.iter().flat_map(|geometry| &geometry.profiles);
        let mut profiles: Vec<&Profile> = all.filter(would_do).collect();
        profiles.sort_by_key(|profile| {
            (profile.memory, profile.placements.first().map_or(0, |span| span.size))
        });
        profiles
    }
}

/// Small odd slices start from the high end, so that the low end stays open for large ones.
fn free_span(profile: &Profile, taken: u64) -> Option<Span> {
    let from_high_end = profile.name.starts_with("1g.") || profile.name.starts_with("3g.");
    let free = profile.placements.iter().copied().filter(|span| span.mask() & taken == 0);
    if from_high_end {
        free.max_by_key(|span| span.start)
    } else {
        free.min_by_key(|span| span.start)
    }
}
