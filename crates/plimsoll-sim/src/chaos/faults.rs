//! Faults of machines and processes.

use plimsoll_slots::simulated_runner::SimulatedProcess;
use plimsoll_slots::wire::{DeviceFacts, OnDevice, SlotState};

use super::counters::Counter;
use super::day::Day;
use super::fleet::GpuIdentity;
use super::machine::{Link, Machine, Standing};
use super::models;
use super::schedule::Occurrence;

const GIB: u64 = 1 << 30;
/// Memory of foreign processes, at most.
const MAX_FOREIGN: u64 = 20 * GIB;

impl Day {
    /// Something happens to a machine.
    pub(super) fn machine_fault(&mut self, machine: usize) {
        if self.machines[machine].link != Link::Up {
            return;
        }
        match self.random.below(20) {
            0..5 => self.partition(machine),
            5..9 => self.reboot(machine),
            9..13 => self.restart_with_reordered_gpus(machine),
            13..16 => self.lose_gpu(machine),
            16 => self.lose_machine(machine),
            _ => self.restart_agent(machine),
        }
    }

    pub(super) fn restart_agent(&mut self, machine: usize) {
        self.server.counters.increment(Counter::AgentsRestarted);
        self.agents += 1;
        self.machines[machine].restart_agent(self.agents);
    }

    /// Partitions a machine; its processes continue. Sometimes an operator believes that it is gone
    /// and removes its runner.
    fn partition(&mut self, machine: usize) {
        self.server.counters.increment(Counter::Partitions);
        self.machines[machine].link = Link::Down;
        let most = *self.random.pick(&[10_000, 300_000, 7_200_000]);
        let delay = self.random.between(1_000, most);
        if self.random.percent(30) {
            let removal = self.random.below(delay);
            self.after(removal, Occurrence::RemoveRunner { machine });
        }
        self.reconnect_after(machine, delay);
    }

    /// Reboots a machine: all processes end. It may come back with other GPUs.
    fn reboot(&mut self, machine: usize) {
        self.server.counters.increment(Counter::Reboots);
        self.machines[machine].link = Link::Down;
        self.machines[machine].runner.reset_machine();
        self.restart_agent(machine);
        let mut gpus = self.gpus(machine);
        if self.random.percent(30) {
            self.random.shuffle(&mut gpus);
            self.server.counters.increment(Counter::GpusReordered);
        }
        if self.random.percent(20) && !gpus.is_empty() {
            gpus.remove(self.random.index(gpus.len()));
            self.server.counters.increment(Counter::GpusLost);
        }
        if self.random.percent(30) && gpus.len() < 8 {
            let identity = self.machines[machine].identity;
            gpus.push(self.fleet.any_gpu(&mut self.random, identity));
            self.server.counters.increment(Counter::GpusAdded);
        }
        self.machines[machine].runner.replace_devices(gpus);
        let delay = self.random.between(30_000, 900_000);
        self.reconnect_after(machine, delay);
    }

    fn gpus(&self, machine: usize) -> Vec<DeviceFacts> {
        self.machines[machine].runner.registration().devices
    }

    /// Restarts an agent that finds its GPUs in another order; processes continue.
    fn restart_with_reordered_gpus(&mut self, machine: usize) {
        if self.machines[machine].identity == GpuIdentity::Uuid {
            let mut gpus = self.gpus(machine);
            self.random.shuffle(&mut gpus);
            self.machines[machine].runner.replace_devices(gpus);
            self.server.counters.increment(Counter::GpusReordered);
        }
        self.restart_agent(machine);
    }

    /// A GPU fails; what runs on it ends.
    fn lose_gpu(&mut self, machine: usize) {
        let mut gpus = self.gpus(machine);
        if self.machines[machine].identity == GpuIdentity::Index || gpus.is_empty() {
            return;
        }
        gpus.remove(self.random.index(gpus.len()));
        self.machines[machine].runner.replace_devices(gpus);
        self.server.counters.increment(Counter::GpusLost);
        self.restart_agent(machine);
    }

    /// Loses a machine for good. Usually an operator removes its runner; another machine comes back
    /// under its name.
    fn lose_machine(&mut self, machine: usize) {
        self.server.counters.increment(Counter::RunnersLost);
        self.machines[machine].link = Link::Lost;
        self.machines[machine].runner.reset_machine();
        let (removal, back) = (self.random.below(3_600_000), self.random.below(7_200_000));
        self.after(removal, Occurrence::RemoveRunner { machine });
        self.reconnect_after(machine, removal + back);
    }

