//! Labels of NVIDIA's feature discovery together with the advertised resources.

use plimsoll_core::device::{Capacity, Sharing, Strategy};
use plimsoll_core::request::PlainRule;

use super::*;

#[test]
fn one_card_advertised_as_a_hundred_holds_what_one_card_holds() {
    let given = Given::default().discovered("1", "100", "32607").gpus("100");
    let given = given
        .label("nvidia.com/gpu.product", "NVIDIA-RTX-5090-SHARED")
        .label("nvidia.com/gpu.sharing-strategy", "time-slicing");
    let (facts, findings) = given.facts();
    assert_eq!(rows(&facts), [("n/gpu-0".into(), Some(32607), Some(100), "time-slicing".into())]);
    assert_eq!((facts.advertised, facts.replicas, facts.physical), (Some(100), Some(100), 1));
    assert_eq!(
        (facts.capacity_source, facts.choice, codes(&findings)),
        ("label", DeviceChoice::Plugin, vec![])
    );
    for pods in [5, 400] {
        let (count, why) = placed(&facts, pods, "NVIDIA", &mib(8000));
        assert_eq!(count, 4);
        assert!(why.contains("607 MiB"), "{why}");
    }
}

#[test]
fn the_number_of_tokens_of_one_card_changes_no_capacity_and_is_reported() {
    for (replicas, words) in
        [("99", "gpu.replicas is 99"), ("", "gpu.replicas is missing"), ("x", "\"x\"")]
    {
        let (facts, findings) =
            Given::default().discovered("1", replicas, "32600").gpus("100").facts();
        assert_eq!(
            rows(&facts),
            [("n/gpu-0".into(), Some(32600), Some(100), "time-slicing".into())],
            "{replicas}"
        );
        assert_eq!(
            (codes(&findings), facts.node.unknown.clone()),
            (vec!["replicas-contradict"], None),
            "{replicas}"
        );
        assert!(findings[0].message().contains(words), "{}", findings[0].message());
        assert_eq!(findings[0].numbers()["advertised"], 100);
        let (count, why) = placed(&facts, 5, "NVIDIA", &mib(8000));
        assert_eq!(count, 4);
        assert!(why.contains("600 MiB"), "{why}");
    }
}

#[test]
fn two_such_cards_take_eight_where_the_choice_is_owned_and_four_where_the_plugin_chooses() {
    let given = Given::default().discovered("2", "100", "32607").gpus("200");
    let (plugin, _) = given.clone().facts();
    assert_eq!(placed(&plugin, 12, "NVIDIA", &mib(8000)).0, 4);
    let (owned, findings) = given.annotation("plimsoll.dev/device-choice", "owned").facts();
    assert_eq!((owned.choice, codes(&findings)), (DeviceChoice::Owned, vec![]));
    assert_eq!(placed(&owned, 12, "NVIDIA", &mib(8000)).0, 8);
}

#[test]
fn plain_pods_on_a_shared_card_follow_the_rule() {
    let (facts, _) = Given::default().discovered("1", "100", "32607").gpus("100").facts();
    for (rule, count) in [(PlainRule::Whole, 1), (PlainRule::EqualShare, 5), (PlainRule::Refuse, 0)]
    {
        assert_eq!(placed(&facts, 5, "NVIDIA", &Amount::Plain(rule)).0, count, "{rule:?}");
    }
}

#[test]
fn a_card_is_shared_if_its_tokens_or_its_name_say_so() {
    let tokens = |replicas, strategy| Sharing::Tokens { replicas, strategy };
    for (count, replicas, product, strategy, advertised, expected) in [
        ("8", "1", "Tesla-V100", "none", "8", Sharing::Exclusive),
        ("8", "", "Tesla-V100", "", "8", Sharing::Exclusive),
        ("4", "4", "Tesla-T4-SHARED", "time-slicing", "16", tokens(4, Strategy::TimeSlicing)),
        ("4", "4", "Tesla-T4", "mps", "16", tokens(4, Strategy::Mps)),
        ("1", "1", "Tesla-T4-SHARED", "", "1", tokens(1, Strategy::TimeSlicing)),
        ("1", "", "Tesla-T4", "", "10", tokens(10, Strategy::TimeSlicing)),
    ] {
        let given = Given::default().discovered(count, replicas, "16384").gpus(advertised);
        let given = given.label("nvidia.com/gpu.product", product);
        let (facts, _) = given.label("nvidia.com/gpu.sharing-strategy", strategy).facts();
        let device = &facts.node.devices[0];
        assert_eq!(device.sharing, expected, "{product} x{replicas}");
        assert_eq!(device.slots.is_none(), expected == Sharing::Exclusive);
        assert_eq!(device.model.as_deref(), Some(product));
    }
}

