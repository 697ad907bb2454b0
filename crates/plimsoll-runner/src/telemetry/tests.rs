//! Sequences of measurements: released slots, baselines and stale values.

use plimsoll_slots::wire::{Launch, LaunchDevice};

use super::*;
use crate::meter::ProcessReading;
use crate::processes::tests::table_of;
use crate::state_dir::tests::{launch, record};

const GIB: u64 = 1 << 30;
const START: u64 = 5;

fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start: START }
}

/// A slot with one process, charged 10 GiB on device 0.
fn slot(name: &str, pid: u32) -> Slot {
    let device = LaunchDevice { index: 0, uuid: None, bytes: Some(10 * GIB), total: None };
    let mut record = record(name, id(pid));
    record.launch = Some(Launch { devices: vec![device], ..launch() });
    Slot::new(record, Phase::Running)
}

fn reading(used: u64, processes: Option<&[(u32, u64)]>) -> DeviceReading {
    let listed = processes.map(|list| {
        list.iter().map(|(pid, bytes)| ProcessReading { pid: *pid, bytes: Some(*bytes) }).collect()
    });
    DeviceReading {
        index: 0,
        used: Some(used),
        utilisation: None,
        processes: listed,
        healthy: None,
    }
}

/// A runner with one device.
struct Machine {
    telemetry: Telemetry,
    slots: Slots,
    devices: Devices,
}

impl Machine {
    fn new(slots: &[(&str, u32)]) -> Machine {
        Machine {
            telemetry: Telemetry::default(),
            slots: slots.iter().map(|(name, pid)| ((*name).to_owned(), slot(name, *pid))).collect(),
            devices: Devices { facts: Vec::new(), declared_foreign: vec![0] },
        }
    }

    fn record(&mut self, began: Instant, readings: Vec<DeviceReading>, running: &[ProcessId]) {
        let measurement = Measurement { began, readings, processes: table_of(running) };
        self.telemetry.record(&measurement, &mut self.slots, &self.devices);
    }

    /// Measures device 0 while these processes are running.
    fn measure(&mut self, used: u64, processes: Option<&[(u32, u64)]>, running: &[u32]) {
        let running: Vec<ProcessId> = running.iter().map(|pid| id(*pid)).collect();
        self.record(Instant::now(), vec![reading(used, processes)], &running);
    }

    /// Lets all processes of a slot have exited now.
    fn exit(&mut self, slot: &str) {
        let slot = self.slots.get_mut(slot).expect("the slot exists");
        slot.phase = Phase::AwaitingRelease { since: Instant::now() };
    }

    fn is_released(&self, slot: &str) -> bool {
        self.slots[slot].phase == Phase::Released
    }

    fn reason(&self, slot: &str) -> Option<&str> {
        self.slots[slot].reason.as_deref()
    }
}

#[test]
fn memory_of_a_process_that_just_died_does_not_enter_the_baseline() {
    let mut machine = Machine::new(&[("a", 7), ("b", 8)]);
    let both = [(7, 10 * GIB), (8, 10 * GIB)];
    machine.measure(21 * GIB, Some(&both), &[7, 8]);
    // The process is dead and not listed, its memory is still in use, and its watcher has not
    // noticed.
    machine.measure(21 * GIB, Some(&[(8, 10 * GIB)]), &[8]);
    machine.exit("a");
    machine.measure(21 * GIB, Some(&[(8, 10 * GIB)]), &[8]);
    assert!(!machine.is_released("a"));
    assert_eq!(machine.telemetry.baselines.unexplained[&0], GIB);
    machine.measure(11 * GIB, Some(&[(8, 10 * GIB)]), &[8]);
    assert!(machine.is_released("a"));
}

#[test]
fn memory_of_a_dead_child_does_not_enter_the_baseline() {
    let mut machine = Machine::new(&[("a", 7)]);
    machine.slots.get_mut("a").expect("the slot exists").members.insert(id(9));
    machine.measure(10 * GIB, Some(&[(7, 5 * GIB), (9, 5 * GIB)]), &[7, 9]);
    machine.measure(10 * GIB, Some(&[(7, 5 * GIB)]), &[7]);
    assert_eq!(machine.telemetry.baselines.unexplained[&0], 0);
}

