//! Claims of dynamic resource allocation hold their devices.

use plimsoll_core::charge::Booked;

use super::*;

/// A slice with these devices in flow style, in a version of the API.
fn slice(version: &str, node: &str, devices: &str) -> String {
    format!(
        "---\napiVersion: resource.k8s.io/{version}\nkind: ResourceSlice\nmetadata: {{name: {node}-s}}\n\
         spec: {{driver: gpu.nvidia.com, nodeName: {node}, pool: {{name: {node}, generation: 1}}, devices: [{devices}]}}\n"
    )
}

fn gpu(name: &str, uuid: &str) -> String {
    format!(
        "{{name: {name}, attributes: {{uuid: {{string: {uuid}}}}}, capacity: {{memory: {{value: 40Gi}}}}}}"
    )
}

/// A claim that is allocated on node `n`.
fn claim(name: &str, device: &str, rest: &str) -> String {
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}}}\nstatus:\n  allocation:\n    \
         nodeSelector: {{nodeSelectorTerms: [{{matchFields: [{{key: metadata.name, operator: In, values: [n]}}]}}]}}\n    \
         devices: {{results: [{{driver: gpu.nvidia.com, pool: n, device: {device}{rest}}}]}}\n"
    )
}

fn bare(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n")
}

const USES: &str = "containers: [{name: main, resources: {claims: [{name: g}]}}], \
                    resourceClaims: [{name: g, resourceClaimName: c}]";

#[test]
fn an_allocated_claim_holds_its_device_in_every_version() {
    let nested = "{name: gpu-0, basic: {attributes: {uuid: {string: GPU-a}}, capacity: {memory: {value: 40Gi}}}}";
    for (version, device) in [
        ("v1", gpu("gpu-0", "GPU-a")),
        ("v1beta2", gpu("gpu-0", "GPU-a")),
        ("v1beta1", nested.to_owned()),
    ] {
        let cluster =
            means(&(bare("n") + &slice(version, "n", &device) + &claim("c", "gpu-0", "")));
        assert_eq!(charged(&cluster, "resourceclaims/c"), (vec![0], 40960), "{version}");
        assert_eq!(codes(&cluster), [""; 0]);
        let device = &cluster.nodes[0].node.devices[0];
        assert_eq!((&*device.kind, cluster.nodes[0].capacity_source), ("gpu.nvidia.com", "slice"));
    }
}

#[test]
fn a_claim_of_a_part_holds_its_consumed_capacity_and_two_share_a_card() {
    let text = bare("n")
        + &slice("v1", "n", &gpu("gpu-0", "GPU-a"))
        + &claim("c", "gpu-0", ", consumedCapacity: {memory: 10Gi}")
        + &claim("d", "gpu-0", ", consumedCapacity: {memory: 8Gi}")
        + &claim("watch", "gpu-0", ", adminAccess: true");
    let cluster = means(&text);
    assert_eq!(charged(&cluster, "resourceclaims/c"), (vec![0], 10240));
    assert_eq!(charged(&cluster, "resourceclaims/d"), (vec![0], 8192));
    assert_eq!(cluster.running.len(), 2, "monitoring holds nothing");
}

#[test]
fn a_device_with_the_uuid_of_a_registered_card_is_that_card() {
    let text = registered("n", &[("GPU-a", 40960), ("GPU-b", 40960)])
        + &slice("v1", "n", &gpu("gpu-1", "GPU-b"))
        + &claim("c", "gpu-1", "")
        + &pod("one", "", &format!("containers: [{}]", gpumem("main", 30000)))
        + &pod("two", "", &format!("containers: [{}]", gpumem("main", 30000)));
    let cluster = means(&text);
    assert_eq!(cluster.nodes[0].node.devices.len(), 2);
    assert_eq!(charged(&cluster, "resourceclaims/c"), (vec![1], 40960));
    assert_eq!(placed(&cluster).0, 1, "the claim's card is full");
}

#[test]
fn a_slice_of_a_card_is_charged_to_the_card() {
    let mig = "{name: mig-0, attributes: {uuid: {string: MIG-1}, parentUUID: {string: GPU-a}}, capacity: {memory: {value: 10Gi}}}";
    let devices = format!("{}, {mig}", gpu("gpu-0", "GPU-a"));
    let cluster = means(&(bare("n") + &slice("v1", "n", &devices) + &claim("c", "mig-0", "")));
    assert_eq!(cluster.nodes[0].node.devices.len(), 1);
    assert_eq!(charged(&cluster, "resourceclaims/c"), (vec![0], 10240));
}