#[test]
fn shared_cards_under_another_name_count_as_well() {
    let given = Given::default().discovered("4", "4", "15360").gpus("0");
    let (facts, findings) = given
        .capacity("nvidia.com/gpu.shared", "16")
        .allocatable("nvidia.com/gpu.shared", "16")
        .facts();
    assert_eq!(
        (facts.node.devices.len(), facts.advertised, facts.replicas),
        (4, Some(16), Some(4))
    );
    assert_eq!(codes(&findings), [""; 0]);
}

#[test]
fn several_cards_whose_counts_disagree_are_unknown_with_the_numbers() {
    for (count, replicas, advertised, parts) in [
        ("2", "100", "100", ["count is 2", "replicas is 100", "makes 200, but 100"]),
        ("2", "", "200", ["count is 2", "replicas is missing", "makes 2, but 200"]),
        ("4", "1", "8", ["different models", "count is 4", "makes 4, but 8"]),
        ("2", "1", "0", ["device plugin may not be running", "makes 2", "but 0"]),
        ("0", "1", "2", ["count is 0", "makes 0", "but 2"]),
    ] {
        let (facts, findings) =
            Given::default().discovered(count, replicas, "40960").gpus(advertised).facts();
        let unknown = facts.node.unknown.as_deref().unwrap_or_default();
        assert!(parts.iter().all(|part| unknown.contains(part)), "{count} x {replicas}: {unknown}");
        assert_eq!(codes(&findings), ["capacity-contradiction"]);
        assert_eq!(findings[0].numbers()["advertised"], advertised.parse::<u64>().unwrap());
        assert_eq!(placed(&facts, 1, "NVIDIA", &Amount::Whole).0, 0);
    }
}

#[test]
fn cards_whose_counts_disagree_are_the_plugins_to_choose() {
    let shared = |cards: usize| vec!["time-slicing".to_owned(); cards];
    for (count, replicas, advertised, sharing) in [
        ("2", "100", "100", shared(2)),
        ("2", "100", "0", shared(2)),
        ("2", "100", "300", shared(0)),
        ("2", "", "200", shared(0)),
        ("4", "1", "8", shared(0)),
        ("4", "1", "3", shared(0)),
    ] {
        let given = Given::default().discovered(count, replicas, "32607").gpus(advertised);
        let (facts, _) = given.clone().facts();
        let kept: Vec<String> = rows(&facts).into_iter().map(|row| row.3).collect();
        assert_eq!((kept, facts.choice), (sharing, DeviceChoice::Plugin), "{count} x {replicas}");
        assert!(facts.node.unknown.is_some(), "{count} x {replicas}");
        assert_eq!(placed(&facts, 1, "NVIDIA", &mib(1)).0, 0, "{count} x {replicas}");
        let (facts, _) = given.annotation("plimsoll.dev/device-choice", "owned").facts();
        assert_eq!(facts.choice, DeviceChoice::Owned, "what the operator says counts");
    }
}

#[test]
fn one_card_of_which_nothing_is_advertised_is_unknown() {
    let (facts, findings) = Given::default().discovered("1", "1", "40960").gpus("0").facts();
    assert_eq!(
        (facts.node.unknown.is_some(), codes(&findings)),
        (true, vec!["capacity-contradiction"])
    );
}

