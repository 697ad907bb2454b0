//! MIG instances by labels, in both strategies.

use super::*;

fn mixed() -> Given {
    let given =
        Given::default().label("nvidia.com/mig.strategy", "mixed").discovered("2", "0", "40960");
    let given = given.label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB");
    given.label("nvidia.com/mig-1g.5gb.count", "7").label("nvidia.com/mig-1g.5gb.memory", "4864")
}

fn advertise(given: Given, resource: &str, number: &str) -> Given {
    given.capacity(resource, number).allocatable(resource, number)
}

#[test]
fn each_advertised_instance_is_a_device_of_its_own_kind() {
    let given = mixed()
        .label("nvidia.com/mig-1g.5gb.replicas", "1")
        .label("nvidia.com/mig-2g.10gb.count", "3");
    let given = given.label("nvidia.com/mig-2g.10gb.memory", "9856").gpus("0");
    let given =
        advertise(advertise(given, "nvidia.com/mig-1g.5gb", "7"), "nvidia.com/mig-2g.10gb", "3");
    let (facts, findings) = given.facts();
    assert_eq!((facts.node.devices.len(), facts.physical, facts.advertised), (10, 2, Some(10)));
    assert_eq!(codes(&findings), [""; 0]);
    assert_eq!(placed(&facts, 9, "nvidia.com/mig-1g.5gb", &Amount::Whole).0, 7);
    assert_eq!(placed(&facts, 9, "nvidia.com/mig-2g.10gb", &mib(9856)).0, 3);
    assert_eq!(placed(&facts, 1, "nvidia.com/mig-2g.10gb", &mib(9857)).0, 0);
    assert_eq!(placed(&facts, 1, "NVIDIA", &Amount::Whole).0, 0);
}

#[test]
fn a_memory_label_of_another_profile_is_not_believed() {
    let given = mixed().label("nvidia.com/mig-1g.5gb.memory", "20096").gpus("0");
    let (facts, findings) = advertise(given, "nvidia.com/mig-1g.5gb", "7").facts();
    assert_eq!((rows(&facts)[0].1, codes(&findings)), (None, vec!["memory-label-missing"]));
    assert!(findings[0].message().contains("20096 MiB"), "{}", findings[0].message());
    assert_eq!(placed(&facts, 9, "nvidia.com/mig-1g.5gb", &Amount::Whole).0, 7);
    assert_eq!(placed(&facts, 1, "nvidia.com/mig-1g.5gb", &mib(1000)).0, 0);
}

#[test]
fn whole_cards_beside_instances_are_those_that_are_advertised() {
    let given = advertise(
        mixed().label("nvidia.com/gpu.replicas", "1").gpus("1"),
        "nvidia.com/mig-1g.5gb",
        "7",
    );
    let (facts, findings) = given.facts();
    let whole = facts.node.devices.iter().filter(|device| &*device.kind == "NVIDIA").count();
    assert_eq!(
        (whole, facts.node.devices.len(), facts.physical, codes(&findings)),
        (1, 8, 2, vec![])
    );

    let given = advertise(
        mixed().label("nvidia.com/gpu.replicas", "1").gpus("3"),
        "nvidia.com/mig-1g.5gb",
        "7",
    );
    assert_eq!(
        codes(&given.facts().1),
        ["capacity-contradiction"],
        "three whole cards are more than two"
    );
}

#[test]
fn one_whole_card_beside_instances_needs_no_count_label() {
    let given = Given::default()
        .label("nvidia.com/mig.strategy", "mixed")
        .label("nvidia.com/mig-1g.5gb.count", "7")
        .label("nvidia.com/mig-1g.5gb.memory", "4864")
        .gpus("1");
    let (facts, findings) = advertise(given, "nvidia.com/mig-1g.5gb", "7").facts();
    let whole = facts.node.devices.iter().filter(|device| &*device.kind == "NVIDIA").count();
    assert_eq!((whole, facts.node.devices.len(), facts.node.unknown.as_deref()), (1, 8, None));
    assert_eq!(codes(&findings), ["memory-label-missing"]);
    assert_eq!(placed(&facts, 9, "nvidia.com/mig-1g.5gb", &Amount::Whole).0, 7);
}

