//! HAMi's registers of every vendor, and the devices that follow from capacity.

use plimsoll_core::device::{Capacity, Health, Sharing, Source, Span};

use super::*;

const NVIDIA_REGISTER: &str = "hami.io/node-nvidia-register";

fn total(facts: &NodeFacts, at: usize) -> (u64, Source) {
    match facts.node.devices[at].memory.total {
        Capacity::Known { bytes, source } => (bytes.get() >> 20, source),
        Capacity::Unknown { ref missing } => panic!("unknown: {missing}"),
    }
}

#[test]
fn a_register_gives_devices_by_uuid_whose_choice_is_owned() {
    let text = r#"[{"id":"GPU-1","index":1,"count":10,"devmem":81920,"devcore":100,"type":"NVIDIA A100","numa":1,"mode":"hami-core"},
        {"id":"GPU-0","count":10,"devmem":81920,"devcore":100,"type":"NVIDIA A100","mode":"hami-core","health":true}]"#;
    let given = Given::default().annotation(NVIDIA_REGISTER, text).gpus("20");
    let (facts, findings) = given.facts();
    let ids: Vec<String> = rows(&facts).into_iter().map(|row| row.0).collect();
    assert_eq!(ids, ["GPU-0", "GPU-1"], "the index orders them");
    let (first, second) = (&facts.node.devices[0], &facts.node.devices[1]);
    assert_eq!(
        (&*first.kind, first.model.as_deref(), first.slots),
        ("NVIDIA", Some("NVIDIA A100"), Some(10))
    );
    assert_eq!(
        (first.numa, second.numa, first.mode.as_deref()),
        (Some(0), Some(1), Some("hami-core"))
    );
    assert_eq!((&first.health, &second.health), (&Health::Healthy, &Health::Faulty));
    assert_eq!(
        (facts.choice, facts.capacity_source, codes(&findings)),
        (DeviceChoice::Owned, "register", vec![])
    );
    assert_eq!((facts.advertised, facts.replicas, facts.physical), (Some(20), Some(10), 2));
}

#[test]
fn a_register_scaled_up_counts_as_the_label_says() {
    let text = r#"[{"id":"GPU-0","count":10,"devmem":81920,"type":"NVIDIA-A100-SXM4-40GB","health":true}]"#;
    let given = Given::default().annotation(NVIDIA_REGISTER, text).discovered("1", "10", "40960");
    let (facts, findings) = given.label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB").facts();
    assert_eq!(total(&facts, 0), (40960, Source::Label));
    assert_eq!(
        (codes(&findings), findings[0].device.as_deref()),
        (vec!["register-scaled"], Some("GPU-0"))
    );
    assert_eq!(findings[0].numbers()["registered"], 81920 << 20);
    assert_eq!(findings[0].numbers()["label"], 40960 << 20);
    assert!(
        findings[0].message().contains("80 GiB") && findings[0].message().contains("40 GiB"),
        "{}",
        findings[0].message()
    );
    assert_eq!(placed(&facts, 1, "NVIDIA", &mib(40961)).0, 0);
}

#[test]
fn the_label_of_one_model_says_nothing_about_another() {
    let text = r#"[{"id":"GPU-0","count":1,"devmem":81920,"type":"NVIDIA A100-SXM4-80GB","health":true},
        {"id":"GPU-1","index":1,"count":1,"devmem":15360,"type":"NVIDIA-Tesla T4","health":true}]"#;
    for (product, memory, sizes, scaled) in [
        ("Tesla-T4", "15360", [81920, 15360], 0),
        ("NVIDIA-A100-SXM4-80GB", "40960", [40960, 15360], 1),
        ("H100", "10240", [10240, 10240], 2),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "9728", [81920, 15360], 0),
    ] {
        let given = Given::default().annotation(NVIDIA_REGISTER, text).discovered("1", "1", memory);
        let (facts, findings) = given.label("nvidia.com/gpu.product", product).facts();
        assert_eq!([total(&facts, 0).0, total(&facts, 1).0], sizes, "{product}");
        assert_eq!(findings.len(), scaled, "{product}");
    }
}

#[test]
fn an_unreadable_register_is_unknown_and_no_label_takes_its_place() {
    let given = Given::default()
        .annotation(NVIDIA_REGISTER, "junk")
        .discovered("1", "1", "40960")
        .gpus("1");
    let (facts, findings) = given.facts();
    let unknown = facts.node.unknown.as_deref().unwrap_or_default();
    assert!(facts.node.devices.is_empty() && unknown.contains(NVIDIA_REGISTER), "{unknown}");
    assert_eq!(codes(&findings), ["register-unreadable"]);
}

