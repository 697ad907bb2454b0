//! One device and one need: the checks on amounts.

use super::peak::Load;
use super::{Mine, Taken, WHOLE_UNKNOWN};
use crate::device::{Capacity, Device, Sharing, Strategy};
use crate::reason::Reason;
use crate::request::{Amount, Compute, Need, PlainRule, Role};
use crate::room::Gauge;
use crate::units::{Bytes, Name, Portion};

/// What a need means on this very device.
pub(super) enum Wanted {
    Share(Bytes),
    Whole,
    Profile(Name),
}

impl Wanted {
    pub(super) fn name(&self) -> Name {
        match self {
            Wanted::Share(bytes) => bytes.to_string().into(),
            Wanted::Whole => "the whole device".into(),
            Wanted::Profile(name) => name.clone(),
        }
    }
}

/// One device with what the request has there already.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub device: &'a Device,
    pub gauge: &'a Gauge,
    pub ordinal: usize,
    pub mine: Option<&'a Mine>,
}

impl Spot<'_> {
    /// The checks on amounts, from the most lasting reason to the most passing one.
    #[inline]
    pub(super) fn fit(&self, role: Role, need: &Need) -> Result<Taken, Reason> {
        let gauge = self.gauge;
        if self.with_mine(role, Load { slots: need.slots, ..Load::default() }).slots
            > gauge.slots_free
        {
            return Err(Reason::SlotsExhausted { slots: self.device.slots.unwrap_or(u32::MAX) });
        }
        if need.wishes.alone && gauge.tenanted {
            return Err(Reason::NotAlone);
        }
        let wanted = wanted(self.device, gauge, &need.amount)?;
        if gauge.undeclared {
            return Err(Reason::HeldUndeclared);
        }
        let (bytes, whole) = match wanted {
            Wanted::Share(bytes) if !gauge.partitioned => (Some(bytes), false),
            Wanted::Whole => (gauge.known.then_some(gauge.usable), true),
            Wanted::Share(_) | Wanted::Profile(_) => return self.fit_slice(need, &wanted),
        };
        let cores = if whole { Compute::All } else { need.compute }.of(gauge.cores);
        let load = Load { bytes: bytes.unwrap_or(WHOLE_UNKNOWN), cores, slots: need.slots };
        let total = self.with_mine(role, load);
        self.fit_memory(total.bytes)?;
        if !gauge.known && total.bytes > WHOLE_UNKNOWN
            || whole && self.mine.is_some_and(|mine| !mine.slices.is_empty())
        {
            return Err(Reason::Exclusive);
        }
        self.fit_cores(total.cores)?;
        if gauge.tenanted && (whole || (total.cores >= gauge.cores && gauge.cores > 0)) {
            return Err(Reason::Exclusive);
        }
        if total.cores == 0 && gauge.cores > 0 && gauge.cores_free == 0 {
            return Err(Reason::ComputeExhausted);
        }
        Ok(Taken { bytes, whole, cores, slots: need.slots, slice: None, peak: total.bytes })
    }

    #[inline]
    fn with_mine(&self, role: Role, load: Load) -> Load {
        self.mine.map_or(load, |mine| mine.peak.with(role, load).total())
    }

    #[inline]
    pub(super) fn fit_memory(&self, need: Bytes) -> Result<(), Reason> {
        let Gauge { usable, open, load, known, .. } = *self.gauge;
        if need <= open || !known {
            return Ok(());
        }
        let free = usable.less(load);
        Err(if need > usable {
            Reason::TooSmall { need, usable, free }
        } else if need > free {
            Reason::ShortOfMemory { need, free, usable }
        } else {
            Reason::PromisedAway { need, free, open }
        })
    }

    #[inline]
    pub(super) fn fit_cores(&self, need: u32) -> Result<(), Reason> {
        let Gauge { cores: total, cores_free: free, .. } = *self.gauge;
        if need > free { Err(Reason::ShortOfCores { need, free, total }) } else { Ok(()) }
    }
}

#[inline]
pub(super) fn wanted(device: &Device, gauge: &Gauge, amount: &Amount) -> Result<Wanted, Reason> {
    match amount {
        Amount::Bytes(bytes) if gauge.known => Ok(Wanted::Share(Bytes::new(bytes.get()))),
        amount => wanted_otherwise(device, gauge, amount),
    }
}

fn wanted_otherwise(device: &Device, gauge: &Gauge, amount: &Amount) -> Result<Wanted, Reason> {
    let usable = || match &device.memory.total {
        Capacity::Unknown { missing } => Err(Reason::CapacityUnknown { missing: missing.clone() }),
        Capacity::Known { .. } => Ok(gauge.usable),
    };
    let share = |bytes: Option<Bytes>| bytes.map(Wanted::Share).ok_or(Reason::ShareTooSmall);
    let equal = |replicas: u32| {
        let usable = usable()?;
        share(Portion::new(1, u64::from(replicas)).and_then(|part| part.of(usable)))
    };
    match amount {
        Amount::Bytes(bytes) => usable().map(|_| Wanted::Share(Bytes::new(bytes.get()))),
        Amount::Portion(portion) => share(portion.of(usable()?)),
        Amount::Whole => Ok(Wanted::Whole),
        Amount::Profile(name) => Ok(Wanted::Profile(name.clone())),
        Amount::Unknown(missing) => Err(Reason::NeedUnknown { missing: missing.clone() }),
        Amount::Plain(rule) => match device.sharing {
            Sharing::Exclusive | Sharing::Shares => Ok(Wanted::Whole),
            Sharing::Tokens { .. } if *rule == PlainRule::Refuse => Err(Reason::PlainRefused),
            // The service itself limits each client to an equal part.
            Sharing::Tokens { replicas, strategy: Strategy::Mps } => equal(replicas),
            Sharing::Tokens { .. } if *rule == PlainRule::Whole => Ok(Wanted::Whole),
            Sharing::Tokens { replicas, .. } => equal(replicas),
        },
    }
}
