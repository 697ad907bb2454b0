//! What would help a gang: changes that let all of it in, tried on a copy of the ledger.

use std::sync::Arc;

use plimsoll_core::charge::Holding;
use plimsoll_core::decide::Decision;
use plimsoll_core::gang::{self, Gang, GangDecision};
use plimsoll_core::ledger::{Ledger, Promise};
use plimsoll_core::policy::Policy;
use plimsoll_core::remedy::{Kind, Remedy};
use plimsoll_core::request::{Request, RequestId};
use plimsoll_core::units::Bytes;

use crate::simulation::{Advice, Promised};

/// Holders that are tried, the smallest first. Each costs a whole decision on a copy of the ledger.
const TRIED: usize = 24;

/// What will be for each member, and where it is wanted what would help. A change that would let in one member alone is
/// no help and is not proposed.
pub(crate) fn advise(
    ledger: &Ledger,
    policy: &Policy,
    gang: &Gang,
    wanted: bool,
) -> Vec<Arc<Advice>> {
    let would_fit_if: Vec<Remedy> =
        wanted.then(|| give_up(ledger, policy, gang)).flatten().into_iter().collect();
    let promised = after_releases(ledger, policy, gang);
    let of = |member: usize| {
        let promised = promised.as_ref().and_then(|all| all[member].clone());
        Arc::new(Advice { would_fit_if: would_fit_if.clone(), promised })
    };
    (0..gang.members.len()).map(of).collect()
}

/// The smallest holder whose going lets the whole gang in.
fn give_up(ledger: &Ledger, policy: &Policy, gang: &Gang) -> Option<Remedy> {
    let mut holders: Vec<&Holding> =
        ledger.holdings().map(|(_, holding)| holding).filter(|h| could_go(h)).collect();
    holders.sort_by_key(|holding| {
        (holding.bytes().is_none(), holding.bytes(), holding.request.clone())
    });
    let holder = holders.into_iter().take(TRIED).find(|holder| {
        let without = without(ledger, [&holder.request].into_iter());
        gang::decide_gang(&without, policy, gang).placed
    })?;
    let bytes = holder.bytes().map(|bytes| format!(" ({bytes})")).unwrap_or_default();
    let name = holder.request.to_string();
    Some(Remedy {
        kind: Kind::GiveUp,
        text: format!("{name} gave up{bytes}"),
        target: vec![name.into()],
        amount: holder.bytes().map(Bytes::get),
    })
}

fn could_go(holding: &Holding) -> bool {
    !holding.terms.pinned && !holding.stage.is_releasing() && !holding.charges.is_empty()
}

/// Where the members will be once those have gone who are going already, if that is enough.
fn after_releases(ledger: &Ledger, policy: &Policy, gang: &Gang) -> Option<Vec<Option<Promised>>> {
    let going: Vec<&Holding> = ledger
        .holdings()
        .map(|(_, holding)| holding)
        .filter(|holding| holding.stage.is_releasing())
        .collect();
    if going.is_empty() {
        return None;
    }
    let mut later = without(ledger, going.iter().map(|holding| &holding.request));
    let GangDecision { decisions, placed, .. } = gang::decide_gang(&later, policy, gang);
    let mut promise = |(member, decision): (&Request, &Decision)| {
        let placement = decision.place()?.place.clone();
        later
            .send(member, &placement)
            .expect("what decide proposes the commit admits, on the same ledger");
        let charges = later.of_request(&member.id)?.1.charges.clone();
        let on = |ordinal: &u16| {
            charges.iter().flat_map(|charge| &charge.on).any(|other| other == ordinal)
        };
        let in_the_way = |holding: &&&Holding| {
            holding.node == placement.node
                && holding.charges.iter().flat_map(|charge| &charge.on).any(on)
        };
        let after =
            going.iter().filter(in_the_way).map(|holding| holding.request.clone()).collect();
        Some(Promised::of(ledger, Promise { placement, charges, after }))
    };
    placed.then(|| gang.members.iter().zip(&decisions).map(&mut promise).collect())
}

/// A copy of the ledger in which these have gone.
fn without<'a>(ledger: &Ledger, gone: impl Iterator<Item = &'a RequestId>) -> Ledger {
    let mut copy = ledger.clone();
    for request in gone {
        copy.freed(request).expect("only holders are let go");
    }
    copy
}
