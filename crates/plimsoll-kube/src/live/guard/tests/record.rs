//! Holders that vanished while no process watched.

use super::*;
use crate::live::{HoldersRecord, Recalled, RecordChange, RecordError, RecordKeeping};

fn keeping(keeping: RecordKeeping) -> Rig {
    let watch = Watch::new(Reading::default()).keeping_records(keeping);
    Rig { host: Host::new(watch, Settings::default()), now: 1_000_000, version: 1 }
}

fn start(objects: &[Value]) -> Rig {
    let mut rig = keeping(RecordKeeping::Always);
    objects.iter().for_each(|object| rig.see(object));
    rig
}

fn taken(rig: &mut Rig) -> Vec<RecordChange> {
    rig.with(|watch, core| watch.take_records(core)).changes
}

fn records(rig: &mut Rig) -> Vec<HoldersRecord> {
    let lines = taken(rig).into_iter().filter_map(|change| change.line);
    lines.map(|line| HoldersRecord::decode(&line).expect("it was just written")).collect()
}

fn recall(rig: &mut Rig, records: Vec<HoldersRecord>) {
    let recalled = Recalled { since: Some(Millis(7)), records, damaged: Vec::new() };
    let observations = vec![Observation::Recalled(recalled)];
    rig.with(|watch, core| watch.observe(core, observations));
}

fn names(records: &[HoldersRecord]) -> Vec<&str> {
    records.iter().flat_map(|one| &one.holders).map(|holder| &*holder.name).collect()
}

#[test]
fn a_holder_that_vanished_while_no_process_watched_counts_as_releasing() {
    let (gone, stays) = (at(10, pod("gone", "n1", "1")), at(11, pod("stays", "n1", "2")));
    let mut rig = start(&[card(), gone, stays.clone()]);
    let written = records(&mut rig);
    assert_eq!(names(&written), ["gone", "stays"]);
    assert_eq!(records(&mut rig), [], "what has not changed is not written again");
    let expected = [("a/gone".into(), "releasing"), ("a/stays".into(), "running")];
    for record_first in [true, false] {
        let mut again = start(&[card()]);
        if record_first {
            recall(&mut again, written.clone());
        }
        again.see(&stays);
        recall(&mut again, written.clone());
        assert_eq!(again.holders(), expected);
        assert_eq!(records(&mut again), [], "what is stored already is not written again");
        let bytes: Vec<_> = again
            .host
            .scheduler()
            .ledger()
            .holdings()
            .map(|(_, holding)| holding.bytes().map(|bytes| bytes.get() >> 20))
            .collect();
        assert_eq!(bytes, [Some(8000), Some(8000)]);
        // Its release waits for the same evidence, and a node that has booted since has none of it.
        again.see(&node("n1", "b2"));
        again.pass(1);
        assert_eq!(again.holders(), [("a/stays".into(), "running")]);
        assert_eq!(names(&records(&mut again)), ["stays"]);
    }
}

#[test]
fn a_holder_that_ended_while_this_process_watched_is_not_recalled() {
    let running = at(10, pod("web", "n1", "u-web"));
    let written = records(&mut start(&[card(), running.clone()]));
    let ended = with(at(12, pod("web", "n1", "u-web")), "/status/phase", json!("Succeeded"));
    let mut finished = start(&[card(), running.clone(), ended.clone()]);
    finished.delete(&ended);
    let mut unbound = start(&[card(), pending("web", 9)]);
    unbound.delete(&pending("web", 11));
    let mut vanished = start(&[card(), running.clone()]);
    vanished.delete(&running);
    assert_eq!(vanished.holders(), [("a/web".into(), "releasing")]);
    vanished.see(&node("n1", "b2"));
    vanished.pass(1);
    for mut rig in [finished, unbound, vanished] {
        recall(&mut rig, written.clone());
        assert_eq!(rig.holders(), []);
    }
    // A list that lacks the pod proves less: it can have run before it vanished.
    let mut lost = start(&[card(), pending("web", 9)]);
    let (kind, objects, version) = (Kind::Pod, Vec::new(), Some(11));
    let listed = vec![Observation::Listed { kind, objects, version }];
    lost.with(|watch, core| watch.observe(core, listed));
    recall(&mut lost, written);
    assert_eq!(lost.holders(), [("a/web".into(), "releasing")]);
}

