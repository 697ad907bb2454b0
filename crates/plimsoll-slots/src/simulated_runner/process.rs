//! The processes of a simulated runner, and how they behave.

use plimsoll_core::units::Millis;

use crate::size::Span;
use crate::wire::{OnDevice, SlotReport, SlotState};

/// The behaviour of a simulated runner. The default does everything at once and well.
#[derive(Clone, Debug, Default)]
pub struct Conduct {
    pub load: Delay,
    pub stop: Delay,
    /// The reason with which starts fail after their load time; `None` if they succeed.
    pub failure: Option<String>,
    pub memory: MemoryUse,
    pub telemetry: Telemetry,
}

/// The time that a start or a stop takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    #[default]
    None,
    Lasts(Span),
    /// It never ends: a load that hangs, memory that does not come back.
    Forever,
}

/// The memory that a process uses once it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryUse {
    #[default]
    AsBooked,
    /// This percentage of what is booked.
    Percent(u64),
    /// As booked, and not measured: reports leave it out.
    Unmeasured,
}

/// The measuring of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Telemetry {
    #[default]
    Off,
    /// Every heartbeat has the memory in use on each device.
    On,
    /// Measuring has failed for this long; the numbers are the last good ones.
    Stale(Span),
}

/// The origin of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A server ordered its start.
    Ordered,
    /// It was there before, or was started by hand.
    Unknown,
}

/// A model server process that exists only in the simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedProcess {
    pub generation: u64,
    pub model: String,
    pub origin: Origin,
    pub state: SlotState,
    pub reason: Option<String>,
    pub booked: Vec<OnDevice>,
    /// The memory in use, whether or not it is measured.
    pub used: Vec<OnDevice>,
    pub is_measured: bool,
    /// The state that it goes into by itself, and when.
    pub next: Option<(Millis, SlotState)>,
    /// True once the server has answered a heartbeat that reported the end of this generation.
    pub(super) is_end_acknowledged: bool,
}

impl SimulatedProcess {
    /// A process that runs and uses this memory, such as one from before the server's data begins.
    pub fn running(model: impl Into<String>, generation: u64, used: Vec<OnDevice>) -> Self {
        let (model, state) = (model.into(), SlotState::Running);
        let new = SimulatedProcess::new(model, generation, state, Vec::new());
        SimulatedProcess { used, origin: Origin::Unknown, ..new }
    }

    pub(super) fn new(
        model: String,
        generation: u64,
        state: SlotState,
        booked: Vec<OnDevice>,
    ) -> Self {
        SimulatedProcess {
            generation,
            model,
            origin: Origin::Ordered,
            state,
            reason: None,
            used: Vec::new(),
            booked,
            is_measured: true,
            next: None,
            is_end_acknowledged: false,
        }
    }

    /// Puts it into a state. One that is over uses no memory.
    pub(super) fn enter(&mut self, state: SlotState) {
        self.state = state;
        self.next = None;
        if state.is_over() {
            self.used.clear();
            self.is_end_acknowledged = false;
        }
    }

    /// Puts it into a state that ends after a delay, or into its end at once.
    pub(super) fn enter_after(
        &mut self,
        now: Millis,
        delay: Delay,
        meanwhile: SlotState,
        end: SlotState,
    ) {
        match delay {
            Delay::None => self.enter(end),
            Delay::Lasts(span) => {
                self.enter(meanwhile);
                self.next = Some((now.after(span.into()), end));
            }
            Delay::Forever => self.enter(meanwhile),
        }
    }

    pub(super) fn end(&mut self, reason: &str) {
        self.enter(SlotState::Gone);
        self.reason = Some(reason.to_string());
    }

    pub(super) fn report(&self, slot: &str) -> SlotReport {
        let is_over = self.state.is_over();
        let is_ending = is_over || self.state == SlotState::Stopping;
        SlotReport {
            slot: slot.to_string(),
            generation: self.generation,
            model: self.model.clone(),
            state: self.state,
            reason: self.reason.clone().filter(|_| is_ending),
            endpoint: (!is_over).then(|| format!("http://simulated.invalid/{slot}")),
            booked: self.booked.clone(),
            used: if self.is_measured { self.used.clone() } else { Vec::new() },
        }
    }

    /// Renumbers its devices; `false` if one of them is gone.
    pub(super) fn renumber(&mut self, indices: &[Option<u16>]) -> bool {
        self.booked.iter_mut().chain(&mut self.used).all(|on| {
            let index = indices.get(usize::from(on.index)).copied().flatten();
            on.index = index.unwrap_or(on.index);
            index.is_some()
        })
    }
}
