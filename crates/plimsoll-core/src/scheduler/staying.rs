//! Why nobody goes for one who waits.

use super::Step;
use crate::charge::Holding;
use crate::decide::Decision;
use crate::evict;
use crate::request::{Eviction, Request};

/// So many holders are named; of the others it is said how many there are.
const SHOWN: usize = 4;

impl Step<'_> {
    /// Why those who hold the devices of the nearest node may not be asked to go, for a request that may evict. Those on the
    /// nearest device come first.
    pub(super) fn why_nobody_goes(&self, request: &Request, decision: &Decision) -> String {
        let ledger = &self.machine.ledger;
        // On a device that is too small nobody's going would help.
        let may_help = request.terms.eviction != Eviction::Never;
        let miss = decision.nearest_miss().filter(|miss| may_help && !miss.too_small);
        let Some(miss) = miss else { return String::new() };
        let Some(node) = ledger.node_id(&miss.node) else { return String::new() };
        let on_nearest = |holding: &Holding| {
            holding.charges.iter().any(|charge| charge.on.contains(&miss.ordinal))
        };
        let mut holders: Vec<&Holding> =
            ledger.holdings_on(node).map(|(_, holding)| holding).collect();
        holders.sort_by_key(|holding| !on_nearest(holding));
        let mut stays: Vec<String> =
            holders.into_iter().filter_map(|holding| self.why_it_stays(holding, request)).collect();
        if stays.len() > SHOWN {
            let more = stays.len() - SHOWN;
            stays.truncate(SHOWN);
            stays.push(format!("{more} more on {}", miss.node));
        }
        if stays.is_empty() { String::new() } else { format!("; may not go: {}", stays.join("; ")) }
    }

    fn why_it_stays(&self, holding: &Holding, request: &Request) -> Option<String> {
        let why =
            evict::may_go(holding, request, self.now, self.machine.settings.residency).err()?;
        let mut promises = self.machine.ledger.promises().filter(|_| holding.stage.is_releasing());
        let promised = promises.find(|(_, promise)| promise.after.contains(&holding.request));
        let to =
            promised.map_or(String::new(), |(waits, _)| format!(", and {waits} waits for that"));
        Some(format!("{}: {why}{to}", holding.request))
    }
}
