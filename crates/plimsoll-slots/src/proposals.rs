//! Changes of a declaration that would make a model fit: more GPUs, a shorter context, a smaller
//! cache.
//!
//! A change is proposed only if the planner places the changed model, so that a proposal never
//! fails. Each search is bounded: one attempt for each number of GPUs of the widest node, a binary
//! search over the context, and one attempt for each cache type.

use std::convert::Infallible;

use plimsoll_core::decide::decide;
use plimsoll_core::draft::Draft;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::remedy::{Remedy, RemedyKind};
use plimsoll_models::fit::largest_satisfying;
use plimsoll_models::settings::{KvType, KvTypes};

use crate::memory::MemoryFacts;
use crate::model::{Declaration, Model};
use crate::runtime::Kv;
use crate::size::Span;
use crate::translate::{self, Purpose};

/// Contexts are proposed in multiples of this many tokens, to which runtimes round them.
const CONTEXT_BLOCK: u64 = 256;

/// The largest number of GPUs that is proposed.
const MAX_GPUS: u16 = 16;

/// Returns the smallest changes of the declaration with which the planner places a model that it
/// rejected.
pub fn proposals(
    ledger: &Ledger,
    policy: &Policy,
    model: &Model,
    facts: MemoryFacts<'_>,
) -> Vec<Remedy> {
    let search = Search { ledger, policy, model, facts };
    // Settings change only memory that is estimated.
    if model.declared().memory.is_some() || model.declared().runtime.kind().is_none() {
        return Vec::new();
    }
    [search.more_gpus(), search.shorter_context(), search.smaller_cache()]
        .into_iter()
        .flatten()
        .collect()
}

/// Returns true for a remedy of the core that is replaced by a proposal of this module: the core
/// divides the memory by the number of devices, the estimate from the file knows better.
pub fn is_replaced(model: &Model, remedy: &Remedy) -> bool {
    model.declared().is_estimated()
        && matches!(remedy.kind, RemedyKind::MoreDevices | RemedyKind::FewerDevices)
}

struct Search<'a> {
    ledger: &'a Ledger,
    policy: &'a Policy,
    model: &'a Model,
    facts: MemoryFacts<'a>,
}

impl Search<'_> {
    /// Returns true if the planner places the model with this change.
    fn is_placed(&self, change: impl FnOnce(&mut Declaration)) -> bool {
        let mut declared = self.model.declared().clone();
        change(&mut declared);
        let Ok(model) = Model::try_from(declared) else { return false };
        let request = translate::slot_request(
            &model,
            self.facts,
            "what-if",
            Purpose::Reservation,
            Span::default(),
        );
        decide(&Draft::new(self.ledger), self.policy, &request).chosen().is_some()
    }

    fn more_gpus(&self) -> Option<Remedy> {
        let most = *self.model.sizes().iter().max()?;
        let widest = self.ledger.nodes().map(|(_, view)| view.node.devices.len()).max()?;
        let widest = u16::try_from(widest).unwrap_or(u16::MAX).min(MAX_GPUS);
        let size = (most + 1..=widest).find(|size| {
            self.is_placed(|declared| {
                declared.gpus = None;
                declared.tensor_parallel = vec![*size];
            })
        })?;
        Some(Remedy {
            kind: RemedyKind::MoreDevices,
            text: format!("it were split over {size} GPUs (tensor_parallel: [{size}])"),
            target: Vec::new(),
            amount: Some(u64::from(size)),
        })
    }

    fn shorter_context(&self) -> Option<Remedy> {
        let now = self.model.declared().context?;
        let is_placed = |blocks: u64| {
            let context = Some(blocks * CONTEXT_BLOCK);
            Ok(self.is_placed(|declared| declared.context = context))
        };
        let shorter = now.div_ceil(CONTEXT_BLOCK).saturating_sub(1);
        let Ok(blocks) = largest_satisfying::<Infallible>(shorter, is_placed);
        let context = blocks? * CONTEXT_BLOCK;
        Some(Remedy {
            kind: RemedyKind::LowerContext,
            text: format!(
                "its context were {context} tokens instead of {now} (context: {context})"
            ),
            target: Vec::new(),
            amount: Some(context),
        })
    }

    fn smaller_cache(&self) -> Option<Remedy> {
        let declared = self.model.declared();
        let (runtime, now) = (declared.runtime.kind()?, declared.kv.unwrap_or_default().0);
        let least = now.k.bytes_of_32().min(now.v.bytes_of_32());
        let mut smaller = KvType::ALL
            .into_iter()
            .filter(|kind| kind.is_known_to(runtime) && kind.bytes_of_32() < least);
        let kind = smaller
            .find(|kind| self.is_placed(|declared| declared.kv = Some(Kv(KvTypes::both(*kind)))))?;
        Some(Remedy {
            kind: RemedyKind::SmallerCache,
            text: format!("its cache were stored as {kind} instead of {now} (kv: {kind})"),
            target: vec![kind.name().into()],
            amount: None,
        })
    }
}
