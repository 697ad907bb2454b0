//! The checks of one need on one device: slots, memory, compute and exclusivity.

use super::peak::Load;
use super::{Allotment, OwnUse};
use crate::device::{Capacity, Device, Sharing, Strategy};
use crate::reason::Reason;
use crate::request::{Amount, Compute, Need, PlainRule, Role};
use crate::room::FitInput;
use crate::units::{Bytes, Name, Portion};

/// A need's amount on one specific device. A fraction, for example, is of that device's usable
/// memory.
pub(super) enum ResolvedAmount {
    Share(Bytes),
    Whole,
    Profile(Name),
}

impl ResolvedAmount {
    pub(super) fn name(&self) -> Name {
        match self {
            ResolvedAmount::Share(bytes) => bytes.to_string().into(),
            ResolvedAmount::Whole => "the whole device".into(),
            ResolvedAmount::Profile(name) => name.clone(),
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
}

/// A device with the request's own bookings on it.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub device: &'a Device,
    pub input: &'a FitInput,
    pub ordinal: usize,
    pub own: Option<&'a OwnUse>,
}

impl Target<'_> {
    /// Checks the amounts, from the most lasting reason to the most transient.
    ///
    /// Slots come first because HAMi reports them first, and compute after memory for the same
    /// reason. Each amount is checked as the peak of the whole request on the device, not as the
    /// need alone.
    #[inline]
    pub(super) fn fit(&self, role: Role, need: &Need) -> Result<Allotment, Reason> {
        let input = self.input;
        if self.with_own(role, Load { slots: need.slots, ..Load::default() }).slots
            > input.slots_free
        {
            return Err(Reason::SlotsExhausted { slots: input.slots });
        }
        if need.selector.alone && input.tenanted {
            return Err(Reason::NotAlone);
        }
        let amount = resolve_amount(self.device, input, &need.amount)?;
        if input.undeclared {
            return Err(Reason::HeldUndeclared);
        }
        let (bytes, whole) = match amount {
            ResolvedAmount::Share(bytes) if !input.partitioned => (Some(bytes), false),
            ResolvedAmount::Whole => (input.known.then_some(input.usable), true),
            ResolvedAmount::Share(_) | ResolvedAmount::Profile(_) => {
                return self.fit_slice(need, &amount);
            }
        };
        let cores = if whole { Compute::All } else { need.compute }.to_units(input.cores);
        let slots = need.slots;
        let load =
            Load { bytes: bytes.unwrap_or(Bytes::ZERO), cores, slots, wholes: u32::from(whole) };
        let total = self.with_own(role, load);
        self.fit_memory(MemoryNeed { peak: total.bytes, alone: load.bytes, slots })?;
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
        match (&self.device.memory.total, self.device.sharing) {
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
        let MemoryNeed { peak: need, alone, slots } = need;
        let FitInput { usable, open, load, displaced, .. } = *self.input;
        let displaced = if self.own.is_none() && slots > 0 { displaced } else { Bytes::ZERO };
        let free = usable.less(load);
        if need <= open.plus(displaced).min(usable) {
            return Ok(());
        }
        Err(if alone > usable {
            Reason::TooSmall { need, usable, free }
        } else if need > usable {
            Reason::TooSmallTogether { need, alone, usable, free }
        } else if !displaced.is_zero() {
            let tokens = self.device.slots.unwrap_or(u32::MAX);
            let together = load.less(displaced).plus(need);
            Reason::TenantsMayMeet { need, tokens, together, usable }
        } else if need > free {
            Reason::ShortOfMemory { need, free, usable }
        } else {
            Reason::PromisedAway { need, free, open }
        })
    }

    #[inline]
    pub(super) fn fit_cores(&self, need: u32) -> Result<(), Reason> {
        let FitInput { cores: total, cores_free: free, .. } = *self.input;
        if need > free { Err(Reason::ShortOfCores { need, free, total }) } else { Ok(()) }
    }
}

/// Resolves a need's amount on a device; bytes on a device of known capacity are the common case.
#[inline]
pub(super) fn resolve_amount(
    device: &Device,
    input: &FitInput,
    amount: &Amount,
) -> Result<ResolvedAmount, Reason> {
    match amount {
        Amount::Bytes(bytes) if input.known => Ok(ResolvedAmount::Share(Bytes::new(bytes.get()))),
        amount => resolve_other_amount(device, input, amount),
    }
}

fn resolve_other_amount(
    device: &Device,
    input: &FitInput,
    amount: &Amount,
) -> Result<ResolvedAmount, Reason> {
    match amount {
        Amount::Bytes(bytes) => {
            known_usable(device, input)?;
            Ok(ResolvedAmount::Share(Bytes::new(bytes.get())))
        }
        Amount::Portion(portion) => share_of(Some(*portion), device, input),
        Amount::Whole => Ok(ResolvedAmount::Whole),
        Amount::Profile(name) => Ok(ResolvedAmount::Profile(name.clone())),
        Amount::Unknown(missing) => Err(Reason::NeedUnknown { missing: missing.clone() }),
        Amount::Plain(rule) => match device.sharing {
            Sharing::Exclusive | Sharing::Shares | Sharing::EqualShares => {
                Ok(ResolvedAmount::Whole)
            }
            Sharing::Tokens { .. } if *rule == PlainRule::Refuse => Err(Reason::UndeclaredMemory),
            // MPS itself limits each client to an equal part, so that a whole card would be too
            // much.
            Sharing::Tokens { replicas, strategy: Strategy::Mps } => {
                share_of(Portion::new(1, u64::from(replicas)), device, input)
            }
            Sharing::Tokens { .. } if *rule == PlainRule::Whole => Ok(ResolvedAmount::Whole),
            Sharing::Tokens { replicas, .. } => {
                share_of(Portion::new(1, u64::from(replicas)), device, input)
            }
        },
    }
}

fn known_usable(device: &Device, input: &FitInput) -> Result<Bytes, Reason> {
    match &device.memory.total {
        Capacity::Unknown { missing } => Err(Reason::CapacityUnknown { missing: missing.clone() }),
        Capacity::Known { .. } => Ok(input.usable),
    }
}

fn share_of(
    portion: Option<Portion>,
    device: &Device,
    input: &FitInput,
) -> Result<ResolvedAmount, Reason> {
    let usable = known_usable(device, input)?;
    let bytes = portion.and_then(|portion| portion.share_of(usable)).ok_or(Reason::ShareTooSmall)?;
    Ok(ResolvedAmount::Share(bytes))
}
