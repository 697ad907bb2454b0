//! Edges of KAI, MIG and HAMi: leftovers, positions, pools and shares.

use super::*;

fn mig(capacity: &str, allocatable: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels: {{nvidia.com/mig.strategy: mixed, \
         nvidia.com/gpu.count: \"2\", nvidia.com/gpu.replicas: \"1\", nvidia.com/gpu.memory: \"40960\"}}\n\
         status: {{capacity: {{{capacity}}}, allocatable: {{{allocatable}}}}}\n"
    )
}

#[test]
fn a_stale_mig_resource_closes_only_itself() {
    let stale = mig(
        "nvidia.com/gpu: 2, nvidia.com/mig-1g.5gb: 1",
        "nvidia.com/gpu: 2, nvidia.com/mig-1g.5gb: 0",
    );
    let cluster = means(&(stale + &pod_with("nvidia.com/gpu: 2")));
    assert_eq!(codes(&cluster), ["mig-stale"]);
    assert_eq!(cluster.nodes[0].node.devices.len(), 2);
    assert_eq!(placed(&cluster).0, 1, "the whole cards are usable");
}

#[test]
fn a_fraction_does_not_go_on_a_mig_node() {
    let pod = pod("p", "annotations: {gpu-memory: \"1000\"}", "containers: [{name: main}]");
    let mixed = mig("nvidia.com/gpu: 2", "nvidia.com/gpu: 2");
    assert_eq!(placed(&means(&(mixed + &pod))).0, 0);
    let single = labelled("n", 7, 4864, 1).replace(
        "  labels:\n",
        "  labels:\n    nvidia.com/mig.strategy: single\n    nvidia.com/gpu.product: NVIDIA-A100-MIG-1g.5gb\n",
    );
    let (count, reasons) = placed(&means(&(single.clone() + &pod)));
    assert_eq!(count, 0, "{reasons:?}");
    let whole = single.replace("-MIG-1g.5gb", "");
    assert_eq!(placed(&means(&(whole + &pod))).0, 1, "the strategy alone cuts no card");
}

#[test]
fn an_instance_without_a_product_label_is_not_shared_because_its_card_is() {
    let node = "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels: {nvidia.com/mig.strategy: mixed, \
                nvidia.com/gpu.count: \"1\", nvidia.com/gpu.product: NVIDIA-A100-SHARED, \
                nvidia.com/mig-1g.5gb.count: \"2\", nvidia.com/mig-1g.5gb.memory: \"4864\"}\n\
                status: {capacity: {nvidia.com/mig-1g.5gb: 2}, allocatable: {nvidia.com/mig-1g.5gb: 2}}\n";
    let cluster = means(node);
    let device = &cluster.nodes[0].node.devices[0];
    assert_eq!(device.sharing, plimsoll_core::device::Sharing::Exclusive);
    assert_eq!(device.model.as_deref(), Some("NVIDIA-A100-MIG-1g.5gb"));
}

#[test]
fn a_mig_instance_can_be_asked_by_annotation() {
    let node = "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels: {nvidia.com/mig.strategy: mixed, \
                nvidia.com/gpu.count: \"1\", nvidia.com/mig-1g.5gb.count: \"2\", nvidia.com/mig-1g.5gb.memory: \"4864\"}\n\
                status: {capacity: {nvidia.com/mig-1g.5gb: 2}, allocatable: {nvidia.com/mig-1g.5gb: 2}}\n";
    let asks = "annotations: {nvidia.com/mig-1g.5gb: \"1\"}";
    let running = bound("a", "n", asks, "containers: [{name: main}]");
    let cluster =
        means(&(node.to_owned() + &running + &pod("p", asks, "containers: [{name: main}]")));
    assert_eq!(charged(&cluster, "a"), (vec![0], 4864));
    assert_eq!(placed(&cluster).0, 1);
    let invalid = means(&pod(
        "p",
        "annotations: {nvidia.com/mig-1g.5gb: \"x\"}",
        "containers: [{name: main}]",
    ));
    assert!(misuse(&invalid).problem.contains("nvidia.com/mig-1g.5gb"));
}

#[test]
fn a_pod_of_kai_without_a_pool_stays_off_the_nodes_of_pools() {
    let node = |pool: &str| {
        labelled("n", 1, 40960, 1).replace("  labels:\n", &format!("  labels:\n{pool}"))
    };
    let pooled = node("    kai.scheduler/node-pool: a\n");
    let spec = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]";
    for (metadata, scheduler, goes) in [
        ("", "schedulerName: kai-scheduler, ", 0),
        ("", "schedulerName: runai-scheduler, ", 0),
        ("labels: {kai.scheduler/queue: q}", "", 0),
        ("labels: {kai.scheduler/node-pool: a}", "schedulerName: kai-scheduler, ", 1),
        ("", "", 1),
    ] {
        let pod = pod("p", metadata, &format!("{scheduler}{spec}"));
        assert_eq!(placed(&means(&(pooled.clone() + &pod))).0, goes, "{metadata}{scheduler}");
        let on_default = usize::from(!metadata.contains("node-pool"));
        assert_eq!(placed(&means(&(node("") + &pod))).0, on_default, "{metadata}{scheduler}");
    }
}

