//! HAMi's own test tables against the core: inputs and expected answers. Rows that differ explain
//! why.

use std::num::NonZeroU16;
use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::decide::{Decision, decide};
use plimsoll_core::device::{
    Device, Geometry, Health, Identity, Node, Profile, Sharing, Source, Span,
};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::policy::Policy;
use plimsoll_core::request::{
    Amount, Compute, DeviceSelector, Need, NodeNeed, Request, RequestId, Shape, Spec, Terms,
};
use plimsoll_core::units::{Bytes, Cores, Millis, Portion};
use plimsoll_core::wording::container_reason;

/// Creates a card as HAMi registers it.
fn card(uuid: &str, mib: u64) -> Device {
    let mut device = Device::new("NVIDIA", Bytes::mib(mib), Source::Register);
    device.identity = Identity::Uuid(uuid.into());
    device.model = Some("NVIDIA A100-SXM4-40GB".into());
    device.sharing = Sharing::Shares;
    device.cores = Some(Cores(100));
    device.slots = Some(100);
    device
}

/// The use of a card by another tenant: memory in MiB, cores, slots.
type Used = (u64, u32, u32);

fn ledger(cards: Vec<Device>, used: &[(u16, Used)]) -> Ledger {
    let mut ledger = Ledger::default();
    let mut node = Node::new("node");
    node.devices = cards;
    let _ = ledger.put_node(node);
    for (at, (ordinal, (mib, cores, slots))) in used.iter().enumerate() {
        let charge = Charge {
            on: vec![*ordinal],
            amount: Booked::share(Bytes::mib(*mib)),
            cores: Cores(*cores),
            slots: *slots,
            slice: None,
            parts: Vec::new(),
        };
        let holding = Holding {
            request: RequestId::new("other", format!("tenant-{at}")),
            node: "node".into(),
            stage: Stage::Running { since: Millis(0) },
            charges: vec![charge],
            resources: NodeNeed::default(),
            terms: Terms::default(),
            activity: Activity::Unknown,
            spec: None,
        };
        let _ = ledger.observe(holding).expect("the node exists");
    }
    ledger
}

fn need(count: u16, mib: u64, cores: u32) -> Need {
    let mut need = Need::one("NVIDIA", Amount::bytes(Bytes::mib(mib)));
    need.count = NonZeroU16::new(count).expect("at least one");
    need.compute = if cores == 0 { Compute::Any } else { Compute::Units(Cores(cores)) };
    need
}

fn ask(ledger: &Ledger, policy: &Policy, need: Need) -> Decision {
    let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
    decide(
        ledger,
        policy,
        &Request { id: RequestId::new("ns", "pod"), spec, terms: Terms::default() },
    )
}

/// Returns the reason as HAMi prints it, or "fits".
fn answer(decision: &Decision) -> String {
    let table = decision.table().expect("a shape was tried");
    let verdict = table.by_name()[0];
    container_reason(verdict, 0).unwrap_or_else(|| "fits".to_string())
}

/// Table A5: one device of 100 slots and 100 cores; the request is 512 MiB and 50 cores unless
/// noted.
#[test]
fn a_device_rejects_for_the_reason_that_hami_gives() {
    let big = 1280;
    let rows: Vec<(&str, Device, Option<Used>, Need, &str)> = vec![
        ("too little memory", card("A", 128), None, need(1, 512, 50), "1/1 CardInsufficientMemory"),
        (
            "cores all used",
            card("A", big),
            Some((1, 100, 1)),
            need(1, 512, 50),
            "1/1 CardInsufficientCore",
        ),
        (
            "slots all used",
            card("A", big),
            Some((1, 0, 100)),
            need(1, 512, 50),
            "1/1 CardTimeSlicingExhausted",
        ),
        ("120 cores are clamped to 100", card("A", big), None, need(1, 512, 120), "fits"),
        (
            "100 cores want an exclusive card",
            card("A", big),
            Some((1, 0, 20)),
            need(1, 512, 100),
            "1/1 ExclusiveDeviceAllocateConflict",
        ),
        (
            "no cores are left over",
            card("A", big),
            Some((1, 100, 1)),
            need(1, 512, 0),
            "1/1 CardComputeUnitsExhausted",
        ),
        (
            "unhealthy",
            Device { health: Health::Faulty, ..card("A", big) },
            None,
            need(1, 512, 50),
            "1/1 CardNotHealth",
        ),
        (
            "cordoned",
            Device { cordoned: true, ..card("A", big) },
            None,
            need(1, 512, 50),
            "1/1 CardCordoned",
        ),
    ];
    for (name, device, used, need, expected) in rows {
        let used: Vec<(u16, Used)> = used.into_iter().map(|used| (0, used)).collect();
        assert_eq!(
            answer(&ask(&ledger(vec![device], &used), &Policy::spread(), need)),
            expected,
            "{name}"
        );
    }
}

