//! What makes two accounts the same for a judge, and what does not.

use super::*;
use crate::device::Source;
use crate::units::{Cores, Millis};

fn node() -> Node {
    let mut device = Device::new("NVIDIA", Bytes::gib(80), Source::Declared);
    (device.cores, device.slots) = (Some(Cores(100)), Some(10));
    Node { devices: vec![device], ..Node::new("n") }
}

/// What a judge reads of this account.
fn read(room: &DeviceRoom) -> Gauge {
    Gauge::read(&node(), &["NVIDIA".into()], 0, room)
}

fn occupied() -> DeviceRoom {
    let mut room = DeviceRoom::empty(&node().devices[0], Measured::default());
    room.held = Bytes::gib(10);
    let stage = Stage::Sent;
    let tenant = Tenant {
        holding: HoldingId(1),
        name: "a/b".into(),
        bytes: None,
        stage,
        floating: false,
        slices: 0,
    };
    room.tenants.push(tenant);
    room
}

#[test]
fn accounts_that_differ_in_anything_a_judge_reads_do_not_read_alike() {
    type Change = fn(&mut DeviceRoom);
    let changes: [(&str, Change); 12] = [
        ("usable", |room| room.usable = None),
        ("held", |room| room.held = Bytes::gib(11)),
        ("floating", |room| room.floating = Bytes::gib(1)),
        ("releasing", |room| room.releasing = Bytes::gib(1)),
        ("foreign", |room| room.foreign = Bytes::gib(1)),
        ("promised", |room| room.promised = Bytes::gib(1)),
        ("cores", |room| room.cores = 1),
        ("slots", |room| room.slots = 1),
        ("undeclared", |room| room.undeclared = 1),
        ("slices", |room| room.occupied = 1),
        ("closed", |room| room.closed = true),
        ("staleness", |room| room.telemetry = Telemetry::Stale { since: Millis(1) }),
    ];
    for (what, change) in changes {
        let mut changed = occupied();
        change(&mut changed);
        assert_ne!(read(&occupied()), read(&changed), "{what}");
    }
    let mut deserted = occupied();
    deserted.tenants.clear();
    let alone = "somebody who is there keeps those away who want to be alone";
    assert_ne!(read(&occupied()), read(&deserted), "{alone}");
}

#[test]
fn where_tenants_are_in_their_lives_changes_nothing_for_a_judge() {
    let mut going = occupied();
    (going.held, going.releasing) = (Bytes::ZERO, going.held);
    going.tenants[0].stage = Stage::Releasing { since: Millis(7) };
    going.telemetry = Telemetry::Fresh { at: Millis(7) };
    assert_eq!(read(&occupied()), read(&going));
    assert_ne!(occupied().digest(), going.digest(), "it is seen all the same");
}
