//! What would make a model fit whose memory its file says: a shorter context, a smaller cache, more
//! GPUs. Each is proposed only where the planner itself finds a place for the model declared so.

use std::convert::Infallible;

use plimsoll_core::decide::decide;
use plimsoll_core::draft::Draft;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::remedy::{Kind, Remedy};
use plimsoll_models::fit::largest;
use plimsoll_models::settings::{KvType, KvTypes};

use crate::memory::{self, Known, Source};
use crate::model::{Declaration, Model};
use crate::runtime::Kv;
use crate::size::Span;
use crate::translate::{self, Purpose};

/// Contexts are proposed in whole blocks of so many tokens, which is what runtimes round them to.
const TOKENS: u64 = 256;

/// The smallest changes of a declaration with which the planner finds a place, for a model that it
/// refused.
pub fn proposals(ledger: &Ledger, policy: &Policy, model: &Model, known: Known<'_>) -> Vec<Remedy> {
    let bench = Bench { ledger, policy, model, known };
    // Where the operator says what it needs, nothing else changes that.
    let says = |need: memory::Need| need.charge.is_ok_and(|(source, _)| source == Source::Declared);
    if model.declared().runtime.kind().is_none()
        || memory::needs(model, known).into_iter().any(says)
    {
        return Vec::new();
    }
    [bench.more_gpus(), bench.lower_context(), bench.smaller_cache()]
        .into_iter()
        .flatten()
        .collect()
}

/// Whether a remedy of the core speaks of a split that a file says better.
pub fn is_of_file(model: &Model, remedy: &Remedy) -> bool {
    translate::needs_file(model).is_some()
        && matches!(remedy.kind, Kind::MoreDevices | Kind::FewerDevices)
}

struct Bench<'a> {
    ledger: &'a Ledger,
    policy: &'a Policy,
    model: &'a Model,
    known: Known<'a>,
}

impl Bench<'_> {
    /// Whether the planner finds a place for the model declared so.
    fn fits(&self, change: impl FnOnce(&mut Declaration)) -> bool {
        let mut declared = self.model.declared().clone();
        change(&mut declared);
        let Ok(model) = Model::try_from(declared) else { return false };
        let request = translate::slot_request(
            &model,
            self.known,
            "what-if",
            Purpose::Reservation,
            Span::default(),
        );
        decide(&Draft::of(self.ledger), self.policy, &request).chosen().is_some()
    }

    fn more_gpus(&self) -> Option<Remedy> {
        let most = *self.model.sizes().iter().max()?;
        let widest = self.ledger.nodes().map(|(_, view)| view.node.devices.len()).max()?;
        let widest = u16::try_from(widest).unwrap_or(u16::MAX);
        let sizes = (most + 1..=widest.min(64)).filter(|size| size.is_power_of_two());
        let split = |size: u16| {
            move |declared: &mut Declaration| {
                (declared.gpus, declared.tensor_parallel) = (None, vec![size]);
            }
        };
        let size = sizes.into_iter().find(|size| self.fits(split(*size)))?;
        Some(Remedy {
            kind: Kind::MoreDevices,
            text: format!("it were split over {size} GPUs (tensor_parallel: [{size}])"),
            target: Vec::new(),
            amount: Some(u64::from(size)),
        })
    }

    fn lower_context(&self) -> Option<Remedy> {
        let now = self.model.declared().context?;
        let fits = |blocks: u64| Ok(self.fits(|declared| declared.context = Some(blocks * TOKENS)));
        let shorter = now.div_ceil(TOKENS).saturating_sub(1);
        let Ok(blocks) = largest::<Infallible>(shorter, fits);
        let context = blocks? * TOKENS;
        Some(Remedy {
            kind: Kind::LowerContext,
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
        let smaller = KvType::ALL
            .into_iter()
            .filter(|kind| kind.is_known_to(runtime) && kind.bytes_of_32() < least);
        let with = |kind: KvType| {
            move |declared: &mut Declaration| declared.kv = Some(Kv(KvTypes::both(kind)))
        };
        let kind = smaller.into_iter().find(|kind| self.fits(with(*kind)))?;
        Some(Remedy {
            kind: Kind::SmallerCache,
            text: format!("its cache were stored as {kind} instead of {now} (kv: {kind})"),
            target: vec![kind.name().into()],
            amount: None,
        })
    }
}
