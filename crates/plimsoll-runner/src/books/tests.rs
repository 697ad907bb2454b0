//! What is learnt from measurements, one after the other.

use plimsoll_slots::wire::{Launch, LaunchDevice};

use super::*;
use crate::meter::ProcessReading;
use crate::processes::tests::table_of;

const GIB: u64 = 1 << 30;
const START: u64 = 5;

fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start: START }
}

/// A slot with one process, booked for 10 GiB on device 0.
fn slot(name: &str, pid: u32) -> Slot {
    let device = LaunchDevice { index: 0, uuid: None, bytes: 10 * GIB, total: None };
    let launch = Launch {
        model: "m".to_owned(),
        devices: vec![device],
        argv: vec!["serve".to_owned()],
        env: BTreeMap::new(),
        ready: None,
        ready_within_ms: 0,
        grace_ms: 0,
        context: None,
        concurrency: 1,
        tensor_parallel: 1,
        told: None,
    };
    let record = Record {
        slot: name.to_owned(),
        generation: 1,
        launch,
        port: None,
        leader: Some(id(pid)),
        boot: String::new(),
        started_ms: 0,
        was_ready: true,
        over: None,
    };
    Slot::new(record, Phase::Running)
}

fn books(slots: &[(&str, u32)]) -> Books {
    let mut books = Books::new(Devices { facts: Vec::new(), foreign: vec![0] });
    books.slots = slots.iter().map(|(name, pid)| ((*name).to_owned(), slot(name, *pid))).collect();
    books
}

fn reading(used: u64, processes: Option<&[(u32, u64)]>) -> [DeviceReading; 1] {
    let listed = |list: &[(u32, u64)]| {
        list.iter().map(|(pid, bytes)| ProcessReading { pid: *pid, bytes: Some(*bytes) }).collect()
    };
    [DeviceReading {
        index: 0,
        used: Some(used),
        utilisation: None,
        processes: processes.map(listed),
        healthy: None,
    }]
}

fn measure(books: &mut Books, used: u64, processes: Option<&[(u32, u64)]>, living: &[u32]) {
    let living: Vec<ProcessId> = living.iter().map(|pid| id(*pid)).collect();
    books.measured(Instant::now(), &reading(used, processes), &table_of(&living));
}

/// Lets the processes of a slot be gone from now on.
fn drain(books: &mut Books, slot: &str) {
    books.slots.get_mut(slot).expect("it is there").phase = Phase::Draining(Instant::now());
}

fn is_back(books: &Books, slot: &str) -> bool {
    books.slots[slot].phase == Phase::Back
}

#[test]
fn memory_of_a_process_that_just_died_is_not_taken_for_usual() {
    let mut books = books(&[("a", 7), ("b", 8)]);
    let both = [(7, 10 * GIB), (8, 10 * GIB)];
    measure(&mut books, 21 * GIB, Some(&both), &[7, 8]);
    // It is dead and not listed, its memory is not back, and its watcher has not noticed yet.
    measure(&mut books, 21 * GIB, Some(&[(8, 10 * GIB)]), &[8]);
    drain(&mut books, "a");
    measure(&mut books, 21 * GIB, Some(&[(8, 10 * GIB)]), &[8]);
    assert!(!is_back(&books, "a"));
    assert_eq!(books.gauge.baselines.unexplained[&0], GIB);
    measure(&mut books, 11 * GIB, Some(&[(8, 10 * GIB)]), &[8]);
    assert!(is_back(&books, "a"));
}

#[test]
fn a_child_that_ended_is_not_taken_for_usual_either() {
    let mut books = books(&[("a", 7)]);
    books.slots.get_mut("a").expect("it is there").members.insert(id(9));
    measure(&mut books, 10 * GIB, Some(&[(7, 5 * GIB), (9, 5 * GIB)]), &[7, 9]);
    measure(&mut books, 10 * GIB, Some(&[(7, 5 * GIB)]), &[7]);
    assert_eq!(books.gauge.baselines.unexplained[&0], 0);
}

