//! The holders that a pending request cannot evict, and why.

use std::sync::Arc;

use super::Step;
use crate::charge::Holding;
use crate::decide::Decision;
use crate::rejection::{HOLDERS_LISTED, HolderNotEvictable, HoldersNotEvictable, Rejection};
use crate::request::{Eviction, Request};

impl Step<'_> {
    /// Adds to a rejected decision the holders of the nearest node that cannot be evicted, if the
    /// request may evict at all. On a device that is too small no eviction would help.
    pub(super) fn with_holders_not_evictable(
        &self,
        request: &Request,
        decision: Decision,
    ) -> Decision {
        match self.holders_not_evictable(request, &decision) {
            Some(rejection) => decision.with_rejection(Arc::new(rejection)),
            None => decision,
        }
    }

    fn holders_not_evictable(&self, request: &Request, decision: &Decision) -> Option<Rejection> {
        let rejection = decision.rejection()?;
        let nearest = rejection.nearest.as_ref().filter(|nearest| !nearest.too_small)?;
        if request.terms.eviction == Eviction::Never {
            return None;
        }
        let ledger = &self.scheduler.ledger;
        let on_node = ledger.holdings_on(ledger.node_id(&nearest.node)?);
        // The end of a holder without a device would release no device memory.
        let mut holdings: Vec<&Holding> = on_node
            .map(|(_, holding)| holding)
            .filter(|holding| !holding.charges.is_empty())
            .collect();
        holdings.sort_by_key(|holding| !is_on_device(holding, nearest.device.ordinal));
        let mut holders: Vec<HolderNotEvictable> = holdings
            .into_iter()
            .filter_map(|holding| self.holder_not_evictable(holding, request))
            .collect();
        if holders.is_empty() {
            return None;
        }
        let more = u32::try_from(holders.len().saturating_sub(HOLDERS_LISTED)).unwrap_or(u32::MAX);
        holders.truncate(HOLDERS_LISTED);
        let not_evictable = HoldersNotEvictable { node: nearest.node.clone(), holders, more };
        Some(Rejection { not_evictable: Some(not_evictable), ..Rejection::clone(rejection) })
    }

    fn holder_not_evictable(
        &self,
        holding: &Holding,
        request: &Request,
    ) -> Option<HolderNotEvictable> {
        let reason = self.scheduler.check_evictable(holding, request, self.now).err()?;
        let mut promises =
            self.scheduler.ledger.promises().filter(|_| holding.stage.is_releasing());
        let promised = promises.find(|(_, promise)| promise.after.contains(&holding.request));
        Some(HolderNotEvictable {
            request: holding.request.clone(),
            reason,
            promised_to: promised.map(|(pending, _)| pending.clone()),
        })
    }
}

fn is_on_device(holding: &Holding, ordinal: u16) -> bool {
    holding.charges.iter().any(|charge| charge.on.contains(&ordinal))
}