    /// An operator removes a runner that is gone or unreachable.
    pub(super) fn remove_runner(&mut self, machine: usize) {
        if self.machines[machine].link == Link::Up {
            return;
        }
        let name = self.machines[machine].runner.name().to_string();
        let mut is_removed = false;
        self.call(|desk, core| {
            is_removed = desk.remove_runner(core, &name).is_ok();
            None
        });
        if is_removed {
            let at = &mut self.machines[machine];
            at.standing = Standing::Removed { agent: at.agent };
            self.server.counters.increment(Counter::RunnersRemoved);
        }
    }

    /// Schedules the return of a machine.
    pub(super) fn reconnect_after(&mut self, machine: usize, delay: u64) {
        let agent = self.machines[machine].agent;
        self.after(delay, Occurrence::Reconnect { machine, agent });
    }

    /// Brings a machine back; a lost one is replaced by another.
    pub(super) fn reconnect(&mut self, machine: usize) {
        let at = &self.machines[machine];
        let (identity, standing) = (at.identity, at.standing);
        match at.link {
            Link::Up => return,
            Link::Down => {}
            Link::Lost => {
                let name = at.runner.name().to_string();
                let runner = self.fleet.runner(&mut self.random, &name, identity);
                self.agents += 1;
                self.machines[machine] = Machine::new(runner, identity, self.agents);
                self.machines[machine].standing = standing;
            }
        }
        self.machines[machine].link = Link::Up;
        self.heartbeat(machine);
    }

    /// Something happens to a process of a machine, or to its memory.
    pub(super) fn process_event(&mut self, machine: usize) {
        if self.machines[machine].link == Link::Lost {
            return;
        }
        match self.random.below(20) {
            0..6 => self.end_process(machine),
            6..10 => self.exceed_charge(machine),
            10..16 => self.change_foreign(machine),
            16..18 => self.start_unknown(machine),
            _ => {}
        }
    }

    fn draw_running(&mut self, machine: usize) -> Option<String> {
        let living = self.machines[machine].living();
        let running = living.filter(|(_, process)| process.state == SlotState::Running);
        let running: Vec<String> = running.map(|(slot, _)| slot.clone()).collect();
        (!running.is_empty()).then(|| self.random.pick(&running).clone())
    }

    fn end_process(&mut self, machine: usize) {
        if let Some(slot) = self.draw_running(machine) {
            self.server.counters.increment(Counter::ProcessesEnded);
            self.machines[machine].runner.end_process(&slot, "exit status 137");
        }
    }

    fn exceed_charge(&mut self, machine: usize) {
        let Some(slot) = self.draw_running(machine) else { return };
        let percent = self.random.between(1, 40);
        if let Some(process) = self.machines[machine].runner.process_mut(&slot) {
            process.used.iter_mut().for_each(|on| on.bytes += on.bytes / 100 * percent + 1);
            self.server.counters.increment(Counter::Overuse);
        }
    }

    fn draw_gpu(&mut self, machine: usize) -> Option<u16> {
        let count = self.gpus(machine).len();
        let index = (count > 0).then(|| self.random.index(count))?;
        u16::try_from(index).ok()
    }

    fn change_foreign(&mut self, machine: usize) {
        let Some(index) = self.draw_gpu(machine) else { return };
        let bytes = if self.random.percent(50) { 0 } else { self.random.below(MAX_FOREIGN) };
        let program = self.random.percent(50).then_some("python");
        self.machines[machine].runner.set_foreign(index, bytes, program);
        self.server.counters.increment(Counter::ForeignMemory);
    }

    /// Starts a process that no order asked for, sometimes under a name that a slot could have.
    fn start_unknown(&mut self, machine: usize) {
        let Some(index) = self.draw_gpu(machine) else { return };
        self.unknown_processes += 1;
        let name = match self.random.percent(20) {
            true => format!("slot-{}", self.random.below(40)),
            false => format!("by-hand-{}", self.unknown_processes),
        };
        if self.machines[machine].runner.processes().contains_key(&name) {
            return;
        }
        let model = match self.random.percent(50) {
            true => models::draw_name(&mut self.random),
            false => "unknown",
        };
        let bytes = self.random.between(1, 30 * GIB);
        let process = SimulatedProcess::running(model, 1, vec![OnDevice { index, bytes }]);
        self.machines[machine].runner.put_process(name, process);
        self.server.counters.increment(Counter::UnknownProcesses);
    }
}
