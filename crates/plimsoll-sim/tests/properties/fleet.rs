//! Small fleets and requests of all kinds, drawn at random.

use std::num::NonZeroU16;
use std::sync::Arc;

use plimsoll_core::device::{
    Device, DeviceChoice, Geometry, Health, Identity, Node, Profile, Sharing, Source, Span,
    Strategy as Slicing,
};
use plimsoll_core::request::{
    Amount, Compute, Container, DeviceSelector, Eviction, Need, PlainRule, Request, RequestId,
    Role, Shape, Spec, Terms,
};
use plimsoll_core::units::{Bytes, Cores, MilliCpu, Portion, Timespan};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

/// A size in a range of GiB, not always whole.
pub(crate) fn size(gib: std::ops::Range<u64>) -> impl Strategy<Value = Bytes> {
    (gib, prop_oneof![3 => Just(0_u64), 1 => Just(1), 1 => Just(123_457)])
        .prop_map(|(gib, rest)| Bytes::new((gib << 30) + rest))
}

/// A card of an owned node: all that brute force understands.
pub(crate) fn card() -> impl Strategy<Value = Device> {
    let facts = (
        size(4..13),
        weighted(0.3, 0_u16..2),
        weighted(0.3, 1_u32..4),
        weighted(0.3, Just(10_u32)),
    );
    let state = (
        prop_oneof![8 => Just(Health::Healthy), 1 => Just(Health::Faulty)],
        prop::bool::weighted(0.1),
        size(0..2),
    );
    (facts, state, prop::bool::weighted(0.15)).prop_map(
        |((memory, numa, slots, cores), (health, cordoned, reserve), amd)| {
            let kind = if amd { "AMD" } else { "NVIDIA" };
            let mut device = Device::new(kind, memory, Source::Declared);
            device.memory.reserve = reserve;
            (device.numa, device.slots, device.cores) = (numa, slots, cores.map(Cores));
            (device.health, device.cordoned) = (health, cordoned);
            device
        },
    )
}

/// A node whose cards are named by the scheduler.
pub(crate) fn owned_node(cards: std::ops::Range<usize>) -> impl Strategy<Value = Node> {
    let cards = vec(card(), cards);
    let rest =
        (prop_oneof![6 => Just(0_u16), 1 => Just(1)], weighted(0.2, 1_u64..4), any::<bool>());
    (cards, rest).prop_map(|(devices, (missing, cpu, known))| {
        let mut node = Node::new("n");
        node.devices = devices;
        node.missing_cards = missing;
        node.allocatable.cpu = cpu.map(|cpu| MilliCpu(cpu * 1000));
        if known {
            for (ordinal, device) in node.devices.iter_mut().enumerate() {
                device.identity = Identity::Uuid(format!("GPU-{ordinal}").into());
            }
        }
        node
    })
}

/// A node with a card that is cut into slices, all of it or as much as its operator allows.
pub(crate) fn sliced_node() -> impl Strategy<Value = Node> {
    (weighted(0.5, size(2..5)), prop::bool::weighted(0.3)).prop_map(|(cap, cores)| {
        let profile = |name: &str, gib, size: u8, starts: &[u8]| Profile {
            name: name.into(),
            memory: Bytes::gib(gib),
            cores: Cores(u32::from(size)),
            placements: starts.iter().map(|start| Span { start: *start, size }).collect(),
        };
        let profiles = vec![
            profile("1g", 1, 1, &[0, 1, 2, 3]),
            profile("2g", 2, 2, &[0, 2]),
            profile("4g", 4, 4, &[0]),
        ];
        let mut card = Device::new("NVIDIA", Bytes::gib(4), Source::Nvml);
        card.geometry = Some(Arc::new(Geometry { profiles }));
        card.memory.cap = cap;
        card.cores = cores.then_some(Cores(4));
        let mut node = Node::new("n");
        node.devices = vec![card.clone(), card];
        node
    })
}

/// Returns the number of cases to try: `cases`, times `PLIMSOLL_TRIES` for longer runs.
pub(crate) fn tries(cases: u32) -> ProptestConfig {
    let times = std::env::var("PLIMSOLL_TRIES").ok().and_then(|times| times.parse::<u32>().ok());
    ProptestConfig { cases: cases * times.unwrap_or(1), ..ProptestConfig::default() }
}

