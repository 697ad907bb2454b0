//! Bindings that a scheduler announces before it makes them: KAI's bind requests.
//!
//! A pod with a bind request counts on the selected node. Its scheduler deletes the request once
//! the pod has that node, and the two changes come by different watches: without a delay the charge
//! would end in between, and its card would look free to a guarded namespace. A request that the
//! binder reports as failed ends at once, because it says that there is no binding.

use plimsoll_core::front::Core;
use plimsoll_core::units::Millis;

use super::{Watch, merge};
use crate::object::ObjectRef;
use crate::translate::Affected;

/// The time for which a deleted bind request counts: one watch is later than another by much less.
pub(super) const LINGERS_FOR: Millis = Millis(5_000);

impl Watch {
    /// Removes a bind request, later.
    pub(super) fn remove_bind_request(&mut self, now: Millis, reference: &ObjectRef) {
        self.keep_bind_request(reference);
        let until = Millis(now.0.saturating_add(LINGERS_FOR.0));
        self.lingering.push((until, reference.clone()));
    }

    /// Keeps a bind request that is there again.
    pub(super) fn keep_bind_request(&mut self, reference: &ObjectRef) {
        self.lingering.retain(|(_, one)| {
            (&one.namespace, &one.name) != (&reference.namespace, &reference.name)
        });
    }

    /// Removes the bind requests that were deleted long enough ago.
    pub(super) fn remove_lingering(&mut self, core: &mut Core<'_>) {
        let now = core.now();
        let due = self.lingering.extract_if(.., |(until, _)| *until <= now);
        let due: Vec<ObjectRef> = due.map(|(_, reference)| reference).collect();
        if due.is_empty() {
            return;
        }
        let mut affected = Affected::default();
        for reference in due {
            merge(&mut affected, self.index.remove(&reference));
        }
        self.follow(core, &affected);
    }
}