#[test]
fn a_record_says_since_when_holders_are_known() {
    let mut rig = start(&[card()]);
    assert_eq!(rig.host.front().holders_known_since(), Some(Millis(1_000_000)));
    recall(&mut rig, Vec::new());
    assert_eq!(rig.host.front().holders_known_since(), Some(Millis(7)));
}

#[test]
fn a_record_that_was_changed_is_reported_and_not_believed() {
    let mut rig = start(&[card(), at(10, pod("web", "n1", "1"))]);
    let line = taken(&mut rig).remove(0).line.expect("a holder is written");
    let longer = line.replace("8388608000", "8388608001");
    assert!(matches!(HoldersRecord::decode(&longer), Err(RecordError::Checksum)));
    assert!(HoldersRecord::decode(&line[..line.len() - 1]).is_err(), "it was cut");
    let damaged = vec![crate::live::DamagedRecord { place: "here".into(), why: "cut".into() }];
    let recalled = Recalled { since: Some(Millis(7)), records: Vec::new(), damaged };
    rig.with(|watch, core| watch.observe(core, vec![Observation::Recalled(recalled)]));
    let front = rig.host.front();
    let found = front.findings().iter().map(crate::finding::Finding::message).collect::<String>();
    assert!(found.contains("the record of holders in here is not used: cut"), "{found}");
    assert_eq!(front.holders_known_since(), Some(Millis(1_000_000)), "there is a gap");
    assert_eq!(names(&records(&mut rig)), ["web"], "the current holders are written again");
}

#[test]
fn the_record_of_a_node_ends_with_its_last_holder() {
    let mut rig = start(&[card(), at(10, pod("web", "n1", "1"))]);
    let key = taken(&mut rig).remove(0).key;
    rig.see(&with(at(11, pod("web", "n1", "1")), "/status/phase", json!("Succeeded")));
    assert_eq!(taken(&mut rig), [RecordChange { key: key.clone(), line: None }]);
    assert_eq!(taken(&mut rig), []);
    // A removal that failed is repeated.
    rig.with(|watch, _| watch.record_not_stored(key.clone()));
    assert_eq!(taken(&mut rig), [RecordChange { key, line: None }]);
}

#[test]
fn many_holders_of_one_node_are_in_parts_that_fit_an_object() {
    let long = "x".repeat(200);
    let pods = (0..1500).map(|index| at(10, pod(&format!("{long}-{index}"), "n1", "1")));
    let objects: Vec<Value> = std::iter::once(card()).chain(pods).collect();
    let mut rig = start(&objects);
    let changes = taken(&mut rig);
    let sizes: Vec<usize> =
        changes.iter().filter_map(|change| change.line.as_ref().map(String::len)).collect();
    assert!(sizes.len() > 1 && sizes.iter().all(|size| *size < 512 << 10), "{sizes:?}");
    let lines = changes.iter().filter_map(|change| change.line.as_deref());
    let records: Vec<HoldersRecord> =
        lines.map(|line| HoldersRecord::decode(line).expect("it was just written")).collect();
    assert_eq!(names(&records).len(), 1500);
}

#[test]
fn a_mirror_pod_that_was_made_again_is_not_counted_twice() {
    let mirror = |uid: &str, version: u64| {
        let mut pod = at(version, pod("static", "n1", uid));
        pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = json!("hash");
        pod
    };
    let mut rig = start(&[card(), mirror("1", 10)]);
    let written = records(&mut rig);
    for record_first in [true, false] {
        let mut again = start(&[card()]);
        if record_first {
            recall(&mut again, written.clone());
        }
        again.see(&mirror("2", 20));
        recall(&mut again, written.clone());
        assert_eq!(again.holders(), [("a/static".into(), "running")]);
    }
}

#[test]
fn only_the_leader_keeps_the_record() {
    let mut rig = keeping(RecordKeeping::WhileLeading);
    for object in [namespace("enforce"), card(), at(10, pod("web", "n1", "1"))] {
        rig.see(&object);
    }
    assert_eq!(taken(&mut rig), []);
    rig.lead(3);
    rig.pass(1);
    let changes = rig.with(|watch, core| watch.take_records(core));
    assert_eq!((changes.term, changes.changes.len()), (Some(3), 1));
    rig.see(&at(11, pod("more", "n1", "2")));
    rig.with(|watch, _| watch.end_term());
    assert_eq!(taken(&mut rig), []);
}
