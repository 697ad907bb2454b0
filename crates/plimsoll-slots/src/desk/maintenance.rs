//! Maintenance of runners: cordon, drain, and open again.
//!
//! A cordoned runner gets no new slots. A draining one is cordoned, its slots take no more
//! reservations, and each is stopped once it is idle; at the deadline the others are stopped with
//! their reservations. Both survive a restart of the server and of the agent, until an operator
//! opens the runner again.

use plimsoll_core::front::Core;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::reasons::Loss;
use super::runners::RunnerError;
use super::sessions::requests_on;
use super::{Desk, DeskView};
use crate::size::Span;

/// The readiness of a runner for new slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intake {
    #[default]
    Open,
    /// It gets no new slots, and keeps those that it has.
    Cordoned,
    /// It gets no new slots, and those that it has are stopped.
    Draining {
        since: Millis,
        /// The time at which slots that are still busy are stopped; never if `None`.
        deadline: Option<Millis>,
    },
}

impl Intake {
    /// Returns true if the runner may get new slots.
    pub fn is_open(self) -> bool {
        self == Intake::Open
    }

    /// Returns true if the slots of the runner are being stopped.
    pub fn is_draining(self) -> bool {
        matches!(self, Intake::Draining { .. })
    }
}

impl Desk {
    /// Closes a runner to new slots. A drain that was started ends.
    pub fn cordon_runner(&mut self, core: &mut Core<'_>, runner: &str) -> Result<(), RunnerError> {
        self.set_intake(core, runner, Intake::Cordoned)
    }

    /// Opens a runner to new slots.
    pub fn uncordon_runner(
        &mut self,
        core: &mut Core<'_>,
        runner: &str,
    ) -> Result<(), RunnerError> {
        self.set_intake(core, runner, Intake::Open)
    }

    /// Closes a runner to new slots and stops those that it has: idle ones at once, busy ones when
    /// they become idle, or after a time.
    pub fn drain_runner(
        &mut self,
        core: &mut Core<'_>,
        runner: &str,
        within: Option<Span>,
    ) -> Result<(), RunnerError> {
        let since = core.now();
        let deadline = within.map(|within| since.after(within.into()));
        self.set_intake(core, runner, Intake::Draining { since, deadline })
    }

    fn set_intake(
        &mut self,
        core: &mut Core<'_>,
        runner: &str,
        intake: Intake,
    ) -> Result<(), RunnerError> {
        let id = self.runners.get(runner).ok_or(RunnerError::NotRegistered)?.id.clone();
        if self.runners.set_intake(&mut self.log, &id, intake) {
            let silent_since = self.view(core.scheduler()).silent_since(&id);
            let node = plimsoll_core::device::Node { silent_since, ..self.node(core, &id) };
            self.update_node(core, node);
        }
        self.advance_drains(core);
        self.prewarm(core);
        self.serve_pending(core);
        Ok(())
    }

    /// Stops the idle slots of draining runners, and all of them after the deadline.
    pub(super) fn advance_drains(&mut self, core: &mut Core<'_>) {
        let now = core.now();
        let draining: Vec<(Name, Option<Millis>)> = self
            .runners
            .iter()
            .filter_map(|runner| match runner.intake {
                Intake::Draining { deadline, .. } => Some((runner.id.clone(), deadline)),
                Intake::Open | Intake::Cordoned => None,
            })
            .collect();
        for (runner, deadline) in draining {
            let is_over = deadline.is_some_and(|deadline| deadline <= now);
            for request in requests_on(core, &runner) {
                let is_idle = self.reservations.count_in_slot(&request.name) == 0;
                let holding = core.ledger().of_request(&request).map(|(_, holding)| holding);
                let is_going = holding.is_none_or(|holding| holding.stage.is_releasing());
                if !is_going && (is_idle || is_over) {
                    let loss = Loss::Drained { runner: runner.clone() };
                    self.withdraw_slot(core, &request.name, &loss);
                }
            }
        }
    }
}

impl DeskView<'_> {
    /// Returns true if the slots of a runner are being stopped, so that they take no more work.
    pub(super) fn is_draining(self, runner: &str) -> bool {
        self.runner(runner).is_some_and(|runner| runner.intake.is_draining())
    }
}