#[test]
fn allocations_that_are_shifted_belong_to_the_containers_that_ask_in_order() {
    let node = registered("n", &[("GPU-a", 40960), ("GPU-b", 40960)]);
    let shifted = "GPU-a,NVIDIA,1000,0:;GPU-b,NVIDIA,2000,0:;";
    let meta = format!("annotations: {{hami.io/vgpu-devices-allocated: \"{shifted}\"}}");
    let spec =
        format!("containers: [{{name: log}}, {}, {}]", gpumem("one", 1000), gpumem("two", 2000));
    let cluster = means(&(node + &bound("p", "n", &meta, &spec)));
    let held: Vec<(Vec<u16>, Option<u64>)> = holding(&cluster, "p")
        .charges
        .iter()
        .map(|charge| (charge.on.clone(), charge.bytes().map(|bytes| bytes.get() >> 20)))
        .collect();
    assert_eq!(held, [(vec![0], Some(1000)), (vec![1], Some(2000))]);
    assert_eq!(codes(&cluster), [""; 0]);
}

#[test]
fn an_allocation_out_of_position_is_counted_once() {
    let spec = format!(
        "initContainers: [{{name: init}}], containers: [{}, {{name: side}}]",
        gpumem("main", 8000)
    );
    let metadata = "annotations: {hami.io/vgpu-devices-allocated: \"GPU-b,NVIDIA,8000,0:;;;\"}";
    let text =
        registered("n", &[("GPU-a", 40960), ("GPU-b", 40960)]) + &bound("p", "n", metadata, &spec);
    assert_eq!(charged(&means(&text), "p"), (vec![1], 8000));
}

#[test]
fn registers_that_are_not_read_are_named() {
    for key in [
        "hami.io/node-register-Ascend910B",
        "hami.io/node-mlu-register",
        "volcano.sh/node-vgpu-register",
        "4pd.io/node-nvidia-register",
    ] {
        let node = format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n, annotations: {{{key}: \"GPU-a,10,1,T4,true:\"}}}}\n"
        );
        let cluster = means(&node);
        assert_eq!(codes(&cluster), ["register-unread"], "{key}");
        assert!(message(&cluster, "register-unread").contains(key));
    }
}

#[test]
fn scaled_compute_is_remarked() {
    let node = registered("n", &[("GPU-a", 40960)]).replace("\"devcore\":100", "\"devcore\":300");
    let cluster = means(&node);
    assert_eq!(codes(&cluster), ["cores-scaled"]);
    assert!(message(&cluster, "cores-scaled").contains("300"));
}

#[test]
fn a_running_pod_whose_node_lists_no_such_device_is_reported() {
    let node = registered("n", &[("GPU-a", 40960)]);
    for (resource, found) in [
        ("nvidia.com/mig-3g.20gb", vec!["device-kind-missing"]),
        ("amd.com/gpu", vec!["device-kind-missing"]),
        ("nvidia.com/gpu", vec![]),
    ] {
        let spec =
            format!("containers: [{{name: main, resources: {{limits: {{{resource}: 1}}}}}}]");
        let cluster = means(&(node.clone() + &bound("p", "n", "", &spec)));
        assert_eq!(codes(&cluster), found, "{resource}");
        if !found.is_empty() {
            assert!(message(&cluster, "device-kind-missing").contains(resource), "{resource}");
        }
    }
    let unknown = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n\
                   status: {allocatable: {volcano.sh/vgpu-number: 1}}\n";
    let pod =
        bound("p", "n", "", "containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]");
    let cluster = means(&(unknown.to_owned() + &pod));
    assert!(!codes(&cluster).contains(&"device-kind-missing"), "{:?}", codes(&cluster));
}

#[test]
fn a_pod_that_accepts_some_modes_only_goes_to_no_card_without_one() {
    let discovered = labelled("n", 1, 40960, 1);
    let register = registered("n", &[("GPU-a", 40960)]).replace(",\"mode\":\"hami-core\"", "");
    assert!(!register.contains("mode"), "{register}");
    for (mode, on_label, on_register) in
        [("mig", 0, 0), ("hami-core", 0, 1), ("hami-core,mig", 0, 1)]
    {
        let wish = format!("annotations: {{nvidia.com/vgpu-mode: \"{mode}\"}}");
        let pod = pod("p", &wish, &format!("containers: [{}]", gpumem("main", 1000)));
        assert_eq!(placed(&means(&(discovered.clone() + &pod))).0, on_label, "{mode}");
        assert_eq!(placed(&means(&(register.clone() + &pod))).0, on_register, "{mode}");
    }
}

#[test]
fn a_container_gets_several_slices_of_one_card_that_hami_partitions() {
    let profile = r#"{"name":"2g.10gb","memoryMB":9856,"core":28,"sliceCount":2,"placements":[{"start":0,"size":2},{"start":2,"size":2},{"start":4,"size":2}]}"#;
    let cut = format!(r#""mode":"mig","migProfiles":[{profile}]"#);
    let node = registered("n", &[("GPU-a", 40960)]).replace(r#""mode":"hami-core""#, &cut);
    for (devices, fits) in [(2, 1), (3, 1), (4, 0)] {
        let asks = pod_with(&format!("nvidia.com/gpu: {devices}, nvidia.com/gpumem: 8000"));
        assert_eq!(placed(&means(&(node.clone() + &asks))).0, fits, "{devices} devices");
    }
    let asks = pod_with("nvidia.com/gpu: 2, nvidia.com/gpumem: 8000");
    let whole = registered("n", &[("GPU-a", 40960)]);
    assert_eq!(
        placed(&means(&(whole + &asks))).0,
        0,
        "a card that is not partitioned is one device"
    );
}
