//! Tests that a `FitInput` has every field of the usage that `fit` depends on, and no other.

use super::*;
use crate::charge::Stage;
use crate::device::{Device, Source, Telemetry};
use crate::units::{Cores, Millis};

fn node() -> Node {
    let mut device = Device::new("NVIDIA", Bytes::gib(80), Source::Declared);
    device.cores = Some(Cores(100));
    device.slots = Some(10);
    Node { devices: vec![device], ..Node::new("n") }
}

fn read(room: &DeviceRoom) -> FitInput {
    FitInput::read(&node(), &["NVIDIA".into()], 0, room)
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
        tokened: true,
        slots: 1,
        slices: 0,
    };
    room.tenants.push(tenant);
    room
}

#[test]
fn a_change_that_fit_depends_on_changes_the_fit_input() {
    type Change = fn(&mut DeviceRoom);
    let changes: [(&str, Change); 13] = [
        ("usable", |room| room.usable = None),
        ("held", |room| room.held = Bytes::gib(11)),
        ("floating", |room| room.floating.bytes = Bytes::gib(1)),
        ("displaced", |room| room.floating.displaced = Bytes::gib(1)),
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
    let why = "a tenant without memory still excludes requests for a device of their own";
    assert_ne!(read(&occupied()), read(&deserted), "{why}");
}

#[test]
fn the_stage_of_a_tenant_does_not_change_the_fit_input() {
    let mut going = occupied();
    going.releasing = std::mem::take(&mut going.held);
    going.tenants[0].stage = Stage::Releasing { since: Millis(7) };
    going.telemetry = Telemetry::Fresh { at: Millis(7) };
    assert_eq!(read(&occupied()), read(&going));
    assert_ne!(occupied().digest(), going.digest(), "an explanation shows the stage");
}