#[test]
fn cards_of_two_plugins_without_a_common_identity_are_closed() {
    let text = labelled("n", 2, 40960, 1)
        + &slice("v1", "n", &gpu("gpu-0", "GPU-a"))
        + &claim("c", "gpu-0", "")
        + &pod_with("nvidia.com/gpu: 1");
    let cluster = means(&text);
    assert_eq!(codes(&cluster), ["cards-advertised-twice", "claim-unknown-device"]);
    assert_eq!(placed(&cluster).0, 0);
    assert_eq!(holding(&cluster, "resourceclaims/c").charges[0].on, [0, 1]);
}

#[test]
fn labels_without_a_plugin_describe_the_published_cards() {
    let labels = labelled("n", 2, 40960, 1).replace("{nvidia.com/gpu: 2}", "{}");
    let devices = format!("{}, {}", gpu("gpu-0", "GPU-a"), gpu("gpu-1", "GPU-b"));
    let cluster = means(&(labels + &slice("v1", "n", &devices) + &claim("c", "gpu-1", "")));
    assert_eq!(cluster.nodes[0].node.devices.len(), 2);
    assert_eq!(charged(&cluster, "resourceclaims/c"), (vec![1], 40960));
    assert_eq!(codes(&cluster), [""; 0]);
}

#[test]
fn a_pod_waits_for_a_claim_without_devices_and_goes_where_its_claim_is() {
    let waiting = "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\n";
    let cluster = means(&(bare("n") + waiting + &pod("p", "", USES)));
    assert_eq!(codes(&cluster), ["claim-unallocated"]);
    assert!(misuse(&cluster).problem.contains("claim default/c, which has no devices yet"));
    assert!(matches!(only(&cluster).request.spec.asks, Asks::Waiting(_)));

    let unread = means(&(bare("n") + &pod("p", "", USES)));
    assert!(misuse(&unread).problem.contains("default/c was not read"));

    let text = bare("a") + &bare("n") + &slice("v1", "n", &gpu("gpu-0", "GPU-a"));
    let cluster = means(&(text + &claim("c", "gpu-0", "") + &pod("p", "", USES)));
    let decision = decide(&ledger(&cluster), &Policy::pack(), &only(&cluster).request);
    let chosen = decision.chosen().expect("its claim is allocated");
    assert_eq!(&*chosen.placement.node, "n");
}

#[test]
fn a_running_pod_whose_claim_was_not_read_is_undeclared_on_every_card() {
    let cluster = means(
        &(registered("n", &[("GPU-a", 40960), ("GPU-b", 40960)]) + &bound("p", "n", "", USES)),
    );
    let [charge] = &holding(&cluster, "p").charges[..] else { panic!("one charge") };
    assert_eq!((charge.on.as_slice(), charge.amount), (&[0, 1][..], Booked::Undeclared));
    assert_eq!(codes(&cluster), ["claim-unread"]);
}

#[test]
fn a_claim_that_serves_an_extended_resource_holds_it_instead_of_the_pod() {
    let status = "status: {extendedResourceClaimStatus: {resourceClaimName: c, requestMappings: \
                  [{containerName: main, resourceName: nvidia.com/gpu, requestName: r}]}}\n";
    let limits = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]";
    let text = registered("n", &[("GPU-a", 40960)])
        + &slice("v1", "n", &gpu("gpu-0", "GPU-a"))
        + &claim("c", "gpu-0", "")
        + &bound("p", "n", "", limits)
        + status;
    let cluster = means(&text);
    assert_eq!(holding(&cluster, "p").charges, []);
    assert_eq!(charged(&cluster, "resourceclaims/c"), (vec![0], 40960));
}

#[test]
fn a_claim_on_a_device_of_no_slice_counts_on_each_card_it_can_be() {
    let cluster = means(&(registered("n", &[("GPU-a", 40960)]) + &claim("c", "gpu-7", "")));
    let [charge] = &holding(&cluster, "resourceclaims/c").charges[..] else { panic!("one charge") };
    assert_eq!((charge.on.as_slice(), charge.amount), (&[0][..], Booked::Undeclared));
    assert_eq!(codes(&cluster), ["claim-unknown-device"]);
    let lost = means(&claim("c", "gpu-7", ""));
    assert_eq!(codes(&lost), ["claim-node-unknown"]);
}