/// Table A5, rows on counts. More devices than the node has is NodeInsufficientDevice here, as in
/// HAMi's node check, which runs before its device check; HAMi's table calls the device check
/// directly (`1/1 AllocatedCardsInsufficientRequest`).
#[test]
fn too_few_devices_and_devices_short_of_memory_have_different_reasons() {
    let two = || vec![card("A", 1280), card("B", 1280)];
    assert_eq!(
        answer(&ask(&ledger(vec![card("A", 1280)], &[]), &Policy::spread(), need(2, 512, 0))),
        "NodeInsufficientDevice"
    );
    assert_eq!(
        answer(&ask(&ledger(two(), &[]), &Policy::spread(), need(3, 512, 0))),
        "NodeInsufficientDevice"
    );
    let one_full = ledger(two(), &[(0, (1000, 0, 1))]);
    let reason = "1/2 CardInsufficientMemory, 1/2 AllocatedCardsInsufficientRequest";
    assert_eq!(answer(&ask(&one_full, &Policy::spread(), need(2, 512, 0))), reason);
}

/// Table A5: 10 percent of 1280 MiB is 128 MiB.
#[test]
fn a_percentage_is_relative_to_the_card() {
    let mut need = need(1, 1, 50);
    need.amount = Amount::Portion(Portion::new(10, 100).expect("ten percent"));
    let decision = ask(&ledger(vec![card("A", 1280)], &[]), &Policy::spread(), need);
    let verdict = decision.table().expect("judged").by_name()[0];
    assert_eq!(verdict.needs[0].devices[0].need, Some(Bytes::mib(128)));
    assert!(decision.chosen().is_some());
}

/// Tables A5 and A6: allowed and excluded UUIDs; table A7: types.
#[test]
fn selectors_by_uuid_and_by_type_are_honoured() {
    let with = |change: fn(&mut DeviceSelector)| {
        let mut need = need(1, 512, 50);
        change(&mut need.selector);
        answer(&ask(&ledger(vec![card("GPU-1abc", 1280)], &[]), &Policy::spread(), need))
    };
    assert_eq!(with(|w| w.uuids = vec!["abc".into(), "123".into()]), "1/1 CardUuidMismatch");
    assert_eq!(with(|w| w.uuids = vec!["GPU-1abc".into()]), "fits");
    assert_eq!(with(|w| w.not_uuids = vec!["GPU-1abc".into()]), "1/1 CardUuidMismatch");
    assert_eq!(
        with(|w| {
            w.uuids = vec!["GPU-1abc".into()];
            w.not_uuids = vec!["GPU-1abc".into()];
        }),
        "1/1 CardUuidMismatch"
    );
    assert_eq!(with(|w| w.models = vec!["a100".into()]), "fits");
    assert_eq!(with(|w| w.models = vec!["V100".into()]), "1/1 CardTypeMismatch");
    assert_eq!(with(|w| w.not_models = vec!["a100".into()]), "1/1 CardTypeMismatch");
    assert_eq!(
        with(|w| {
            w.models = vec!["A100".into()];
            w.not_models = vec!["SXM4".into()];
        }),
        "1/1 CardTypeMismatch"
    );
}

/// Table A16: an A100 of 40 GB that is partitioned into slices.
#[test]
fn a_partitioned_card_gives_the_smallest_slice_that_fits() {
    let span = |start, size| Span { start, size };
    let profile = |name: &str, mib, cores, placements| Profile {
        name: name.into(),
        memory: Bytes::mib(mib),
        cores: Cores(cores),
        placements,
    };
    let geometry = Geometry {
        profiles: vec![
            profile("1g.5gb", 5120, 14, (0..7).map(|start| span(start, 1)).collect()),
            profile("2g.10gb", 10_240, 28, vec![span(0, 2), span(2, 2), span(4, 2)]),
            profile("3g.20gb", 20_480, 42, vec![span(0, 4), span(4, 4)]),
        ],
    };
    let mut device = card("A", 40_960);
    device.geometry = Some(Arc::new(geometry));
    device.mode = Some("mig".into());
    let mut ledger = ledger(vec![device], &[]);
    let mut place = |name: &str, mib: u64| {
        let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need(1, mib, 0))]));
        let request = Request { id: RequestId::new("ns", name), spec, terms: Terms::default() };
        let decision = decide(&ledger, &Policy::pack(), &request);
        let Some(found) = decision.chosen() else { return answer(&decision) };
        let _ = ledger
            .send(&request, &found.placement)
            .expect("the commit admits what decide proposes");
        let charge = &ledger.of_request(&request.id).expect("charged").1.charges[0];
        let slice = charge.slice.as_ref().expect("a slice");
        format!(
            "{} at {}, {} with {} cores",
            slice.profile,
            slice.span.start,
            charge.bytes().expect("known"),
            charge.cores.0
        )
    };
    assert_eq!(place("a", 10_000), "2g.10gb at 0, 10 GiB with 28 cores");
    assert_eq!(place("b", 10_000), "2g.10gb at 2, 10 GiB with 28 cores");
    assert_eq!(place("c", 10_000), "2g.10gb at 4, 10 GiB with 28 cores");
    assert_eq!(place("d", 10_000), "1/1 CardMigTopologyInfeasible");
    assert_eq!(place("e", 5000), "1g.5gb at 6, 5 GiB with 14 cores");
    assert_eq!(place("f", 5000), "1/1 CardMigTopologyInfeasible");
}

