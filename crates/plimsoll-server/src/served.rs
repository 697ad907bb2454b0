//! The interface between the shared part of the server and a front end.
//!
//! Observers, routes and metrics that every front end has are written against this trait. The
//! routes that only one front end has are in a module of their own, over its typed engine.

use std::collections::BTreeSet;
use std::fmt::Debug;

use plimsoll_api::rows::{ReservationEndedRow, SlotNames};
use plimsoll_core::front::Front;
use plimsoll_core::request::RequestId;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::steps::Vocabulary;
use plimsoll_core::units::{Millis, Name};
use prometheus_client::registry::Registry;

/// A front end that the server can serve.
pub trait ServedFront: Front {
    /// Selects the names of requests and nodes in decision logs.
    const VOCABULARY: Vocabulary;

    /// The facts of the front end that explain a decision, such as the memory of a model.
    type DecisionFacts: Debug + Send + Sync + 'static;

    /// Returns the facts for a decision about a request, at the time of the decision.
    fn decision_facts(&self, scheduler: &Scheduler, request: &RequestId) -> Self::DecisionFacts;

    /// Returns the names of a request and a node in the rest of the front end's API, to show beside
    /// the core's; none where the API uses the core's names.
    fn slot_names(request: Option<&RequestId>, node: Option<&Name>) -> SlotNames;

    /// Returns why the last start of a request failed, if the front end knows.
    fn start_failure(&self, scheduler: &Scheduler, request: &RequestId) -> Option<String>;

    /// Returns the reservations that have ended, of those that changed; none where the front end
    /// has no reservations.
    fn ended_reservations(
        &self,
        _scheduler: &Scheduler,
        _changed: &BTreeSet<Self::Topic>,
    ) -> Vec<ReservationEndedRow> {
        Vec::new()
    }

    /// Copies the front end's own numbers for one scrape. Runs on the decision thread, so it copies
    /// little; [`FrontGauges::register`] runs elsewhere.
    fn gauges(&self, scheduler: &Scheduler, now: Millis) -> Box<dyn FrontGauges>;
}

/// The numbers of a front end at one moment.
pub trait FrontGauges: Send {
    /// Returns the length of the queue and the age of its oldest entry.
    fn queue(&self) -> QueueGauges;

    /// Registers the metrics that only this front end has.
    fn register(&self, registry: &mut Registry);
}

/// The queue at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueGauges {
    /// The number of pending entries of each kind.
    pub lengths: Vec<(&'static str, u64)>,
    /// The age of the oldest entry, without speculative work, which may be pending forever.
    pub oldest_seconds: f64,
}
