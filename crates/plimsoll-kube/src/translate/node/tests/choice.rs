//! Declared devices, and who chooses the card.

use plimsoll_core::device::{Health, Sharing, Source, Strategy};

use super::*;

#[test]
fn declared_devices_win_over_register_and_labels() {
    let declared = r#"[{"uuid":"GPU-1","index":1,"model":"T4","memory":"15360MiB","health":false},
        {"uuid":"GPU-0","index":0,"memory":"80GiB","reserve":"450MiB","cap":"60GiB","cores":100,"slots":7,"numa":1,"mode":"hami-core","foreign":"21GiB"}]"#;
    let register = r#"[{"id":"GPU-x","count":10,"devmem":99999,"health":true}]"#;
    let given = Given::default().annotation("plimsoll.dev/devices", declared);
    let given = given
        .annotation("hami.io/node-nvidia-register", register)
        .discovered("2", "1", "40960")
        .gpus("2");
    let (facts, findings) = given.facts();
    assert_eq!(codes(&findings), [""; 0]);
    let (first, second) = (&facts.node.devices[0], &facts.node.devices[1]);
    assert_eq!(
        (facts.node.device_label(0), facts.node.device_label(1)),
        ("GPU-0".into(), "GPU-1".into())
    );
    assert_eq!(
        (first.memory.usable(), first.memory.reserve),
        (Some(Bytes::gib(60)), Bytes::mib(450))
    );
    assert_eq!(
        (first.slots, first.numa, first.mode.as_deref()),
        (Some(7), Some(1), Some("hami-core"))
    );
    assert_eq!((first.cores.map(|cores| cores.0), &second.health), (Some(100), &Health::Faulty));
    assert_eq!(
        (facts.foreign.as_slice(), facts.capacity_source),
        (&[(0, Bytes::gib(21))][..], "declared")
    );
    assert_eq!(facts.choice, DeviceChoice::Owned);
}

