//! What is asked: model slots and pods of all kinds, drawn from a seed.

use std::num::NonZeroU16;
use std::sync::Arc;

use plimsoll_core::device::Node;
use plimsoll_core::request::{
    Amount, Asks, Compute, Container, DeviceSelector, Eviction, Misuse, Need, PlainRule, Role,
    Shape, Spec, Terms,
};
use plimsoll_core::units::{Bytes, Cores, MilliCpu, Name, Portion, Timespan};

use super::chance::Chance;

/// The specs of a day: few enough that many ask for the same.
pub(crate) fn specs(chance: &mut Chance, fleet: &[Node]) -> Vec<Arc<Spec>> {
    let count = chance.between(4, 10);
    (0..count).map(|_| Arc::new(spec(chance, fleet))).collect()
}

fn spec(chance: &mut Chance, fleet: &[Node]) -> Spec {
    let mut spec = match chance.below(12) {
        0..4 => Spec::of(slot(chance, fleet)),
        4..6 => Spec::of(vec![pod(chance, fleet)]),
        6..10 => Spec::of(vec![Shape::single("main", need(chance, fleet))]),
        10 => Spec::of(vec![Shape::single("main", need(chance, fleet)), pod(chance, fleet)]),
        _ => odd(chance),
    };
    if chance.percent(20) {
        spec.resources.cpu = MilliCpu(chance.between(1, 8) * 500);
    }
    spec.resources.pods = u32::from(chance.percent(20));
    if chance.percent(10) && !fleet.is_empty() {
        spec.rules.named = Some(chance.pick(fleet).name.clone());
    }
    spec
}

/// A model over one, two or four devices, in an order of preference.
fn slot(chance: &mut Chance, fleet: &[Node]) -> Vec<Shape> {
    let whole = Bytes::new(bytes(chance, fleet).get() * chance.between(1, 2));
    let split = |ways: u16| {
        let each = Bytes::new(whole.get().div_ceil(u64::from(ways)));
        let need = Need {
            count: NonZeroU16::new(ways).expect("one at least"),
            ..Need::one("NVIDIA", Amount::bytes(each))
        };
        Shape::single("engine", need)
    };
    let ways: &[u16] = chance.pick::<&[u16]>(&[&[1], &[1, 2], &[1, 2, 4], &[2, 1], &[2], &[4, 2]]);
    ways.iter().map(|ways| split(*ways)).collect()
}

/// A pod of one to three containers.
fn pod(chance: &mut Chance, fleet: &[Node]) -> Shape {
    let count = chance.between(1, 3);
    let container = |at: u64, chance: &mut Chance| Container {
        name: format!("c{at}").into(),
        role: *chance.pick(&[Role::Init, Role::Sidecar, Role::App, Role::App]),
        needs: if chance.percent(85) { vec![need(chance, fleet)] } else { Vec::new() },
    };
    Shape { containers: (0..count).map(|at| container(at, chance)).collect() }
}

/// What asks for no device, or cannot be understood, or says no amount.
fn odd(chance: &mut Chance) -> Spec {
    match chance.below(3) {
        0 => {
            let container = Container { name: "plain".into(), role: Role::App, needs: Vec::new() };
            Spec::of(vec![Shape { containers: vec![container] }])
        }
        1 => Spec::of(vec![Shape::single(
            "main",
            Need::one("NVIDIA", Amount::Unknown("a size".into())),
        )]),
        _ => {
            let misuse =
                Misuse { fields: vec!["gpu".into()], problem: "it is two things at once".into() };
            Spec { asks: Asks::Malformed(misuse), ..Spec::of(Vec::new()) }
        }
    }
}

fn need(chance: &mut Chance, fleet: &[Node]) -> Need {
    let amount = match chance.below(20) {
        0..11 => Amount::bytes(bytes(chance, fleet)),
        11..14 => {
            let of = *chance.pick(&[2, 3, 4, 10]);
            Amount::Portion(Portion::new(1, of).expect("a part of something"))
        }
        14..16 => Amount::Whole,
        16..18 => Amount::Plain(*chance.pick(&[
            PlainRule::Whole,
            PlainRule::EqualShare,
            PlainRule::Refuse,
        ])),
        _ => Amount::Profile((*chance.pick(&["1g", "2g", "4g"])).into()),
    };
    let kind = if chance.percent(5) { "AMD" } else { "NVIDIA" };
    let selector = DeviceSelector {
        one_numa: chance.percent(10),
        alone: chance.percent(5),
        ..DeviceSelector::default()
    };
    Need {
        count: NonZeroU16::new(*chance.pick(&[1, 1, 1, 1, 2, 2, 4])).expect("one at least"),
        compute: *chance.pick(&[
            Compute::Any,
            Compute::Any,
            Compute::Units(Cores(30)),
            Compute::Percent(50),
        ]),
        selector,
        ..Need::one(kind, amount)
    }
}

/// An amount that is a part of some card: often awkward, sometimes all of it, seldom a byte too much.
fn bytes(chance: &mut Chance, fleet: &[Node]) -> Bytes {
    let cards: Vec<u64> = fleet
        .iter()
        .flat_map(|node| &node.devices)
        .filter_map(|device| device.memory.usable())
        .map(Bytes::get)
        .collect();
    if cards.is_empty() {
        return Bytes::gib(chance.between(1, 40));
    }
    let card = *chance.pick(&cards);
    Bytes::new(match chance.below(12) {
        0 => card,
        1 => card + 1,
        _ => card / 100 * chance.between(2, 85) + chance.below(4096),
    })
}

/// The terms on which something is asked and held.
pub(crate) fn terms(chance: &mut Chance) -> Terms {
    Terms {
        priority: i32::try_from(chance.below(4)).expect("small"),
        pinned: chance.percent(8),
        speculative: chance.percent(12),
        eviction: *chance.pick(&[
            Eviction::Never,
            Eviction::Never,
            Eviction::Idle,
            Eviction::Idle,
            Eviction::LowerPriority,
        ]),
        model: chance.percent(30).then(|| Name::from(format!("m{}", chance.below(3)))),
        idle_limit: chance
            .percent(70)
            .then(|| Timespan::millis(*chance.pick(&[0, 60_000, 600_000]))),
        reload_cost: Timespan::seconds(chance.below(4)),
        ..Terms::default()
    }
}