#[test]
fn an_empty_register_beside_advertised_devices_is_unknown() {
    let dcu = "hami.io/node-dcu-register";
    for (key, text, resource, number, expected) in [
        (NVIDIA_REGISTER, "[]", "nvidia.com/gpu", "10", vec!["register-empty"]),
        (NVIDIA_REGISTER, ":", "nvidia.com/gpu", "10", vec!["register-empty"]),
        (NVIDIA_REGISTER, "null", "nvidia.com/gpu.shared", "10", vec!["register-empty"]),
        (NVIDIA_REGISTER, "[]", "nvidia.com/mig-1g.5gb", "7", vec!["register-empty"]),
        (dcu, ":", "hygon.com/dcunum", "4", vec!["register-empty"]),
        (NVIDIA_REGISTER, "[]", "nvidia.com/gpu", "0", vec![]),
        (NVIDIA_REGISTER, "[]", "cpu", "8", vec![]),
    ] {
        let (facts, findings) =
            Given::default().annotation(key, text).capacity(resource, number).facts();
        assert_eq!(codes(&findings), expected, "{key} {text} {resource}");
        let unknown = facts.node.unknown.as_deref();
        assert_eq!(
            unknown.is_some_and(|why| why.contains(key)),
            !expected.is_empty(),
            "{unknown:?}"
        );
        assert_eq!((facts.node.devices.len(), facts.capacity_source), (0, "none"));
    }
}

#[test]
fn the_profiles_of_a_card_in_mig_mode_are_its_geometry() {
    let text = r#"[{"id":"GPU-0","count":7,"devmem":40960,"devcore":100,"type":"NVIDIA-A100","health":true,"mode":"mig",
        "migProfiles":[{"name":"1g.5gb","memoryMB":4864,"core":14,"placements":[{"start":6,"size":1},{"size":1}]},
        {"name":"3g.20gb","memoryMB":19968,"core":42,"placements":[{"size":4},{"start":4,"size":4}]}]}]"#;
    let (facts, findings) = Given::default().annotation(NVIDIA_REGISTER, text).facts();
    let geometry = facts.node.devices[0].geometry.as_ref().expect("it can be cut");
    assert_eq!(
        geometry.profiles[0].placements,
        [Span { start: 6, size: 1 }, Span { start: 0, size: 1 }]
    );
    assert_eq!((geometry.profiles[1].cores.0, codes(&findings)), (42, vec![]));
    assert_eq!(placed(&facts, 3, "NVIDIA", &Amount::Profile("3g.20gb".into())).0, 2);
    assert_eq!(placed(&facts, 3, "NVIDIA", &mib(4000)).0, 2);
}

#[test]
fn a_card_in_mig_mode_without_usable_profiles_gives_no_slice() {
    for profiles in [
        "[]",
        r#"[{"name":"1g.5gb","placements":[{"size":1}]}]"#,
        r#"[{"name":"1g.5gb","memoryMB":4864,"placements":[{"start":60,"size":9}]}]"#,
        r#"[{"name":"1g.5gb","memoryMB":4864,"placements":[{"start":1}]}]"#,
    ] {
        let text = format!(
            r#"[{{"id":"GPU-0","count":7,"devmem":40960,"health":true,"mode":"mig","migProfiles":{profiles}}}]"#
        );
        let (facts, findings) = Given::default().annotation(NVIDIA_REGISTER, &text).facts();
        assert_eq!(codes(&findings), ["mig-profiles-unreadable"], "{profiles}");
        assert_eq!(placed(&facts, 1, "NVIDIA", &mib(1)).0, 0, "{profiles}");
    }
}

#[test]
fn scores_become_links_between_ordinals() {
    let text = r#"[{"id":"GPU-0","count":1,"devmem":1,"health":true},{"id":"GPU-1","index":1,"count":1,"devmem":1,"health":true}]"#;
    let score = r#"[{"uuid":"GPU-0","score":{"GPU-1":100,"GPU-9":5}},{"uuid":"GPU-1","score":{"GPU-0":-3}}]"#;
    let given = Given::default().annotation(NVIDIA_REGISTER, text);
    let (facts, _) = given.clone().annotation("hami.io/node-nvidia-score", score).facts();
    assert_eq!(facts.node.devices[0].links, [(1, 100)].into());
    assert_eq!(facts.node.devices[1].links, [].into());
    let (facts, findings) = given.annotation("hami.io/node-nvidia-score", "junk").facts();
    assert_eq!((facts.node.unknown, codes(&findings)), (None, vec!["score-unreadable"]));
}