/// HAMi's table of Kunlun's `FitVXPU`. It answers no more than yes or no; the reasons are ours.
#[test]
fn a_vxpu_gives_all_its_tenants_shares_of_one_size() {
    let answer = |healthy: bool, used: &[u64], wanted| {
        let mut device = card("xpu-0", 98_304);
        device.sharing = Sharing::EqualShares;
        device.health = if healthy { Health::Healthy } else { Health::Faulty };
        let used: Vec<_> = used.iter().map(|mib| (0, (*mib, 0, 1))).collect();
        answer(&ask(&ledger(vec![device], &used), &Policy::spread(), need(1, wanted, 0)))
    };
    assert_eq!(answer(true, &[90_000], 20_000), "1/1 CardInsufficientMemory");
    assert_eq!(answer(true, &[], 24_576), "fits");
    assert_eq!(answer(true, &[24_576, 24_576], 24_576), "fits");
    assert_eq!(answer(true, &[49_152], 24_576), "1/1 ModeNotFit");
    assert_eq!(answer(false, &[], 24_576), "1/1 CardNotHealth");
    // Not in the table: tenants of several sizes, whose average is the size of none.
    assert_eq!(answer(true, &[16_384, 32_768], 24_575), "1/1 ModeNotFit");
}

/// HAMi's table of Vastai's dies with the mutex policy.
#[test]
fn an_exclusive_request_gets_no_die_of_a_card_in_use() {
    let die = |uuid: &str, board: &str| Device { board: Some(board.into()), ..card(uuid, 32_768) };
    let mut exclusive = need(1, 512, 0);
    exclusive.selector.alone = true;
    let used = [(0, (512, 0, 1))];
    let three = ledger(vec![die("0", "1"), die("1", "1"), die("2", "2")], &used);
    let decision = ask(&three, &Policy::spread(), exclusive.clone());
    assert_eq!(decision.chosen().expect("the second card is free").placement.picks, [[2]]);
    let two = ledger(vec![die("0", "1"), die("1", "1")], &used);
    let answered = answer(&ask(&two, &Policy::spread(), exclusive));
    assert_eq!(answered, "2/2 ExclusiveDeviceAllocateConflict");
    assert_eq!(answer(&ask(&two, &Policy::spread(), need(1, 512, 0))), "fits");
}

/// Table A17, first row: A and B are on NUMA node 0, C on 1; two devices of one NUMA node are A and
/// B.
#[test]
fn devices_of_one_numa_node_are_found() {
    let on = |uuid: &str, numa| Device { numa: Some(numa), ..card(uuid, 10_000) };
    let cards = vec![on("A", 0), on("B", 0), on("C", 1)];
    let used = [(0, (5000, 0, 1)), (1, (1000, 0, 1)), (2, (3000, 0, 1))];
    let mut two = need(2, 512, 0);
    two.selector.one_numa = true;
    let decision = ask(&ledger(cards.clone(), &used), &Policy::spread(), two.clone());
    assert_eq!(decision.chosen().expect("A and B fit").placement.picks, [[0, 1]]);
    let b_is_full = [(0, (5000, 0, 1)), (1, (9900, 0, 1)), (2, (3000, 0, 1))];
    let decision = ask(&ledger(cards, &b_is_full), &Policy::spread(), two);
    assert_eq!(answer(&decision), "2/3 NumaNotFit, 1/3 CardInsufficientMemory");
}

/// Table A17, second row: spreading takes the emptiest device, whatever its NUMA node.
#[test]
fn spreading_takes_the_emptiest_device() {
    let on = |uuid: &str, numa| Device { numa: Some(numa), ..card(uuid, 10_000) };
    let cards = vec![on("P", 0), on("Q", 1), on("R", 1)];
    let used = [(0, (1000, 0, 1)), (1, (8000, 0, 1)), (2, (5000, 0, 1))];
    let decision = ask(&ledger(cards, &used), &Policy::spread(), need(1, 512, 0));
    assert_eq!(decision.chosen().expect("P fits").placement.picks, [[0]]);
}
