//! The checks of one need on a device that is partitioned into hardware slices (MIG).

use super::target::{MemoryNeed, ResolvedAmount, Target};
use super::{Allotment, OwnUse};
use crate::charge::Slice;
use crate::device::{Profile, Span};
use crate::reason::Reason;
use crate::request::{Need, Role};
use crate::units::Bytes;

impl Target<'_> {
    /// Finds the smallest slice that is large enough and has a free position.
    ///
    /// Greedy: profiles by size, then the first free position in `free_span`'s order. Tries
    /// O(profiles × positions) spans, at most a few dozen on today's hardware. It does not look
    /// ahead: slices cannot be moved once a container runs in them, so that an optimal packing of a
    /// known set of requests would not survive the next request; and HAMi places them the same way,
    /// which keeps both schedulers' answers equal on one card. The price: the order of a pod's
    /// containers can decide whether the pod fits.
    pub(super) fn fit_slice(
        &self,
        role: Role,
        need: &Need,
        amount: ResolvedAmount,
    ) -> Result<Allotment, Reason> {
        if self.own.is_some_and(|own| own.whole) {
            return Err(Reason::NoSlice { wanted: amount.name() });
        }
        let profiles = self.profiles(amount);
        if let ResolvedAmount::Share(bytes) = amount
            && profiles.is_empty()
        {
            self.fit_memory(MemoryNeed { peak: bytes, alone: bytes, slots: 0, role })?;
        }
        if matches!(amount, ResolvedAmount::Profile(_)) && profiles.is_empty() {
            return Err(self.no_profile(amount));
        }
        let occupied = self.input.occupied | self.own.map_or(0, OwnUse::slice_mask);
        let free =
            profiles.into_iter().find_map(|profile| Some((profile, free_span(profile, occupied)?)));
        let Some((profile, span)) = free else {
            return Err(Reason::NoSlice { wanted: amount.name() });
        };
        let peak = self.own.map_or(Bytes::ZERO, OwnUse::slice_bytes).plus(profile.memory);
        self.fit_memory(MemoryNeed { peak, alone: profile.memory, slots: 0, role })?;
        let cores = profile.cores.0;
        self.fit_cores(self.own_sum(|own| own.cores).saturating_add(cores))?;
        self.fit_slots(self.own_sum(|own| own.slots).saturating_add(need.slots))?;
        let slice = Some(Box::new(Slice { profile: profile.name.clone(), span }));
        let bytes = Some(profile.memory);
        Ok(Allotment { bytes, whole: false, cores, slots: need.slots, slice, peak })
    }

    #[cold]
    fn no_profile(&self, amount: ResolvedAmount) -> Reason {
        let profiles = self.device().geometry.iter().flat_map(|geometry| &geometry.profiles);
        let known: Vec<&str> = profiles.map(|profile| &*profile.name).collect();
        Reason::NoProfile { wanted: amount.name(), known: known.join(", ").into() }
    }

    fn own_sum(&self, amount: impl Fn(&Allotment) -> u32) -> u32 {
        self.own.map_or(0, |own| own.parts.iter().map(|(_, part)| amount(part)).sum())
    }

    /// Returns the profiles that are large enough, the smallest first.
    fn profiles(&self, amount: ResolvedAmount) -> Vec<&Profile> {
        let all = self.device().geometry.iter().flat_map(|geometry| &geometry.profiles);
        let mut profiles: Vec<&Profile> = all.filter(|profile| serves(profile, amount)).collect();
        profiles.sort_by_key(|profile| {
            (profile.memory, profile.placements.first().map_or(0, |span| span.size))
        });
        profiles
    }
}

fn serves(profile: &Profile, amount: ResolvedAmount) -> bool {
    match amount {
        ResolvedAmount::Share(bytes) => profile.memory >= bytes,
        ResolvedAmount::Profile(name) => profile.name == *name,
        ResolvedAmount::Whole => false,
    }
}

/// Finds a free position. Profiles of odd size (1g, 3g) start from the high end, so that the
/// aligned positions at the low end stay free for larger slices.
fn free_span(profile: &Profile, occupied: u64) -> Option<Span> {
    let from_high_end = profile.name.starts_with("1g.") || profile.name.starts_with("3g.");
    let free = profile.placements.iter().copied().filter(|span| span.mask() & occupied == 0);
    if from_high_end {
        free.max_by_key(|span| span.start)
    } else {
        free.min_by_key(|span| span.start)
    }
}