#[test]
fn a_reserve_and_a_cap_bind_to_the_byte() {
    for (declared, usable) in [
        (r#"[{"memory":"80GiB","reserve":"450MiB"}]"#, 81920 - 450),
        (r#"[{"memory":"80GiB","cap":"60GiB"}]"#, 61440),
        (r#"[{"memory":"80GiB","reserve":"30GiB","cap":"60GiB"}]"#, 51200),
        (r#"[{"memory":"80GiB"}]"#, 81920),
    ] {
        let (facts, _) = Given::default().annotation("plimsoll.dev/devices", declared).facts();
        assert_eq!(placed(&facts, 1, "NVIDIA", &mib(usable)).0, 1, "{declared}");
        let above = Amount::Bytes(NonZeroU64::new((usable << 20) + 1).unwrap());
        assert_eq!(placed(&facts, 1, "NVIDIA", &above).0, 0, "{declared}");
    }
}

#[test]
fn a_declaration_wins_only_for_the_vendors_that_it_names() {
    let register = r#"[{"id":"GPU-x","count":10,"devmem":8192,"health":true}]"#;
    let given = Given::default()
        .annotation("plimsoll.dev/devices", r#"[{"vendor":"Metax-GPU","memory":"64GiB"}]"#);
    let given = given
        .annotation("hami.io/node-nvidia-register", register)
        .capacity("metax-tech.com/gpu", "1");
    let (facts, findings) = given.facts();
    let kinds: Vec<&str> = facts.node.devices.iter().map(|device| &*device.kind).collect();
    assert_eq!(
        (kinds, codes(&findings)),
        (vec!["Metax-GPU", "NVIDIA"], vec!["register-above-advertised"])
    );
}

#[test]
fn a_declaration_that_cannot_be_read_is_unknown_and_nothing_takes_its_place() {
    for (declared, part) in [
        ("junk", "plimsoll.dev/devices"),
        (r#"[{"memroy":1}]"#, "memroy"),
        (r#"[{"vendor":"nvidia","memory":"1GiB"}]"#, "\"nvidia\""),
    ] {
        let given = Given::default()
            .annotation("plimsoll.dev/devices", declared)
            .discovered("1", "1", "40960")
            .gpus("1");
        let (facts, findings) = given.facts();
        let unknown = facts.node.unknown.as_deref().unwrap_or_default();
        assert!(facts.node.devices.is_empty() && unknown.contains(part), "{unknown}");
        assert_eq!(codes(&findings), ["declaration-unreadable"]);
    }
    let given = Given::default()
        .annotation("plimsoll.dev/devices", "[]")
        .discovered("1", "1", "40960")
        .gpus("1");
    let (facts, findings) = given.facts();
    assert_eq!((facts.node.devices.len(), codes(&findings)), (1, vec!["declaration-empty"]));
}

#[test]
fn declared_cards_are_handed_out_as_labels_and_the_annotation_say() {
    let two = r#"[{"memory":"32607MiB"},{"memory":"32607MiB"}]"#;
    let tokens = Sharing::Tokens { replicas: 100, strategy: Strategy::TimeSlicing };
    for (replicas, advertised, annotation, sharing, choice, pods) in [
        ("1", "2", None, Sharing::Exclusive, DeviceChoice::Owned, 8),
        ("100", "200", None, tokens, DeviceChoice::Plugin, 4),
        ("", "200", None, tokens, DeviceChoice::Plugin, 4),
        ("100", "200", Some("owned"), Sharing::Shares, DeviceChoice::Owned, 8),
        ("100", "200", Some("plugin"), tokens, DeviceChoice::Plugin, 4),
        ("1", "2", Some("plugin"), Sharing::Exclusive, DeviceChoice::Plugin, 8),
    ] {
        let given = Given::default()
            .annotation("plimsoll.dev/devices", two)
            .discovered("2", replicas, "99")
            .gpus(advertised);
        let given = annotation
            .into_iter()
            .fold(given, |given, value| given.annotation("plimsoll.dev/device-choice", value));
        let (facts, findings) = given.facts();
        assert_eq!(
            (facts.node.devices[0].sharing, facts.choice),
            (sharing, choice),
            "x{replicas} {annotation:?}"
        );
        assert_eq!(codes(&findings), [""; 0]);
        assert_eq!(placed(&facts, 12, "NVIDIA", &mib(8000)).0, pods, "x{replicas} {annotation:?}");
    }
}

#[test]
fn a_declaration_that_does_not_match_the_advertised_number_is_reported() {
    let given = Given::default()
        .annotation("plimsoll.dev/devices", r#"[{"memory":"1GiB"},{"memory":"2GiB"}]"#)
        .gpus("3");
    let (facts, findings) = given.facts();
    assert_eq!((facts.node.devices.len(), codes(&findings)), (2, vec!["declaration-contradicts"]));
    let (bytes, source) = match facts.node.devices[1].memory.total {
        plimsoll_core::device::Capacity::Known { bytes, source } => (bytes, source),
        ref unknown => panic!("{unknown:?}"),
    };
    assert_eq!((bytes, source), (Bytes::gib(2), Source::Declared));
}

#[test]
fn a_choice_that_cannot_be_read_promises_the_least() {
    let register = r#"[{"id":"GPU-x","count":10,"devmem":8192,"health":true}]"#;
    let given = Given::default().annotation("hami.io/node-nvidia-register", register);
    let (facts, findings) = given.annotation("plimsoll.dev/device-choice", "Owned").facts();
    assert_eq!(
        (facts.choice, codes(&findings)),
        (DeviceChoice::Plugin, vec!["device-choice-unreadable"])
    );
    assert!(findings[0].message().contains("\"Owned\""), "{}", findings[0].message());
}

#[test]
fn labels_beside_another_vendors_register_leave_the_choice_to_the_plugin() {
    let register = r#"[{"id":"npu-0","count":4,"devmem":65536,"health":true}]"#;
    let given = Given::default().annotation("hami.io/node-register-Ascend910B3", register);
    let (facts, _) = given.discovered("2", "10", "40960").gpus("20").facts();
    assert_eq!((facts.choice, facts.capacity_source), (DeviceChoice::Plugin, "register"));
    assert_eq!(placed(&facts, 9, "NVIDIA", &mib(40960)).0, 1);
    assert_eq!(placed(&facts, 9, "Ascend910B3", &mib(16384)).0, 4);
}

#[test]
fn registered_cards_float_where_the_operator_says_that_the_plugin_picks() {
    let card = |id| format!(r#"{{"id":"{id}","count":10,"devmem":32607,"health":true}}"#);
    let register = format!("[{},{}]", card("GPU-0"), card("GPU-1"));
    let given = Given::default().annotation("hami.io/node-nvidia-register", &register);
    assert_eq!(placed(&given.clone().facts().0, 12, "NVIDIA", &mib(8000)).0, 8);
    let (facts, _) = given.annotation("plimsoll.dev/device-choice", "plugin").facts();
    assert_eq!(placed(&facts, 12, "NVIDIA", &mib(8000)).0, 4);
}
