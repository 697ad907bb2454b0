//! A machine: its simulated runner, its network, and the check of what physically runs there.

use plimsoll_core::charge::HoldingId;
use plimsoll_core::units::Millis;
use plimsoll_slots::desk::DeskView;
use plimsoll_slots::simulated_runner::{Origin, SimulatedProcess, SimulatedRunner};

use super::fleet::{self, GpuIdentity};

/// The network of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Partitioned or rebooting.
    Down,
    /// The machine is lost for good.
    Lost,
}

/// The server's knowledge of what runs on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Known,
    /// An operator removed the runner, and no later agent has reported since.
    Removed {
        agent: u64,
    },
}

/// The registration of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegistrationState {
    New,
    /// Registrations were sent, the first with this number, and none was answered.
    Sent {
        first: u64,
    },
    Confirmed,
}

/// One machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub runner: SimulatedRunner,
    pub identity: GpuIdentity,
    pub link: Link,
    pub standing: Standing,
    /// The session of its agent. Responses to an earlier agent are not heard.
    pub agent: u64,
    pub registration: RegistrationState,
}

impl Machine {
    pub(crate) fn new(runner: SimulatedRunner, identity: GpuIdentity, agent: u64) -> Self {
        let mut machine = Machine {
            runner,
            identity,
            link: Link::Up,
            standing: Standing::Known,
            agent,
            registration: RegistrationState::New,
        };
        machine.restart_agent(agent);
        machine
    }

    /// Starts another agent; processes continue.
    pub(crate) fn restart_agent(&mut self, agent: u64) {
        self.agent = agent;
        self.registration = RegistrationState::New;
        self.runner.restart_agent(agent);
    }

    /// Notes that the server has acknowledged a heartbeat of this agent.
    pub(crate) fn on_heard(&mut self, agent: u64) {
        if let Standing::Removed { agent: removed } = self.standing
            && agent == self.agent
            && agent > removed
        {
            self.standing = Standing::Known;
        }
    }

    /// Returns the processes that exist.
    pub(crate) fn living(&self) -> impl Iterator<Item = (&String, &SimulatedProcess)> {
        self.runner.processes().iter().filter(|(_, process)| !process.state.is_over())
    }

    /// Returns the processes that exist and that the server ordered.
    fn ordered(&self) -> impl Iterator<Item = (&String, &SimulatedProcess)> {
        self.living().filter(|(_, process)| process.origin == Origin::Ordered)
    }

    /// Returns a GPU on which the ordered processes may use more than it can hold.
    pub(crate) fn overcommitted(&self) -> Option<String> {
        let devices = self.runner.registration();
        for (index, facts) in (0_u16..).zip(&devices.devices) {
            let on = self.ordered().flat_map(|(_, process)| &process.booked);
            let booked: u64 = on.filter(|on| on.index == index).map(|on| on.bytes).sum();
            let limit = fleet::limit(facts);
            if booked > limit {
                let slots: Vec<&str> = self.ordered().map(|(slot, _)| slot.as_str()).collect();
                let name = self.runner.name();
                return Some(format!(
                    "GPU {index} of {name} holds {limit} bytes and ordered processes use {booked}: {slots:?}"
                ));
            }
        }
        None
    }

    /// Returns an ordered process that exists and holds no memory in the ledger.
    pub(crate) fn uncharged(&self, view: DeskView<'_>) -> Option<String> {
        if matches!(self.standing, Standing::Removed { .. }) || self.link == Link::Lost {
            return None;
        }
        let name = self.runner.name();
        self.ordered().find_map(|(slot, process)| {
            let qualified = format!("{slot}@{name}");
            let mut candidates = [slot.as_str(), qualified.as_str()].into_iter();
            let is_charged = candidates.any(|id| {
                let slot = view.slot(id).filter(|slot| slot.model == process.model);
                let holding = slot.and_then(|slot| view.holding(slot));
                holding.is_some_and(|(HoldingId(_), holding)| holding.node == *name)
            });
            let (generation, state) = (process.generation, process.state);
            (!is_charged).then(|| {
                format!("{slot} (generation {generation}) is {state:?} on {name} and holds nothing")
            })
        })
    }

    /// Lets processes that hang forever end.
    pub(crate) fn end_hung(&mut self, now: Millis) {
        self.runner.advance(now);
        let hung = self.living().filter(|(_, process)| {
            process.next.is_none() && process.state != plimsoll_slots::wire::SlotState::Running
        });
        let hung: Vec<String> = hung.map(|(slot, _)| slot.clone()).collect();
        hung.iter().for_each(|slot| self.runner.end_process(slot, "killed by an operator"));
    }
}