#[test]
fn a_network_card_is_no_accelerator_and_its_claim_holds_none() {
    let text = bare("n") + &slice("v1", "n", "{name: nic-0}") + &claim("c", "nic-0", "");
    let cluster = means(&text.replace("gpu.nvidia.com", "net.example.com"));
    assert_eq!((cluster.running.len(), cluster.nodes[0].node.devices.len()), (0, 0));
}

#[test]
fn a_class_that_serves_a_resource_is_named_as_not_considered() {
    let class = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: k}\n\
                 spec: {extendedResourceName: nvidia.com/gpu}\n";
    let cluster = means(&(bare("n") + class + &pod_with("nvidia.com/gpu: 1")));
    let named: Vec<&str> = only(&cluster).not_considered.iter().map(|one| &**one).collect();
    assert_eq!(named, ["claims of device class k for nvidia.com/gpu"]);
}

#[test]
fn only_the_newest_generation_of_a_pool_counts() {
    let newer = slice("v1", "n", &gpu("gpu-0", "GPU-b"))
        .replace("n-s", "n-t")
        .replace("generation: 1", "generation: 2");
    let cluster = means(&(bare("n") + &slice("v1", "n", &gpu("gpu-0", "GPU-a")) + &newer));
    let labels: Vec<String> = (0..cluster.nodes[0].node.devices.len())
        .map(|at| cluster.nodes[0].node.device_label(at))
        .collect();
    assert_eq!(labels, ["GPU-b"]);
}

#[test]
fn a_running_pod_with_an_unknown_device_resource_is_an_undeclared_holder() {
    let node = registered("n", &[("GPU-a", 40960), ("GPU-b", 40960)]);
    for (resource, on) in [
        ("volcano.sh/vgpu-number", vec![0, 1]),
        ("aliyun.com/gpu-mem", vec![0, 1]),
        ("nvidia.com/gpumemory", vec![0, 1]),
        ("example.com/npu", vec![0, 1]),
        ("rdma/hca", vec![]),
    ] {
        let spec =
            format!("containers: [{{name: main, resources: {{limits: {{{resource}: 1}}}}}}]");
        let cluster = means(&(node.clone() + &bound("p", "n", "", &spec)));
        let charges = &holding(&cluster, "p").charges;
        assert_eq!(
            charges.iter().flat_map(|one| one.on.clone()).collect::<Vec<_>>(),
            on,
            "{resource}"
        );
        assert!(charges.iter().all(|one| one.amount == Booked::Undeclared));
        let told = codes(&cluster).contains(&"device-resource-unknown");
        assert_eq!(told, !on.is_empty(), "{resource}");
    }
}

#[test]
fn a_second_plugin_on_registered_cards_closes_them() {
    for resource in [
        "volcano.sh/vgpu-number",
        "volcano.sh/vgpu-memory",
        "aliyun.com/gpu-mem",
        "koordinator.sh/gpu-core",
        "nvidia.com/vgpu",
    ] {
        let advertised = |amount: u8| {
            let amounts = format!("{{nvidia.com/gpu: 10, {resource}: {amount}}}");
            registered("n", &[("GPU-a", 40960)]) + &format!("status: {{allocatable: {amounts}}}\n")
        };
        let cluster = means(&(advertised(10) + &pod_with("nvidia.com/gpu: 1")));
        assert_eq!(codes(&cluster), ["cards-advertised-twice"], "{resource}");
        assert_eq!(placed(&cluster).0, 0, "{resource}");
        let none = means(&(advertised(0) + &pod_with("nvidia.com/gpu: 1")));
        assert_eq!((codes(&none), placed(&none).0), (vec![], 1), "{resource}");
    }
}

#[test]
fn a_claimed_device_that_its_driver_lists_no_more_counts_on_the_node_of_its_pool() {
    let claim = claim("c", "gpu-7", "");
    let unselected: Vec<&str> =
        claim.lines().filter(|line| !line.contains("nodeSelector")).collect();
    let text = registered("n", &[("GPU-a", 40960)])
        + &slice("v1", "n", &gpu("gpu-0", "GPU-a"))
        + &unselected.join("\n");
    let cluster = means(&text);
    let [charge] = &holding(&cluster, "resourceclaims/c").charges[..] else { panic!("one charge") };
    assert_eq!((charge.on.as_slice(), charge.amount), (&[0][..], Booked::Undeclared));
    assert_eq!(codes(&cluster), ["claim-unknown-device"]);
}
