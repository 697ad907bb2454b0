//! The checks of one need on one device: slots, memory, compute and exclusivity.

use super::peak::Load;
use super::{Allotment, OwnUse};
use crate::device::{Capacity, Device, Node, Sharing, Strategy};
use crate::reason::Reason;
use crate::request::{Amount, Compute, Need, PlainRule, Role};
use crate::room::{FitInput, NodeRoom};
use crate::units::{Bytes, Name, Portion};

/// A need's amount on one specific device. A fraction, for example, is of that device's usable
/// memory.
#[derive(Clone, Copy)]
pub(super) enum ResolvedAmount<'n> {
    Share(Bytes),
    Whole,
    Profile(&'n Name),
}

impl ResolvedAmount<'_> {
    pub(super) fn name(&self) -> Name {
        match self {
            ResolvedAmount::Share(bytes) => bytes.to_string().into(),
            ResolvedAmount::Whole => "the whole device".into(),
            ResolvedAmount::Profile(name) => (*name).clone(),
        }
    }
}

/// The memory that a container needs on one device.
#[derive(Clone, Copy)]
pub(super) struct MemoryNeed {
    /// The peak of the whole request on the device, with this container.
    pub peak: Bytes,
    /// The part of this container.
    pub alone: Bytes,
    /// The slots of this container.
    pub slots: u32,
    pub role: Role,
}

/// A device with the request's own bookings on it.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub node: &'a Node,
    pub room: &'a NodeRoom,
    pub input: &'a FitInput,
    pub ordinal: usize,
    pub own: Option<&'a OwnUse>,
}

