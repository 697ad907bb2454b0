//! The holders whose end would make room on a node: those that can be retired, or only those that
//! stay as long as they want.

use super::place_on;
use super::retire::{Endless, check_retirable};
use crate::charge::{Holding, HoldingId};
use crate::draft::Draft;
use crate::ledger::{Ledger, NodeId};
use crate::policy::Policy;
use crate::request::{Request, RequestId};

/// The holders whose end would make room for a request on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// It fits without the holders that can be retired for it.
    Retirable,
    /// It fits only without these holders.
    Endless(EndlessHolders),
    /// It does not fit without any holder.
    Never,
}

/// The holders of a node that nothing makes leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndlessHolders {
    /// The first ones in order of arrival.
    pub holders: Vec<(RequestId, Endless)>,
    /// The number of holders that are not listed.
    pub more: u32,
}

type Held<'a> = (HoldingId, &'a Holding);

/// Judges a node without its holders; lists at most `most` of those in the way. Promises to other
/// requests are ignored: they end.
pub fn clearing(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    node: NodeId,
    most: usize,
) -> Clearing {
    let policy = policy.with_hints(&request.spec.hints);
    let mut draft = Draft::new(ledger);
    ledger.promises().for_each(|(id, _)| draft.without_promise_to(id));
    draft.without_releasing_on(node);
    let running = ledger.holdings_on(node).filter(|(_, holding)| !holding.stage.is_releasing());
    let (leaving, staying): (Vec<Held>, Vec<Held>) =
        running.partition(|(_, holding)| check_retirable(holding, request).is_ok());
    leaving.iter().for_each(|(id, _)| draft.without(*id));
    if place_on(&draft, node, &policy, request, Vec::new()).is_some() {
        return Clearing::Retirable;
    }
    staying.iter().for_each(|(id, _)| draft.without(*id));
    if staying.is_empty() || place_on(&draft, node, &policy, request, Vec::new()).is_none() {
        return Clearing::Never;
    }
    // A holder without a device releases no device memory; it is named only if there is no other.
    let has_devices = staying.iter().any(|(_, holding)| !holding.charges.is_empty());
    let in_the_way = staying.iter().map(|(_, holding)| *holding);
    let in_the_way = in_the_way.filter(|holding| !has_devices || !holding.charges.is_empty());
    let mut holders: Vec<(RequestId, Endless)> = in_the_way
        .filter_map(|holding| {
            Some((holding.request.clone(), check_retirable(holding, request).err()?))
        })
        .collect();
    let more = u32::try_from(holders.len().saturating_sub(most)).unwrap_or(u32::MAX);
    holders.truncate(most);
    Clearing::Endless(EndlessHolders { holders, more })
}