#[test]
fn a_missing_memory_label_leaves_whole_device_work_and_is_named() {
    for (memory, part) in
        [("", "nvidia.com/gpu.memory"), ("32Gi", "\"32Gi\""), ("0", "its memory is not known")]
    {
        let (facts, findings) = Given::default().discovered("2", "1", memory).gpus("2").facts();
        let Capacity::Unknown { missing } = &facts.node.devices[0].memory.total else {
            panic!("{memory} is known")
        };
        assert!(missing.contains(part), "{missing}");
        assert_eq!(codes(&findings), ["memory-label-missing"]);
        let (count, why) = placed(&facts, 3, "NVIDIA", &mib(1));
        assert!(count == 0 && why.contains("unknown"), "{why}");
        assert_eq!(placed(&facts, 3, "NVIDIA", &Amount::Whole).0, 2);
    }
}

#[test]
fn tokens_are_never_counted_as_cards_where_the_count_is_missing() {
    let (facts, findings) = Given::default().discovered("", "100", "32607").gpus("100").facts();
    assert_eq!(codes(&findings), ["count-label-missing"]);
    assert!(findings[0].message().contains("label nvidia.com/gpu.count is missing"));
    assert_eq!(placed(&facts, 3, "NVIDIA", &Amount::Whole).0, 1, "one pod at a time");
    let (count, why) = placed(&facts, 1, "NVIDIA", &mib(1));
    assert!(count == 0 && why.contains("nvidia.com/gpu.count"), "{why}");
}

#[test]
fn whole_cards_missing_from_allocatable_are_that_many_fewer_to_book() {
    for (count, replicas, capacity, allocatable, missing) in [
        ("8", "1", "8", "7", 1),
        ("4", "10", "40", "20", 2),
        ("1", "100", "100", "0", 1),
        ("2", "1", "2", "2", 0),
    ] {
        let given = Given::default()
            .discovered(count, replicas, "16384")
            .capacity("nvidia.com/gpu", capacity);
        let (facts, findings) = given.allocatable("nvidia.com/gpu", allocatable).facts();
        assert_eq!((facts.node.missing_cards, facts.node.unknown.clone()), (missing, None));
        assert_eq!(codes(&findings).contains(&"cards-unhealthy"), missing > 0);
        let cards = facts.node.devices.len();
        if replicas == "1" {
            assert_eq!(
                placed(&facts, cards, "NVIDIA", &Amount::Whole).0,
                cards - usize::from(missing)
            );
        }
    }
}

#[test]
fn any_other_difference_from_allocatable_is_unknown() {
    for (count, replicas, capacity, allocatable) in
        [("4", "10", "40", "35"), ("1", "100", "100", "99"), ("8", "1", "8", "9")]
    {
        let given = Given::default()
            .discovered(count, replicas, "16384")
            .capacity("nvidia.com/gpu", capacity);
        let (facts, findings) = given.allocatable("nvidia.com/gpu", allocatable).facts();
        let unknown = facts.node.unknown.as_deref().unwrap_or_default();
        assert!(unknown.contains(&format!("{allocatable} of {capacity}")), "{unknown}");
        assert_eq!(codes(&findings), ["allocatable-contradiction"]);
        assert_eq!(
            facts.node.devices.len().to_string(),
            count,
            "the cards stay, so that what runs can be audited"
        );
    }
}

#[test]
fn allocatable_alone_counts_as_what_is_advertised() {
    let given =
        Given::default().discovered("1", "100", "32607").allocatable("nvidia.com/gpu", "100");
    let (facts, findings) = given.facts();
    assert_eq!(
        (facts.advertised, facts.node.devices.len(), codes(&findings)),
        (Some(100), 1, vec![])
    );
}

#[test]
fn numbers_that_cannot_be_read_are_unknown() {
    for (count, advertised, code) in [
        ("two", "2", "label-unreadable"),
        ("2", "2.5", "quantity-unreadable"),
        ("2", "-2", "quantity-unreadable"),
        ("99999", "99999", "too-many-devices"),
    ] {
        let (facts, findings) =
            Given::default().discovered(count, "1", "16384").gpus(advertised).facts();
        assert_eq!(
            (facts.node.unknown.is_some(), codes(&findings)),
            (true, vec![code]),
            "{count} {advertised}"
        );
    }
}

#[test]
fn without_feature_discovery_one_advertised_device_is_one_card() {
    let (facts, findings) = Given::default().gpus("1").facts();
    assert_eq!((facts.node.devices.len(), codes(&findings)), (1, vec!["memory-label-missing"]));
    assert_eq!(placed(&facts, 2, "NVIDIA", &Amount::Whole).0, 1);
    let (count, why) = placed(&facts, 1, "NVIDIA", &mib(1));
    assert!(count == 0 && why.contains("nvidia.com/gpu.memory"), "{why}");
}