impl<'a> Target<'a> {
    /// Returns the facts. Few checks read them; those of nearly all devices need only `input`.
    pub(super) fn device(&self) -> &'a Device {
        &self.node.devices[self.ordinal]
    }

    /// Checks the amounts, from the most lasting reason to the most transient.
    ///
    /// Slots come first because HAMi reports them first, and compute after memory for the same
    /// reason. Each amount is checked as the peak of the whole request on the device, not as the
    /// need alone.
    #[inline]
    pub(super) fn fit(&self, role: Role, need: &Need) -> Result<Allotment, Reason> {
        let input = self.input;
        let slots = self.with_own(role, Load { slots: need.slots, ..Load::default() }).slots;
        self.fit_slots(slots)?;
        if need.selector.alone && input.tenanted {
            return Err(Reason::NotAlone);
        }
        let amount = self.resolve(&need.amount)?;
        if input.undeclared {
            return Err(Reason::HeldUndeclared);
        }
        let (bytes, whole) = match amount {
            ResolvedAmount::Share(bytes) if !input.partitioned => (Some(bytes), false),
            ResolvedAmount::Whole => (input.known.then_some(input.usable), true),
            ResolvedAmount::Share(_) | ResolvedAmount::Profile(_) => {
                return self.fit_slice(role, need, amount);
            }
        };
        let cores = if whole { Compute::All } else { need.compute }.to_units(input.cores);
        let slots = need.slots;
        let load =
            Load { bytes: bytes.unwrap_or(Bytes::ZERO), cores, slots, wholes: u32::from(whole) };
        let total = self.with_own(role, load);
        self.fit_memory(MemoryNeed { peak: total.bytes, alone: load.bytes, slots, role })?;
        if !input.known && total.wholes > 1
            || whole && self.own.is_some_and(|own| !own.slices.is_empty())
        {
            return Err(Reason::Exclusive);
        }
        self.fit_cores(total.cores)?;
        if input.tenanted && (whole || (total.cores >= input.cores && input.cores > 0)) {
            return Err(self.exclusive());
        }
        if total.cores == 0 && input.cores > 0 && input.cores_free == 0 {
            return Err(Reason::ComputeExhausted);
        }
        Ok(Allotment { bytes, whole, cores, slots, slice: None, peak: total.bytes })
    }

    /// Creates the reason for a device with tenants that is wanted whole.
    #[cold]
    #[inline(never)]
    fn exclusive(&self) -> Reason {
        match (&self.device().memory.total, self.device().sharing) {
            (Capacity::Unknown { missing }, Sharing::Tokens { .. }) => {
                Reason::ExclusiveOfUnknownSize { missing: missing.clone() }
            }
            _ => Reason::Exclusive,
        }
    }

    /// Returns the peak of the request on this device with one more container.
    #[inline]
    fn with_own(&self, role: Role, load: Load) -> Load {
        self.own.map_or(load, |own| own.peak.with(role, load).total())
    }

    #[inline]
    pub(super) fn fit_memory(&self, need: MemoryNeed) -> Result<(), Reason> {
        let FitInput { usable, open, load, known, displaced, .. } = *self.input;
        if need.peak <= open || !known {
            return Ok(());
        }
        if !displaced.is_zero() || need.alone < need.peak {
            return self.fit_displacing(need);
        }
        let (need, free) = (need.peak, usable.less(load));
        Err(if need > usable {
            Reason::TooSmall { need, usable, free }
        } else if need > free {
            Reason::ShortOfMemory { need, free, usable }
        } else {
            Reason::PromisedAway { need, free, open }
        })
    }

    /// Checks a need that is larger than the open memory, beside other containers of the request or
    /// charges that cannot be on the same card: it fits where it takes the place of one of those
    /// (`room::floating`).
    #[cold]
    fn fit_displacing(&self, need: MemoryNeed) -> Result<(), Reason> {
        let FitInput { usable, open, load, displaced, .. } = *self.input;
        let free = usable.less(load);
        let (alone, meeting) = (need.alone, self.own_meeting(need));
        let added = meeting.added(&self.room.devices()[self.ordinal]);
        if alone <= usable && added <= open {
            return Ok(());
        }
        let least = meeting.on_empty_card(self.device().slots);
        let need = least.max(added);
        Err(if alone > usable {
            Reason::TooSmall { need, usable, free }
        } else if least > usable {
            Reason::TooSmallTogether { need: least, alone, usable, free }
        } else if let Some(tokens) = self.device().slots
            && !displaced.is_zero()
            && meeting.has_tokens()
        {
            Reason::TenantsMayMeet { need: least, tokens, together: load.plus(added), usable }
        } else if need > free {
            Reason::ShortOfMemory { need, free, usable }
        } else {
            Reason::PromisedAway { need, free, open }
        })
    }

    #[inline]
    pub(super) fn fit_slots(&self, need: u32) -> Result<(), Reason> {
        match self.input.slots {
            Some(slots) if need > slots.saturating_sub(self.input.slots_used) => {
                Err(Reason::SlotsExhausted { slots })
            }
            _ => Ok(()),
        }
    }

    #[inline]
    pub(super) fn fit_cores(&self, need: u32) -> Result<(), Reason> {
        let FitInput { cores: total, cores_free: free, .. } = *self.input;
        if need > free { Err(Reason::ShortOfCores { need, free, total }) } else { Ok(()) }
    }

    /// Resolves a need's amount on this device; bytes on a device of known capacity are the common
    /// case.
    #[inline]
    pub(super) fn resolve<'n>(&self, amount: &'n Amount) -> Result<ResolvedAmount<'n>, Reason> {
        match amount {
            Amount::Bytes(bytes) if self.input.known => {
                Ok(ResolvedAmount::Share(Bytes::new(bytes.get())))
            }
            amount => self.resolve_other(amount),
        }
    }

    #[inline(never)]
    fn resolve_other<'n>(&self, amount: &'n Amount) -> Result<ResolvedAmount<'n>, Reason> {
        match amount {
            Amount::Bytes(bytes) => {
                self.known_usable()?;
                Ok(ResolvedAmount::Share(Bytes::new(bytes.get())))
            }
            Amount::Portion(portion) => self.share_of(Some(*portion)),
            Amount::Whole => Ok(ResolvedAmount::Whole),
            Amount::Profile(name) => Ok(ResolvedAmount::Profile(name)),
            Amount::Unknown(missing) => Err(Reason::NeedUnknown { missing: missing.clone() }),
            Amount::Plain(rule) => self.resolve_plain(*rule),
        }
    }

    /// Resolves one access token without an amount of memory.
    fn resolve_plain<'n>(&self, rule: PlainRule) -> Result<ResolvedAmount<'n>, Reason> {
        match self.device().sharing {
            Sharing::Exclusive | Sharing::Shares | Sharing::EqualShares => {
                Ok(ResolvedAmount::Whole)
            }
            Sharing::Tokens { .. } if rule == PlainRule::Refuse => Err(Reason::UndeclaredMemory),
            // MPS itself limits each client to an equal part, so that a whole card would be too
            // much.
            Sharing::Tokens { replicas, strategy: Strategy::Mps } => {
                self.share_of(Portion::new(1, u64::from(replicas)))
            }
            Sharing::Tokens { .. } if rule == PlainRule::Whole => Ok(ResolvedAmount::Whole),
            Sharing::Tokens { replicas, .. } => self.share_of(Portion::new(1, u64::from(replicas))),
        }
    }

    fn known_usable(&self) -> Result<Bytes, Reason> {
        match &self.device().memory.total {
            Capacity::Unknown { missing } => {
                Err(Reason::CapacityUnknown { missing: missing.clone() })
            }
            Capacity::Known { .. } => Ok(self.input.usable),
        }
    }

    fn share_of<'n>(&self, portion: Option<Portion>) -> Result<ResolvedAmount<'n>, Reason> {
        let usable = self.known_usable()?;
        let bytes =
            portion.and_then(|portion| portion.share_of(usable)).ok_or(Reason::ShareTooSmall)?;
        Ok(ResolvedAmount::Share(bytes))
    }
}