#[test]
fn what_grows_beside_living_slots_is_usual() {
    let mut books = books(&[("a", 7)]);
    measure(&mut books, 10 * GIB, Some(&[(7, 10 * GIB)]), &[7]);
    measure(&mut books, 11 * GIB, Some(&[(7, 10 * GIB)]), &[7]);
    drain(&mut books, "a");
    measure(&mut books, GIB, Some(&[]), &[]);
    assert!(is_back(&books, "a"));
}

#[test]
fn the_same_memory_is_no_proof_for_two() {
    let mut books = books(&[("a", 7), ("b", 8)]);
    drain(&mut books, "a");
    drain(&mut books, "b");
    // Only sums are known, and the memory of one of them is still there.
    measure(&mut books, 10 * GIB, None, &[]);
    assert_eq!((is_back(&books, "a"), is_back(&books, "b")), (true, false));
    measure(&mut books, 0, None, &[]);
    assert!(is_back(&books, "b"));
}

#[test]
fn what_was_in_use_without_slots_can_only_become_less_beside_them() {
    let mut books = books(&[]);
    measure(&mut books, 20 * GIB, None, &[]);
    assert_eq!(books.gauge.baselines.idle[&0], 20 * GIB);
    books.slots.insert("a".to_owned(), slot("a", 7));
    measure(&mut books, 30 * GIB, None, &[7]);
    assert_eq!(books.gauge.baselines.idle[&0], 20 * GIB);
    measure(&mut books, 10 * GIB, None, &[7]);
    assert_eq!(books.gauge.baselines.idle[&0], 10 * GIB);
}

#[test]
fn a_measurement_from_before_the_end_is_no_evidence() {
    let mut books = books(&[("a", 7)]);
    let began = Instant::now();
    drain(&mut books, "a");
    books.measured(began, &reading(0, Some(&[])), &table_of(&[]));
    assert!(!is_back(&books, "a"));
}

#[test]
fn a_number_that_somebody_else_has_now_does_not_hold_the_slot() {
    let mut books = books(&[("a", 7)]);
    drain(&mut books, "a");
    let other = ProcessId { pid: 7, start: START + 1 };
    books.measured(Instant::now(), &reading(GIB, Some(&[(7, GIB)])), &table_of(&[other]));
    assert!(is_back(&books, "a"));
    assert_eq!(books.statuses(Instant::now())[0].foreign[0].pid, 7);
}

#[test]
fn a_device_that_is_not_measured_any_more_shows_nothing() {
    let mut books = books(&[("a", 7)]);
    measure(&mut books, GIB, Some(&[(7, GIB)]), &[7]);
    drain(&mut books, "a");
    books.measured(Instant::now(), &[], &table_of(&[]));
    assert!(!is_back(&books, "a"));
    let reason = books.slots["a"].reason.as_deref();
    assert_eq!(reason, Some("its processes are gone, and device 0 is not measured any more"));
}

#[test]
fn where_nothing_measures_the_end_of_the_processes_is_the_evidence() {
    let mut books = books(&[("a", 7)]);
    drain(&mut books, "a");
    books.measured(Instant::now(), &[], &table_of(&[]));
    assert!(is_back(&books, "a"));
}

#[test]
fn a_change_of_health_is_noticed_once() {
    let mut books = books(&[]);
    let facts = serde_json::from_str(r#"{"uuid":"GPU-a","total":1}"#).expect("it is a device");
    books.devices.facts.push(facts);
    let mut sick = reading(0, None);
    sick[0].healthy = Some(false);
    assert!(books.measured(Instant::now(), &sick, &table_of(&[])));
    assert!(!books.devices.facts[0].healthy);
    assert!(!books.measured(Instant::now(), &sick, &table_of(&[])));
}