#[test]
fn several_advertised_devices_are_cards_where_the_cloud_provider_says_so() {
    for (label, value, advertised, cards) in [
        ("cloud.google.com/gke-accelerator-count", "4", "4", 4),
        ("cloud.google.com/gke-accelerator-count", "1", "4", 1),
        ("karpenter.k8s.aws/instance-gpu-count", "8", "8", 8),
        ("node.kubernetes.io/instance-type", "g5.12xlarge", "4", 4),
        ("node.kubernetes.io/instance-type", "Standard_NC24s_v3", "4", 4),
        ("node.kubernetes.io/instance-type", "g5.12xlarge", "8", 1),
        ("kubernetes.azure.com/accelerator", "nvidia", "4", 1),
    ] {
        let (facts, _) = Given::default().label(label, value).gpus(advertised).facts();
        let placed = placed(&facts, 9, "NVIDIA", &Amount::Whole).0;
        assert_eq!(placed, cards, "{label}={value}, {advertised} advertised");
    }
}

#[test]
fn labels_of_gke_tell_partitions_and_the_clients_of_each_card() {
    let count = ("cloud.google.com/gke-accelerator-count", "2");
    let clients = ("cloud.google.com/gke-max-shared-clients-per-gpu", "3");
    let partition = ("cloud.google.com/gke-gpu-partition-size", "2g.20gb");
    for (labels, advertised, cards, tokens) in [
        (vec![count, clients], "6", 2, Some(3)),
        // Two cards with one client each are not six devices.
        (vec![count], "6", 1, Some(6)),
        (vec![partition], "3", 3, Some(1)),
        (vec![partition, clients], "9", 3, Some(3)),
        (vec![partition, clients], "8", 1, Some(8)),
    ] {
        let given = labels.iter().fold(Given::default(), |one, (name, to)| one.label(name, to));
        let (facts, _) = given.gpus(advertised).facts();
        assert_eq!((facts.node.devices.len(), facts.replicas), (cards, tokens), "{labels:?}");
    }
}

#[test]
fn plugins_that_do_not_share_cards_advertise_whole_devices_of_unknown_memory() {
    for (resource, kind, whole) in [
        ("amd.com/gpu", "AMD", 8),
        ("habana.ai/gaudi", "habana.ai/gaudi", 8),
        ("google.com/tpu", "google.com/tpu", 8),
        ("gpu.intel.com/i915", "gpu.intel.com/i915", 1),
    ] {
        let (facts, _) =
            Given::default().capacity(resource, "8").allocatable(resource, "8").facts();
        assert_eq!(placed(&facts, 9, kind, &Amount::Whole).0, whole, "{resource}");
        assert_eq!(placed(&facts, 1, kind, &mib(1)).0, 0, "{resource}");
    }
}

#[test]
fn a_device_resource_that_is_not_known_makes_the_devices_unknown_where_no_other_are() {
    for resource in ["aliyun.com/gpu-mem", "microsoft.com/directx", "volcano.sh/vgpu-number"] {
        let given = Given::default().capacity(resource, "2").allocatable(resource, "2");
        let (facts, findings) = given.facts();
        assert_eq!(codes(&findings), ["device-resource-unknown"], "{resource}");
        let unknown = facts.node.unknown.expect("it has some devices");
        assert!(unknown.starts_with(&format!("2 of {resource} are advertised")), "{unknown}");
    }
    let other = Given::default().capacity("rdma/hca", "2").capacity("nvidia.com/gpu", "0");
    assert_eq!(codes(&other.facts().1), [""; 0]);
    let known = Given::default().gpus("1").capacity("example.com/npu", "100");
    let (facts, findings) = known.facts();
    assert_eq!((facts.node.unknown, codes(&findings)), (None, vec!["memory-label-missing"]));
}

#[test]
fn the_number_of_cards_without_a_count_label_is_by_capacity() {
    let (facts, _) = Given::default().gpus("1").facts();
    assert_eq!(facts.capacity_source, "capacity");
}
