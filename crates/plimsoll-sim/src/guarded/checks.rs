//! Invariants of every moment, checked by what runs and by what the API server has.

use std::collections::BTreeMap;

use plimsoll_core::request::RequestId;

use super::api::{ApiServer, NAMESPACE, holds, mib_of};
use super::machines::{CARD_MIB, Machines, uid_of};
use super::replica::Replica;

/// Finds a card over its line. On a node with one card, a pod that is bound and has not started
/// counts too: nothing can stop it any more.
pub(super) fn over_line(api: &ApiServer, machines: &Machines) -> Option<String> {
    let mut cards: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for one in &machines.running {
        *cards.entry((one.node, one.card)).or_default() += one.mib;
    }
    for pod in api.pods.values().filter(|pod| holds(pod)) {
        let is_running = machines.running.iter().any(|one| one.uid == uid_of(pod));
        let node = machines.nodes.iter().position(|node| pod.node_name() == Some(&node.name));
        if let Some(node) = node.filter(|node| machines.nodes[*node].cards == 1 && !is_running) {
            *cards.entry((node, 0)).or_default() += mib_of(pod);
        }
    }
    let (card, mib) = cards.into_iter().find(|(_, mib)| *mib > CARD_MIB)?;
    let (node, card) = (&machines.nodes[card.0].name, card.1);
    Some(format!("card {card} of {node} has {mib} of {CARD_MIB} MiB"))
}

/// Finds a pod that holds memory and has no charge in the ledger of a replica that decides.
pub(super) fn uncharged(api: &ApiServer, machines: &Machines, replica: &Replica) -> Option<String> {
    let ledger = replica.host.scheduler().ledger();
    let lacks = |name: &str, uid: &str, node: &str| {
        let id = RequestId::new(NAMESPACE, name).with_uid(uid);
        let held = ledger.of_request(&id);
        let is_charged = held.is_some_and(|(_, holding)| *holding.node == *node);
        (!is_charged).then(|| format!("{name} holds memory of {node} and has no charge"))
    };
    let bound = api.pods.values().filter(|pod| holds(pod));
    let bound = bound.filter_map(|pod| {
        lacks(&pod.metadata.name, uid_of(pod), pod.node_name().unwrap_or_default())
    });
    let running = machines.running.iter();
    let mut running =
        running.filter_map(|one| lacks(&one.pod, &one.uid, &machines.nodes[one.node].name));
    running.next().or_else(|| bound.into_iter().next())
}