/// A node whose cards the device plugin picks.
pub(crate) fn plugin_node(cards: std::ops::Range<usize>) -> impl Strategy<Value = Node> {
    (vec(size(4..13), cards), 1_u32..5).prop_map(|(sizes, replicas)| {
        let mut node = Node::new("n");
        node.choice = DeviceChoice::Plugin;
        let card = |memory| {
            let sharing = Sharing::Tokens { replicas, strategy: Slicing::TimeSlicing };
            Device { sharing, ..Device::new("NVIDIA", memory, Source::Label) }
        };
        node.devices = sizes.into_iter().map(card).collect();
        node
    })
}

/// Nodes with names of their own, and UUIDs that no two share.
pub(crate) fn named(nodes: Vec<Node>) -> Vec<Node> {
    let name = |(at, mut node): (usize, Node)| {
        node.name = format!("n{at}").into();
        for device in &mut node.devices {
            if let Identity::Uuid(uuid) = &mut device.identity {
                *uuid = format!("{uuid}-{at}").into();
            }
        }
        node
    };
    nodes.into_iter().enumerate().map(name).collect()
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        6 => size(0..9).prop_filter_map("more than nothing", |bytes| (!bytes.is_zero()).then(|| Amount::bytes(bytes))),
        2 => (1_u64..5).prop_filter_map("a share", |of| Portion::new(1, of).map(Amount::Portion)),
        2 => Just(Amount::Whole),
        1 => prop_oneof![Just("1g"), Just("2g"), Just("4g")].prop_map(|name| Amount::Profile(name.into())),
        1 => prop_oneof![Just(PlainRule::Whole), Just(PlainRule::EqualShare), Just(PlainRule::Refuse)].prop_map(Amount::Plain),
    ]
}

fn need() -> impl Strategy<Value = Need> {
    let compute = prop_oneof![
        4 => Just(Compute::Any),
        1 => (1_u32..8).prop_map(|units| Compute::Units(Cores(units))),
        1 => Just(Compute::Percent(50)),
        1 => Just(Compute::All),
    ];
    let kind = prop_oneof![7 => Just("NVIDIA"), 1 => Just("AMD")];
    let selector = (prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (amount(), compute, 1_u16..4, kind, selector, prop_oneof![5 => Just(1_u32), 1 => Just(2)])
        .prop_map(|(amount, compute, count, kind, (one_numa, alone), slots)| Need {
            count: NonZeroU16::new(count.saturating_sub(1).max(1)).expect("at least one"),
            compute,
            slots,
            selector: DeviceSelector { one_numa, alone, ..DeviceSelector::default() },
            ..Need::one(kind, amount)
        })
}

/// One way to satisfy a request.
pub(crate) fn shape(containers: std::ops::Range<usize>) -> impl Strategy<Value = Shape> {
    let role = prop_oneof![1 => Just(Role::Init), 1 => Just(Role::Sidecar), 3 => Just(Role::App)];
    let container = (role, vec(need(), 0..3));
    vec(container, containers).prop_map(|containers| {
        let container = |(at, (role, needs)): (usize, (Role, Vec<Need>))| Container {
            name: format!("c{at}").into(),
            role,
            needs,
        };
        Shape { containers: containers.into_iter().enumerate().map(container).collect() }
    })
}

/// All that a decision looks at.
pub(crate) fn spec(containers: std::ops::Range<usize>) -> impl Strategy<Value = Arc<Spec>> {
    (vec(shape(containers), 1..3), prop_oneof![4 => Just(0_u64), 1 => 1_u64..3]).prop_map(
        |(shapes, cpu)| {
            let mut spec = Spec::from_shapes(shapes);
            spec.resources.cpu = MilliCpu(cpu * 1000);
            Arc::new(spec)
        },
    )
}

/// The terms on which something is held.
pub(crate) fn terms() -> impl Strategy<Value = Terms> {
    let evicts = prop_oneof![2 => Just(Eviction::Never), 1 => Just(Eviction::Idle), 1 => Just(Eviction::LowerPriority)];
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.2));
    (0_i32..3, flags, evicts, weighted(0.6, 0_u64..20_000), 0_u64..4, weighted(0.2, Just("m")))
        .prop_map(|(priority, (pinned, speculative), eviction, idle_limit, reload_cost, model)| {
            Terms {
                priority,
                pinned,
                speculative,
                eviction,
                idle_limit: idle_limit.map(Timespan::millis),
                reload_cost: Timespan::millis(reload_cost),
                model: model.map(Into::into),
                ..Terms::default()
            }
        })
}

/// A request of this number.
pub(crate) fn request(number: usize, spec: Arc<Spec>, terms: Terms) -> Request {
    Request { id: RequestId::new(format!("a{}", number % 2), format!("p{number}")), spec, terms }
}
