//! Holders that vanished while no process watched.

use super::*;
use crate::live::{HoldersRecord, RecordKeeping};

fn records(rig: &mut Rig) -> Vec<HoldersRecord> {
    let records = rig.with(|watch, _| watch.take_records());
    let records = records.iter().map(|(_, text)| serde_json::from_str(text));
    records.collect::<Result<_, _>>().expect("a record is valid JSON")
}

#[test]
fn a_holder_that_vanished_while_no_process_watched_counts_as_releasing() {
    let keeping = || Watch::new(Reading::default()).keeping_records(RecordKeeping::Always);
    let start = |objects: &[Value]| {
        let mut rig =
            Rig { host: Host::new(keeping(), Settings::default()), now: 1_000_000, version: 1 };
        objects.iter().for_each(|object| rig.see(object));
        rig
    };
    let (gone, stays) = (at(10, pod("gone", "n1", "1")), at(11, pod("stays", "n1", "2")));
    let mut rig = start(&[card(), gone, stays.clone()]);
    rig.pass(1);
    let written = records(&mut rig);
    assert_eq!(written.len(), 1);
    rig.pass(1);
    assert_eq!(records(&mut rig), [], "what has not changed is not written again");
    let remember = |rig: &mut Rig| {
        let written = written.clone();
        rig.with(|watch, core| watch.remember(core, written));
    };
    let expected = [("a/gone".into(), "releasing"), ("a/stays".into(), "running")];
    for record_first in [true, false] {
        let mut again = start(&[card()]);
        if record_first {
            remember(&mut again);
        }
        again.see(&stays);
        remember(&mut again);
        assert_eq!(again.holders(), expected);
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
    }
}
