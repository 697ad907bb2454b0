//! The charges that the bookings of a trial amount to.

use super::{Allotment, OwnUse, Trial};
use crate::charge::{Booked, Charge, Part};
use crate::request::Shape;
use crate::units::{Bytes, Cores};

impl Trial<'_> {
    /// Returns the charges for all bookings of the trial.
    ///
    /// One charge per device, for the peak over the containers; one per container on a partitioned
    /// device; and a single floating charge for all cards that the plugin may pick, with the
    /// largest amount of any of them.
    pub fn charges(&self, shape: &Shape) -> Vec<Charge> {
        let mut charges: Vec<Charge> = Vec::new();
        let mut floating: Option<Charge> = None;
        for (ordinal, own) in (0_u16..).zip(&self.own).filter(|(_, own)| !own.parts.is_empty()) {
            let input = &self.inputs[usize::from(ordinal)];
            let charge = own.charge(shape, input.known.then_some(input.usable));
            if own.floating {
                let mut largest = match floating.take() {
                    Some(other) => larger(other, charge),
                    None => charge,
                };
                largest.on.push(ordinal);
                floating = Some(largest);
            } else if own.slices.is_empty() {
                charges.push(Charge { on: vec![ordinal], ..charge });
            } else {
                charges.extend(own.slice_charges(ordinal, shape));
            }
        }
        charges.extend(floating);
        charges
    }
}

/// Returns the charge with more bytes, on the devices of `one`.
fn larger(one: Charge, other: Charge) -> Charge {
    if one.bytes() >= other.bytes() { one } else { Charge { on: one.on, ..other } }
}

impl OwnUse {
    /// Sums the memory of the slices. Every container keeps its slice for the life of the pod, so
    /// that slices add up whatever the containers' roles.
    pub(super) fn slice_bytes(&self) -> Bytes {
        self.parts.iter().filter_map(|(_, part)| part.bytes).fold(Bytes::ZERO, Bytes::plus)
    }

    pub(super) fn slice_mask(&self) -> u64 {
        self.slices.iter().fold(0, |mask, slice| mask | slice.span.mask())
    }

    fn charge(&self, shape: &Shape, usable: Option<Bytes>) -> Charge {
        let total = self.peak.total();
        let amount =
            if self.whole { Booked::Whole { bytes: usable } } else { Booked::share(total.bytes) };
        let parts = self.parts.iter().map(|(index, own)| part(shape, *index, own)).collect();
        Charge {
            on: Vec::new(),
            amount,
            cores: Cores(total.cores),
            slots: total.slots,
            slice: None,
            parts,
        }
    }

    /// Returns one charge per container: on a partitioned device each has a slice of its own.
    fn slice_charges(&self, ordinal: u16, shape: &Shape) -> Vec<Charge> {
        let charge = |(index, allotment): &(usize, Allotment)| Charge {
            on: vec![ordinal],
            amount: Booked::share(allotment.bytes.unwrap_or(Bytes::ZERO)),
            cores: Cores(allotment.cores),
            slots: allotment.slots,
            slice: allotment.slice.as_deref().cloned(),
            parts: vec![part(shape, *index, allotment)],
        };
        self.parts.iter().map(charge).collect()
    }
}

fn part(shape: &Shape, index: usize, allotment: &Allotment) -> Part {
    let container = &shape.containers[index];
    Part {
        container: container.name.clone(),
        role: container.role,
        bytes: allotment.bytes,
        cores: Cores(allotment.cores),
    }
}
