//! Explanations and remedies are true: the numbers are the ledger's, and each remedy makes room
//! when it is carried out.

use std::num::NonZeroU16;
use std::sync::Arc;

use plimsoll_core::decide::{Decision, decide};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::reason::Reason;
use plimsoll_core::remedy::{Remedy, RemedyKind, remedies};
use plimsoll_core::request::{Amount, Asks, Need, Request, Spec, Terms};
use plimsoll_core::units::Bytes;
use plimsoll_core::verdict::Table;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::search::{filled, policy, told};
use crate::{brute, fleet};

/// Every number in the verdicts is what the charges sum to.
fn numbers_agree(ledger: &Ledger, decision: &Decision) -> Result<(), TestCaseError> {
    let sites = brute::sites(ledger, &[]);
    for verdict in decision.tables().flat_map(Table::by_name) {
        let site = sites
            .iter()
            .find(|site| site.name == *verdict.view.node.name)
            .expect("a node that is there");
        for device in verdict.needs.iter().flat_map(|need| &need.devices) {
            let card = &site.cards[usize::from(device.ordinal)];
            let room = &verdict.view.room.devices()[usize::from(device.ordinal)];
            prop_assert_eq!(u128::from(room.load().get()), card.load);
            if let Some(
                Reason::ShortOfMemory { need, free, usable }
                | Reason::TooSmall { need, free, usable }
                | Reason::TooSmallTogether { need, free, usable, .. },
            ) = &device.reason
            {
                prop_assert_eq!(u128::from(free.get()), card.free());
                prop_assert_eq!(room.usable(), Some(*usable));
                prop_assert!(need > free, "a device short of memory lacks some");
                prop_assert_eq!(device.need, Some(*need));
            }
        }
    }
    Ok(())
}

fn with_needs(request: &Request, change: impl Fn(&mut Need)) -> Request {
    let mut spec = Spec::clone(&request.spec);
    if let Asks::Shapes(shapes) = &mut spec.asks {
        shapes
            .iter_mut()
            .flat_map(|s| &mut s.containers)
            .flat_map(|c| &mut c.needs)
            .for_each(change);
    }
    Request { spec: Arc::new(spec), ..request.clone() }
}

/// The ledger and the request with a remedy carried out; nothing for kinds that change other
/// things.
fn carried_out(ledger: &Ledger, request: &Request, remedy: &Remedy) -> Option<(Ledger, Request)> {
    let mut ledger = ledger.clone();
    let amount = remedy.amount;
    let count = amount.and_then(|count| NonZeroU16::new(u16::try_from(count).ok()?));
    let changed = match remedy.kind {
        RemedyKind::AskLess => with_needs(request, |need| {
            let most = Bytes::new(amount.expect("a number of bytes"));
            match need.amount {
                Amount::Bytes(bytes) => {
                    need.amount = Amount::bytes(most.min(Bytes::new(bytes.get())));
                }
                Amount::Portion(_) => need.amount = Amount::bytes(most),
                _ => {}
            }
        }),
        RemedyKind::StopHolders => {
            let named = |id: &plimsoll_core::request::RequestId| {
                remedy.target.contains(&id.to_string().into())
            };
            let gone: Vec<_> =
                ledger.holdings().map(|(_, h)| h.request.clone()).filter(named).collect();
            assert_eq!(gone.len(), remedy.target.len(), "every holder to stop has a holding");
            gone.iter().for_each(|id| drop(ledger.freed(id)));
            request.clone()
        }
        RemedyKind::FewerDevices => with_needs(request, |need| {
            need.count = need.count.min(count.expect("a number of devices"));
        }),
        RemedyKind::MoreDevices => with_needs(request, |need| {
            let Amount::Bytes(bytes) = need.amount else { panic!("only bytes are split") };
            let total = bytes.get() * u64::from(need.count.get());
            need.count = count.expect("a number of devices");
            need.amount = Amount::bytes(Bytes::new(total.div_ceil(u64::from(need.count.get()))));
        }),
        RemedyKind::PlainRule
        | RemedyKind::OtherNode
        | RemedyKind::LowerContext
        | RemedyKind::SmallerCache => return None,
    };
    Some((ledger, changed))
}

proptest! {
    #![proptest_config(fleet::tries(600))]

    #[test]
    fn the_numbers_of_an_explanation_are_the_ledgers_and_each_remedy_makes_room(
        nodes in vec(fleet::owned_node(1..4), 1..3),
        tenants in vec((fleet::spec(1..2), fleet::terms()), 0..7),
        asked in fleet::spec(1..3),
        policy in policy(),
    ) {
        let scheduler = filled(nodes, &tenants, &policy);
        let request = fleet::request(99, asked, Terms::default());
        let decision = decide(scheduler.ledger(), &policy, &request);
        numbers_agree(scheduler.ledger(), &decision)?;
        if decision.chosen().is_some() {
            return Ok(());
        }
        for remedy in remedies(scheduler.ledger(), &policy, &request, &decision) {
            let Some((ledger, request)) = carried_out(scheduler.ledger(), &request, &remedy) else { continue };
            let again: Policy = policy.clone();
            prop_assert!(
                decide(&ledger, &again, &request).chosen().is_some(),
                "{:?} does not help:\n{}", remedy, told(scheduler.ledger(), &request)
            );
        }
    }
}