#[test]
fn every_vendor_gives_devices_of_its_kind() {
    let register = |memory| {
        format!(
            r#"[{{"id":"x-0","count":4,"devmem":{memory},"devcore":100,"type":"T","health":true}}]"#
        )
    };
    let drs = r#"{"devices":[{"index":"0","capacity":6}],"profiles":{"6g.40gb":"2"}}"#;
    let metax = r#"[{"uuid":"GPU-x","model":"MXC500","totalDevCount":16,"totalCompute":100,"totalVRam":65536,"healthy":true}]"#;
    let plain = Given::default();
    let listed = |key: &str, memory: u64| plain.clone().annotation(key, &register(memory));
    for (kind, given, id, size, source) in [
        ("NVIDIA", listed(NVIDIA_REGISTER, 8192), "x-0", Some(8192), "register"),
        ("AMD", listed("hami.io/node-amd-register", 196608), "x-0", Some(196608), "register"),
        (
            "DCU",
            plain
                .clone()
                .annotation("hami.io/node-dcu-register", "x-0,1,1024,100,DCU,0,true,0,test:"),
            "x-0",
            Some(1024),
            "register",
        ),
        (
            "Ascend910B3",
            listed("hami.io/node-register-Ascend910B3", 65536),
            "x-0",
            Some(65536),
            "register",
        ),
        (
            "MR-V100",
            plain
                .clone()
                .annotation("hami.io/node-MR-V100-register", "x-0,10,32768,100,MR-V100,0,true:"),
            "x-0",
            Some(32768),
            "register",
        ),
        (
            "MLU",
            plain
                .clone()
                .capacity("cambricon.com/mlu.smlu.vcore", "100")
                .capacity("cambricon.com/mlu.smlu.vmemory", "96"),
            "n-cambricon-mlu-0",
            Some(24576),
            "capacity",
        ),
        (
            "Metax-GPU",
            plain.clone().capacity("metax-tech.com/gpu", "1"),
            "n-metax-0",
            None,
            "capacity",
        ),
        (
            "Metax-SGPU",
            plain.clone().annotation("metax-tech.com/node-gpu-devices", metax),
            "GPU-x",
            Some(65536),
            "register",
        ),
        (
            "Mthreads",
            plain
                .clone()
                .capacity("mthreads.com/sgpu-core", "16")
                .capacity("mthreads.com/sgpu-memory", "96"),
            "n-mthreads-0",
            Some(49152),
            "capacity",
        ),
        (
            "Enflame",
            plain.clone().annotation("enflame.com/gcu-drs-capacity", drs),
            "n-enflame-drs-0",
            Some(40960),
            "register",
        ),
        ("GCU", plain.clone().capacity("enflame.com/gcu", "1"), "n-enflame-0", None, "capacity"),
        (
            "kunlun",
            plain.clone().capacity("kunlunxin.com/xpu", "1"),
            "n-kunlun-0",
            None,
            "capacity",
        ),
        ("XPU", listed("hami.io/node-register-xpu", 98304), "x-0", Some(98304), "register"),
        (
            "AWSNeuron",
            plain.clone().capacity("aws.amazon.com/neuron", "1"),
            "n-AWSNeuron-0",
            None,
            "capacity",
        ),
        ("Vastai", listed("hami.io/node-va-register", 32768), "x-0", Some(32768), "register"),
        ("Biren", listed("hami.io/node-biren-register", 32768), "x-0", Some(32768), "register"),
    ] {
        let (facts, findings) = given.facts();
        let shown: Vec<(String, Option<u64>)> =
            rows(&facts).into_iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(shown, [(id.to_owned(), size)], "{kind}");
        assert_eq!(
            (&*facts.node.devices[0].kind, facts.capacity_source, codes(&findings)),
            (kind, source, vec![])
        );
        assert_eq!(placed(&facts, 2, kind, &Amount::Whole).0, 1, "{kind}");
        assert_eq!(placed(&facts, 1, kind, &mib(512)).0, usize::from(size.is_some()), "{kind}");
    }
}

#[test]
fn dies_of_one_card_and_devices_with_equal_shares_are_read_as_such() {
    let dies = r#"[{"id":"d0","count":2,"health":true,"custominfo":{"DeviceStrategy":"die","AIC":"7"}},
        {"id":"d1","count":2,"health":true,"custominfo":{"DeviceStrategy":"card","AIC":"7"}},
        {"id":"d2","count":2,"health":true,"custominfo":null}]"#;
    let (facts, _) = Given::default().annotation("hami.io/node-va-register", dies).facts();
    let boards: Vec<_> = facts.node.devices.iter().map(|device| device.board.as_deref()).collect();
    assert_eq!(boards, [Some("7"), None, None]);
    let xpu = r#"[{"id":"xpu-0","count":4,"devmem":98304,"type":"XPU","health":true}]"#;
    let (facts, _) = Given::default().annotation("hami.io/node-register-xpu", xpu).facts();
    assert_eq!(facts.node.devices[0].sharing, Sharing::EqualShares);
    assert_eq!(placed(&facts, 5, "XPU", &mib(24_576)).0, 4);
}