#[test]
fn shared_instances_are_counted_once_under_either_name() {
    let given = mixed().label("nvidia.com/mig-1g.5gb.replicas", "4");
    for resource in ["nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.shared"] {
        let (facts, findings) = advertise(given.clone(), resource, "28").facts();
        assert_eq!((facts.node.devices.len(), codes(&findings)), (7, vec![]), "{resource}");
        assert_eq!(rows(&facts)[0], ("n/gpu-0".into(), Some(4864), Some(4), "time-slicing".into()));
        assert_eq!(&*facts.node.devices[0].kind, "nvidia.com/mig-1g.5gb");
    }
}

#[test]
fn an_instance_without_a_memory_label_is_of_unknown_size_whatever_its_name_says() {
    let given = Given::default().label("nvidia.com/mig-3g.20gb.count", "2");
    let (facts, findings) = advertise(given, "nvidia.com/mig-3g.20gb", "2").facts();
    assert_eq!(facts.node.devices[0].memory.usable(), None);
    assert_eq!(codes(&findings), ["memory-label-missing"]);
    assert!(
        findings[0].message().contains("nvidia.com/mig-3g.20gb.memory"),
        "{}",
        findings[0].message()
    );
}

#[test]
fn instances_whose_counts_are_missing_or_disagree_are_unknown() {
    let (facts, findings) = advertise(mixed(), "nvidia.com/mig-1g.5gb", "14").facts();
    assert_eq!(
        (facts.node.unknown.is_some(), codes(&findings)),
        (true, vec!["capacity-contradiction"])
    );
    let (facts, findings) = advertise(Given::default(), "nvidia.com/mig-1g.5gb", "7").facts();
    assert_eq!(
        (facts.node.unknown.is_some(), codes(&findings)),
        (true, vec!["count-label-missing"])
    );
}

#[test]
fn under_the_single_strategy_an_instance_is_labelled_as_a_card() {
    let given = Given::default()
        .label("nvidia.com/mig.strategy", "single")
        .discovered("14", "1", "4864")
        .gpus("14");
    let (facts, findings) =
        given.label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb").facts();
    assert_eq!((facts.node.devices.len(), codes(&findings)), (14, vec![]));
    assert_eq!(placed(&facts, 20, "NVIDIA", &mib(4864)).0, 14);
}

#[test]
fn an_invalid_layout_is_unknown() {
    let invalid = Given::default()
        .label("nvidia.com/mig.strategy", "single")
        .discovered("0", "0", "0")
        .gpus("0");
    let invalid = invalid.label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-INVALID");
    let without_replicas = Given::default().discovered("2", "0", "40960").gpus("2");
    for given in [invalid, without_replicas] {
        let (facts, findings) = given.facts();
        assert_eq!((facts.node.unknown.is_some(), codes(&findings)), (true, vec!["mig-invalid"]));
    }
}

#[test]
fn instances_that_are_unhealthy_are_not_taken_from_another_kind() {
    let given = mixed()
        .label("nvidia.com/gpu.replicas", "1")
        .gpus("1")
        .capacity("nvidia.com/mig-1g.5gb", "7");
    let (all, _) = given.clone().allocatable("nvidia.com/mig-1g.5gb", "0").facts();
    assert_eq!((all.node.missing_cards, all.node.unknown.clone()), (0, None));
    assert_eq!(placed(&all, 1, "nvidia.com/mig-1g.5gb", &Amount::Whole).0, 0);
    assert_eq!(placed(&all, 1, "NVIDIA", &Amount::Whole).0, 1);
    let (some, findings) = given.allocatable("nvidia.com/mig-1g.5gb", "6").facts();
    assert!(some.node.unknown.is_some(), "{findings:?}");
}

#[test]
fn an_instance_without_a_product_label_is_named_after_its_card() {
    for (card, model) in [
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("NVIDIA-A100-SXM4-40GB-SHARED", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
    ] {
        let given = mixed().label("nvidia.com/gpu.product", card).gpus("0");
        let (facts, _) = advertise(given, "nvidia.com/mig-1g.5gb", "7").facts();
        let models: Vec<_> =
            facts.node.devices.iter().filter_map(|one| one.model.as_deref()).collect();
        assert_eq!(models, [model; 7]);
    }
}

#[test]
fn a_stale_resource_is_not_advertised() {
    let given = advertise(mixed().gpus("0"), "nvidia.com/mig-1g.5gb", "7");
    let stale =
        given.capacity("nvidia.com/mig-3g.20gb", "2").allocatable("nvidia.com/mig-3g.20gb", "0");
    let (facts, findings) = stale.facts();
    assert_eq!((facts.advertised, codes(&findings)), (Some(7), vec!["mig-stale"]));
}
