//! The checks of a device against its tenants that its sums alone do not decide.

use super::target::Target;
use super::{Allotment, Trial};
use crate::device::{Device, Sharing};
use crate::reason::Reason;
use crate::request::Need;
use crate::units::Bytes;

impl Trial<'_> {
    /// Rejects a die of a card with tenants for a need that accepts only a device without any
    /// (HAMi's mutex policy): its dies share the card. The request's own dies do not count.
    pub(super) fn fit_board(&self, need: &Need, device: &Device) -> Result<(), Reason> {
        if !need.selector.alone || device.board.is_none() {
            return Ok(());
        }
        let mut devices = self.node.devices.iter().zip(self.inputs);
        let is_used = devices.any(|(other, input)| other.board == device.board && input.tenanted);
        if is_used { Err(Reason::NotAlone) } else { Ok(()) }
    }
}

impl Target<'_> {
    /// Rejects a share of another size than those in use, where the hardware makes them equal.
    ///
    /// All shares are equal, so that their number and their sum give the size of each. Where
    /// observed tenants have several sizes, or hold memory without a share, no size matches.
    pub(super) fn fit_equal_shares(&self, allotment: &Allotment) -> Result<(), Reason> {
        if self.device().sharing != Sharing::EqualShares {
            return Ok(());
        }
        let need = allotment.bytes.unwrap_or(Bytes::ZERO);
        let (load, shares) = (self.input.load, self.input.slots_used);
        let is_equal = need.get().checked_mul(u64::from(shares)) == Some(load.get());
        let own = self.own.into_iter().flat_map(|own| &own.parts);
        let mut others = own.filter_map(|(_, part)| part.bytes).filter(|bytes| *bytes != need);
        match others.next() {
            _ if !is_equal => Err(Reason::UnequalShare { need, load, shares }),
            Some(load) => Err(Reason::UnequalShare { need, load, shares: 1 }),
            None => Ok(()),
        }
    }
}
