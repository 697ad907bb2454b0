//! Histories over several processes, each of which reads its state from elsewhere.

use std::collections::BTreeSet;

use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{Event, Settings};
use plimsoll_core::front::Core;
use plimsoll_core::request::{Amount, Need, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::units::Bytes;

use super::*;
use crate::journal::JournalledChanges;
use crate::replay;
use crate::store::History;

/// A front end without state of its own.
#[derive(Debug, Default)]
struct Mirror;

impl Front for Mirror {
    type Change = ();
    type State = ();
    type Topic = ();

    fn restore(&mut self, (): ()) {}
    fn apply(&mut self, (): ()) {}
    fn state(&self) {}
    fn tick(&mut self, core: &mut Core<'_>) {
        core.step(Event::Tick);
    }
    fn handle(&mut self, core: &mut Core<'_>, event: Event) {
        core.step(event);
    }
    fn take_changes(&mut self) -> Vec<()> {
        Vec::new()
    }
    fn take_topics(&mut self) -> BTreeSet<()> {
        BTreeSet::new()
    }
}

fn step(host: &mut Host<Mirror>, now: u64, event: Event) {
    host.with(Millis(now), |_, core| core.step(event).map(|_| ()));
}

/// A host that read a node with this many devices elsewhere.
fn host(devices: usize) -> Host<Mirror> {
    let mut host = Host::new(Mirror, Settings::default());
    let device = Device::new("NVIDIA", Bytes::gib(80), Source::Declared);
    let node = Node { devices: vec![device; devices], ..Node::new("n") };
    step(&mut host, 1, Event::Node { node: Box::new(node) });
    drop((host.batch(), host.committed()));
    host
}

fn submit(host: &mut Host<Mirror>, journal: &mut HistoryJournal, count: usize) {
    for index in 0..count {
        let amount = Amount::bytes(Bytes::gib(30));
        let spec = Spec::from_shapes(vec![Shape::single("main", Need::one("NVIDIA", amount))]);
        let id = RequestId::new("a", index.to_string());
        let request = Request { id, spec: spec.into(), terms: Terms::default() };
        step(host, 10 + index as u64, Event::Submit { request, deadline: None });
    }
    let batch = JournalBatch { records: host.batch().records, changes: Vec::new() };
    host.committed();
    journal.commit(&batch).expect("it is queued");
}

#[test]
fn every_start_begins_with_what_was_read_elsewhere_and_all_of_it_replays() {
    let root = tempfile::tempdir().expect("a directory");
    let mut first_numbers = Vec::new();
    for (devices, requests) in [(1, 3), (4, 5)] {
        let mut journal = HistoryJournal::open(root.path()).expect("a directory");
        let mut host = host(devices);
        journal.begin(&mut host, Millis(5));
        first_numbers.push(host.next_numbers().record);
        submit(&mut host, &mut journal, requests);
    }
    assert_eq!(first_numbers, [0, 3], "no number is given twice");
    let history = History::open(root.path()).expect("it is there");
    let report = replay::replay(&history, |_| ()).expect("it can be decided again");
    assert!(report.holds(), "{report:?}");
    assert_eq!((report.records, report.span), (8, Some((0, 7))));
}

#[test]
fn the_state_of_a_server_is_no_place_for_a_history() {
    let root = tempfile::tempdir().expect("a directory");
    drop(crate::store::tests::filled(root.path(), &[4]));
    let error = HistoryJournal::open(root.path()).expect_err("it is a server's").to_string();
    assert!(error.contains("is the data directory of `plimsoll serve`"), "{error}");
}

#[test]
fn a_record_that_is_missing_ends_the_history_and_nothing_else() {
    let root = tempfile::tempdir().expect("a directory");
    let mut journal = HistoryJournal::open(root.path()).expect("a directory");
    let mut host = host(1);
    journal.begin(&mut host, Millis(5));
    submit(&mut host, &mut journal, 2);
    step(&mut host, 20, Event::Audit);
    drop((host.batch(), host.committed()));
    host.renumber(NextNumbers { record: 7, changes: 0 });
    submit(&mut host, &mut journal, 1);
    let change = JournalledChanges { seq: 9, body: "{}".into() };
    let later = JournalBatch { records: Vec::new(), changes: vec![change] };
    journal.commit(&later).expect("nothing waits for the disk");
    drop(journal);
    let history = History::open(root.path()).expect("it is there");
    assert_eq!(history.span().expect("records"), Some((0, 1)));
}