#[test]
fn a_vendor_in_two_forms_on_one_node_is_unknown() {
    let given = Given::default().capacity("kunlunxin.com/xpu", "1");
    let xpu = r#"[{"id":"xpu-0","count":1,"devmem":98304,"type":"XPU","health":true}]"#;
    let (facts, findings) = given.annotation("hami.io/node-register-xpu", xpu).facts();
    assert_eq!(
        (facts.node.unknown.is_some(), codes(&findings)),
        (true, vec!["register-above-advertised", "device-listed-twice"])
    );
    let same = r#"[{"id":"x","count":1,"devmem":8192,"health":true}]"#;
    let given = Given::default()
        .annotation("hami.io/node-amd-register", same)
        .annotation(NVIDIA_REGISTER, same);
    assert_eq!(codes(&given.facts().1), ["device-listed-twice"]);
}

#[test]
fn devices_that_are_advertised_and_listed_nowhere_are_reported() {
    let (facts, findings) = Given::default().capacity("hygon.com/dcunum", "8").facts();
    assert!(facts.node.unknown.as_deref().is_some_and(|why| why.contains("8 of hygon.com/dcunum")));
    assert_eq!(codes(&findings), ["register-missing"]);
    let (facts, findings) = Given::default()
        .discovered("1", "1", "40960")
        .gpus("1")
        .capacity("hygon.com/dcunum", "8")
        .facts();
    assert_eq!(
        (facts.node.unknown, codes(&findings)),
        (None, vec!["register-missing"]),
        "others can be used"
    );
}

#[test]
fn a_register_that_lists_more_than_is_allocatable_is_reported() {
    let register = r#"[{"id":"GPU-x","count":10,"devmem":8192,"health":true}]"#;
    let given = Given::default().annotation(NVIDIA_REGISTER, register);
    for allocatable in ["0", "9"] {
        let given = given.clone().capacity("nvidia.com/gpu", "10");
        let (facts, findings) = given.allocatable("nvidia.com/gpu", allocatable).facts();
        assert_eq!(codes(&findings), ["register-above-advertised"]);
        let tokens = facts.node.allocatable.extended.get("nvidia.com/gpu");
        assert_eq!(tokens.to_string(), allocatable);
    }
    assert_eq!(codes(&given.gpus("10").facts().1), Vec::<&str>::new());
}

#[test]
fn whole_cards_of_a_register_that_are_missing_from_allocatable_are_not_booked() {
    let card = |id: u8, health: bool| {
        format!(r#"{{"id":"GPU-{id}","count":10,"devmem":8192,"health":{health}}}"#)
    };
    let three = |last| format!("[{},{},{}]", card(0, true), card(1, true), card(2, last));
    for (register, capacity, allocatable, booked) in [
        (three(true), "30", "30", 3),
        (three(true), "30", "20", 2),
        (three(true), "30", "13", 2),
        (three(true), "30", "10", 1),
        // The register names the card that is missing.
        (three(false), "30", "20", 2),
        (three(false), "30", "10", 1),
        // Fewer tokens than the register lists, and none unhealthy.
        (three(true), "20", "20", 3),
    ] {
        let given = Given::default().annotation(NVIDIA_REGISTER, &register);
        let given = given.capacity("nvidia.com/gpu", capacity);
        let (facts, _) = given.allocatable("nvidia.com/gpu", allocatable).facts();
        let said = format!("{register}: {allocatable} of {capacity}");
        assert_eq!(placed(&facts, 4, "NVIDIA", &mib(6000)).0, booked, "{said}");
    }
}

#[test]
fn a_register_that_is_not_read_closes_a_node_without_other_devices_only() {
    let old =
        r#"[{"id":"A-0","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B","health":true}]"#;
    let alone = Given::default().annotation("hami.io/node-register-Ascend910B", old);
    let (facts, findings) = alone.facts();
    assert_eq!(codes(&findings), ["register-unread"]);
    let unknown = facts.node.unknown.expect("devices may be missing");
    assert!(unknown.contains("annotation hami.io/node-register-Ascend910B lists"), "{unknown}");

    let nvidia = r#"[{"id":"GPU-0","count":10,"devmem":32768,"type":"NVIDIA V100","health":true}]"#;
    let beside = Given::default()
        .annotation("hami.io/node-mlu-register", "[{\"id\":\"MLU-0\"}]")
        .annotation(NVIDIA_REGISTER, nvidia);
    let (facts, findings) = beside.gpus("10").facts();
    assert_eq!((facts.node.unknown.as_deref(), codes(&findings)), (None, vec!["register-unread"]));
    assert_eq!(placed(&facts, 1, "NVIDIA", &mib(32768)).0, 1);
}