#[test]
fn memory_that_grows_beside_live_slots_enters_the_baseline() {
    let mut machine = Machine::new(&[("a", 7)]);
    machine.measure(10 * GIB, Some(&[(7, 10 * GIB)]), &[7]);
    machine.measure(11 * GIB, Some(&[(7, 10 * GIB)]), &[7]);
    machine.exit("a");
    machine.measure(GIB, Some(&[]), &[]);
    assert!(machine.is_released("a"));
}

#[test]
fn the_same_free_memory_is_not_evidence_for_two_slots() {
    let mut machine = Machine::new(&[("a", 7), ("b", 8)]);
    machine.exit("a");
    machine.exit("b");
    // Only the sum is known, and the memory of one of the two is still in use.
    machine.measure(10 * GIB, None, &[]);
    assert_eq!((machine.is_released("a"), machine.is_released("b")), (true, false));
    machine.measure(0, None, &[]);
    assert!(machine.is_released("b"));
}

#[test]
fn the_idle_baseline_only_falls_beside_slots() {
    let mut machine = Machine::new(&[]);
    machine.measure(20 * GIB, None, &[]);
    assert_eq!(machine.telemetry.baselines.idle[&0], 20 * GIB);
    machine.slots.insert("a".to_owned(), slot("a", 7));
    machine.measure(30 * GIB, None, &[7]);
    assert_eq!(machine.telemetry.baselines.idle[&0], 20 * GIB);
    machine.measure(10 * GIB, None, &[7]);
    assert_eq!(machine.telemetry.baselines.idle[&0], 10 * GIB);
}

#[test]
fn a_measurement_from_before_the_exit_is_no_evidence() {
    let mut machine = Machine::new(&[("a", 7)]);
    let began = Instant::now();
    machine.exit("a");
    machine.record(began, vec![reading(0, Some(&[]))], &[]);
    assert!(!machine.is_released("a"));
}

#[test]
fn a_reused_pid_does_not_hold_the_slot() {
    let mut machine = Machine::new(&[("a", 7)]);
    machine.exit("a");
    let other = ProcessId { pid: 7, start: START + 1 };
    machine.record(Instant::now(), vec![reading(GIB, Some(&[(7, GIB)]))], &[other]);
    assert!(machine.is_released("a"));
    let statuses = machine.telemetry.statuses(Instant::now(), Duration::from_secs(1));
    assert_eq!(statuses[0].foreign[0].pid, Some(7));
}

#[test]
fn a_device_that_is_no_longer_measured_is_no_evidence() {
    let mut machine = Machine::new(&[("a", 7)]);
    machine.measure(GIB, Some(&[(7, GIB)]), &[7]);
    machine.exit("a");
    machine.record(Instant::now(), Vec::new(), &[]);
    assert!(!machine.is_released("a"));
    let expected = "the processes exited, but GPU 0 is no longer measured";
    assert_eq!(machine.reason("a"), Some(expected));
}

#[test]
fn without_a_meter_the_exit_of_the_processes_is_the_evidence() {
    let mut machine = Machine::new(&[("a", 7)]);
    machine.exit("a");
    machine.record(Instant::now(), Vec::new(), &[]);
    assert!(machine.is_released("a"));
}

#[test]
fn values_of_a_failed_or_overdue_measurement_are_stale() {
    let mut machine = Machine::new(&[]);
    let heartbeat = Duration::from_secs(1);
    let began = Instant::now();
    machine.record(began, vec![reading(GIB, None)], &[]);
    let stale_for = |machine: &Machine, after| {
        machine.telemetry.statuses(began + after, heartbeat)[0].stale_for
    };
    assert_eq!(stale_for(&machine, Duration::from_secs(3)), None);
    assert_eq!(stale_for(&machine, Duration::from_secs(4)), Some(4000));
    machine.telemetry.failure = Some("broken".to_owned());
    assert_eq!(stale_for(&machine, Duration::from_secs(1)), Some(1000));
}
