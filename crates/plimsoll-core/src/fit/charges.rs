//! The charges that the bookings of a trial amount to.

use super::{Allotment, OwnUse, Trial};
use crate::charge::{Booked, Charge, Part};
use crate::request::Shape;
use crate::units::{Bytes, Cores};

impl Trial<'_> {
    /// Returns the charges for all bookings of the trial.
    ///
    /// One charge per device, for the peak over the containers; one per container on a partitioned
    /// device; and floating charges for all cards of a kind that the plugin may pick, each with the
    /// largest amount of any of them.
    pub fn charges(&self, shape: &Shape) -> Vec<Charge> {
        let mut charges: Vec<Charge> = Vec::new();
        let mut floating: Vec<(u16, Vec<Charge>)> = Vec::new();
        for (ordinal, own) in (0_u16..).zip(&self.own).filter(|(_, own)| !own.parts.is_empty()) {
            let input = &self.inputs[usize::from(ordinal)];
            let usable = input.known.then_some(input.usable);
            if own.floating {
                let here = own.floating_charges(ordinal, shape, usable);
                match floating.iter_mut().find(|(kind, _)| *kind == input.kind) {
                    Some((_, others)) => float_on(others, here),
                    None => floating.push((input.kind, here)),
                }
            } else if own.slices.is_empty() {
                charges.push(own.charge(ordinal, shape, usable));
            } else {
                charges.extend(own.slice_charges(ordinal, shape));
            }
        }
        charges.extend(floating.into_iter().flat_map(|(_, charges)| charges));
        charges
    }
}

/// Adds a card to floating charges. `here` are the same charges on that card.
fn float_on(charges: &mut [Charge], here: Vec<Charge>) {
    for (charge, here) in charges.iter_mut().zip(here) {
        let mut on = std::mem::take(&mut charge.on);
        on.extend_from_slice(&here.on);
        if here.bytes() > charge.bytes() {
            *charge = here;
        }
        charge.on = on;
    }
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

    /// Returns the charges on a card that the plugin picks: one per container, since the plugin may
    /// give each of them another card. The memory of init containers is free before others start,
    /// so that the peak is one charge.
    fn floating_charges(&self, ordinal: u16, shape: &Shape, usable: Option<Bytes>) -> Vec<Charge> {
        if !self.peak.is_concurrent() {
            return vec![self.charge(ordinal, shape, usable)];
        }
        let charge = |(index, own): &(usize, Allotment)| {
            let bytes = own.bytes.unwrap_or(Bytes::ZERO);
            Charge {
                on: vec![ordinal],
                amount: if own.whole {
                    Booked::Whole { bytes: usable }
                } else {
                    Booked::share(bytes)
                },
                cores: Cores(own.cores),
                slots: own.slots,
                slice: None,
                parts: vec![part(shape, *index, own)],
            }
        };
        self.parts.iter().map(charge).collect()
    }

    fn charge(&self, ordinal: u16, shape: &Shape, usable: Option<Bytes>) -> Charge {
        let total = self.peak.total();
        let amount =
            if self.whole { Booked::Whole { bytes: usable } } else { Booked::share(total.bytes) };
        let parts = self.parts.iter().map(|(index, own)| part(shape, *index, own)).collect();
        Charge {
            on: vec![ordinal],
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
