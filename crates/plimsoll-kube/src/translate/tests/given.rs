//! HAMi's annotations on running pods, and what users write there.

use plimsoll_core::charge::Part;
use plimsoll_core::request::Role;

use super::*;

const KEY: &str = "hami.io/vgpu-devices-allocated";

fn node() -> String {
    registered("gpu", &[("GPU-a", 40_960), ("GPU-b", 40_960)])
}

fn given(name: &str, allocated: &str, spec: &str) -> String {
    bound(name, "gpu", &format!("annotations: {{{KEY}: \"{allocated}\"}}"), spec)
}

fn one(mib: u64) -> String {
    format!("containers: [{}]", gpumem("main", mib))
}

#[test]
fn a_pod_holds_what_hami_wrote_on_the_card_that_it_named() {
    let cluster = means(&(node() + &given("p", "GPU-b,NVIDIA,8000,30:;", &one(8000))));
    assert_eq!(charged(&cluster, "p"), (vec![1], 8000));
    let charge = &holding(&cluster, "p").charges[0];
    assert_eq!((charge.cores.0, charge.slots), (30, 1));
    assert_eq!(codes(&cluster), [""; 0]);
}

#[test]
fn an_annotation_raises_a_charge_and_never_lowers_it() {
    // Acceptance B14.
    for (written, held, found) in [
        ("GPU-b,NVIDIA,8000,0:;", (vec![1], 8000), None),
        ("GPU-b,NVIDIA,8001,0:;", (vec![1], 8001), Some("ledger-annotation-contradicts")),
        ("GPU-b,NVIDIA,16000,0:;", (vec![1], 16_000), Some("ledger-annotation-contradicts")),
        ("GPU-b,NVIDIA,1,0:;", (vec![1], 8000), Some("ledger-annotation-contradicts")),
        ("GPU-b,NVIDIA,-5000,0:;", (vec![0, 1], 8000), Some("allocation-unreadable")),
        ("GPU-b,NVIDIA:;", (vec![0, 1], 8000), Some("allocation-unreadable")),
        ("GPU-z,NVIDIA,8000,0:;", (vec![0, 1], 8000), Some("allocation-unknown-device")),
        ("", (vec![0, 1], 8000), Some("ledger-annotation-contradicts")),
    ] {
        let cluster = means(&(node() + &given("p", written, &one(8000))));
        assert_eq!(charged(&cluster, "p"), held, "{written}");
        assert_eq!(codes(&cluster), Vec::from_iter(found), "{written}");
    }
}

#[test]
fn what_hami_itself_makes_of_a_request_contradicts_nothing() {
    let npu = r#"[{"id":"npu-0","count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true}]"#;
    let npu = format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: gpu\n  annotations:\n    hami.io/node-register-Ascend910B3: '{npu}'\n"
    );
    let ascend = |mib| format!("huawei.com/Ascend910B3: 1, huawei.com/Ascend910B3-memory: {mib}");
    let half = "nvidia.com/gpumem-percentage: 50".to_owned();
    for (node, limits, written, found) in [
        (node(), half.clone(), "vgpu-devices-allocated: \"GPU-b,NVIDIA,20480,0:;\"", false),
        (node(), half, "vgpu-devices-allocated: \"GPU-b,NVIDIA,20481,0:;\"", true),
        (
            npu.clone(),
            ascend(10_000),
            "Ascend910B3-devices-allocated: \"npu-0,Ascend910B3,16384,5:;\"",
            false,
        ),
        (
            npu.clone(),
            ascend(10_000),
            "Ascend910B3-devices-allocated: \"npu-0,Ascend910B3,32768,5:;\"",
            true,
        ),
        // Larger than every template: the device goes whole.
        (
            npu,
            ascend(40_000),
            "Ascend910B3-devices-allocated: \"npu-0,Ascend910B3,65536,20:;\"",
            false,
        ),
    ] {
        let spec = format!("containers: [{{name: main, resources: {{limits: {{{limits}}}}}}}]");
        let cluster = means(
            &(node + &bound("p", "gpu", &format!("annotations: {{hami.io/{written}}}"), &spec)),
        );
        let expected = found.then_some("ledger-annotation-contradicts");
        assert_eq!(codes(&cluster), Vec::from_iter(expected), "{limits}: {written}");
    }
}

#[test]
fn an_annotation_about_another_node_is_not_believed() {
    let metadata =
        format!("annotations: {{{KEY}: \"GPU-b,NVIDIA,40000,0:;\", hami.io/vgpu-node: other}}");
    let cluster = means(&(node() + &bound("p", "gpu", &metadata, &one(8000))));
    assert_eq!(charged(&cluster, "p"), (vec![0, 1], 8000));
    assert!(message(&cluster, "ledger-annotation-contradicts").contains("\"other\""));
}

#[test]
fn annotations_of_a_pod_that_was_given_nothing_are_ignored() {
    let written = format!("annotations: {{{KEY}: \"GPU-b,NVIDIA,40000,0:;\"}}");
    let unbound = means(&(node() + &pod("p", &written, &one(8000))));
    assert_eq!((unbound.running.len(), unbound.pending.len()), (0, 1));
    assert_eq!(codes(&unbound), ["ledger-annotation-by-user"]);
    let no_device = means(&(node() + &bound("p", "gpu", &written, "containers: [{name: main}]")));
    assert_eq!(holding(&no_device, "p").charges, []);
    assert_eq!(codes(&no_device), ["ledger-annotation-by-user"]);
    // HAMi's resource names can be configured: under a name of its own, the annotation is all there
    // is.
    let own_name = "containers: [{name: main, resources: {limits: {example.com/gpu: 1}}}]";
    assert_eq!(
        charged(&means(&(node() + &bound("p", "gpu", &written, own_name))), "p"),
        (vec![1], 40_000)
    );
}

#[test]
fn a_whole_card_is_whole_whatever_the_annotation_says() {
    let plain = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]";
    let told = means(&(node() + &given("p", "GPU-a,NVIDIA,40960,100:;", plain)));
    assert_eq!(charged(&told, "p"), (vec![0], 40_960));
    assert_eq!(codes(&told), [""; 0]);
    let lowered = means(&(node() + &given("p", "GPU-a,NVIDIA,10,0:;", plain)));
    assert_eq!(charged(&lowered, "p"), (vec![0], 40_960));
    assert_eq!(holding(&lowered, "p").charges[0].cores.0, 100);
    assert_eq!(codes(&lowered), ["ledger-annotation-contradicts"]);
}

#[test]
fn containers_add_up_to_their_peak_as_table_a11_says() {
    let init = |name: &str, mib| gpumem(name, mib);
    let side =
        |mib| gpumem("side", mib).replacen("name: side", "name: side, restartPolicy: Always", 1);
    for (inits, apps, peak, slots) in [
        (vec![init("i", 500)], vec![gpumem("m", 100)], 500, 1),
        (vec![], vec![gpumem("m", 100), gpumem("n", 200)], 300, 2),
        (vec![init("i", 100)], vec![gpumem("m", 200), gpumem("n", 300)], 500, 2),
        (vec![init("i", 100), init("j", 200)], vec!["{name: m}".to_owned()], 200, 1),
        // Acceptance B9; the rule for sidecars is not in HAMi 2.10, which counts an app beside a
        // sidecar for less.
        (vec![side(20_000)], vec![gpumem("m", 20_000)], 40_000, 2),
        (vec![init("i", 30_000)], vec![gpumem("m", 20_000)], 30_000, 1),
    ] {
        let mib = |container: &String| {
            let text = container.rsplit("gpumem: ").next().unwrap_or_default();
            text.trim_end_matches('}').parse::<u64>().ok()
        };
        let device =
            |one: &String| mib(one).map_or(";".to_owned(), |mib| format!("GPU-a,NVIDIA,{mib},0:;"));
        let written: String = inits.iter().chain(&apps).map(device).collect();
        let spec =
            format!("initContainers: [{}], containers: [{}]", inits.join(", "), apps.join(", "));
        let cluster = means(&(node() + &given("p", &written, &spec)));
        assert_eq!(charged(&cluster, "p"), (vec![0], peak), "{spec}");
        assert_eq!(holding(&cluster, "p").charges[0].slots, slots, "{spec}");
        assert_eq!(codes(&cluster), [""; 0], "{spec}");
    }
}

#[test]
fn each_container_has_its_part_by_its_name() {
    let spec = format!(
        "initContainers: [{{name: wait}}, {}], containers: [{}]",
        gpumem("load", 30_000),
        gpumem("main", 20_000)
    );
    let parts = |written: &str| {
        let cluster = means(&(node() + &given("p", written, &spec)));
        let part = |part: &Part| (part.container.to_string(), part.role, part.bytes.map(mib_of));
        (
            charged(&cluster, "p"),
            holding(&cluster, "p").charges[0].parts.iter().map(part).collect::<Vec<_>>(),
        )
    };
    let both = vec![
        ("load".to_owned(), Role::Init, Some(30_000)),
        ("main".to_owned(), Role::App, Some(20_000)),
    ];
    let padded = parts(";GPU-a,NVIDIA,30000,0:;GPU-a,NVIDIA,20000,0:;");
    assert_eq!(padded, ((vec![0], 30_000), both));
}

#[test]
fn a_list_of_the_apps_alone_is_read_as_version_2_8_wrote_it() {
    let spec = format!(
        "initContainers: [{{name: wait}}, {{name: more}}], containers: [{}]",
        gpumem("main", 30_000)
    );
    for written in ["GPU-b,NVIDIA,30000,0:;", ";;GPU-b,NVIDIA,30000,0:;"] {
        let cluster = means(&(node() + &given("p", written, &spec)));
        assert_eq!(charged(&cluster, "p"), (vec![1], 30_000), "{written}");
        assert_eq!(&*holding(&cluster, "p").charges[0].parts[0].container, "main", "{written}");
        assert_eq!(codes(&cluster), [""; 0], "{written}");
    }
}

#[test]
fn two_devices_of_one_container_are_two_charges() {
    let spec = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 1000}}}]";
    let cluster =
        means(&(node() + &given("p", "GPU-a,NVIDIA,1000,30:GPU-b,NVIDIA,1000,30:;", spec)));
    let on: Vec<(&[u16], u64)> =
        holding(&cluster, "p").charges.iter().map(|one| (&*one.on, mib(one))).collect();
    assert_eq!(on, [(&[0][..], 1000), (&[1][..], 1000)]);
}

#[test]
fn a_second_pod_is_rejected_after_the_init_container_ended() {
    // Acceptance B9, with the numbers of 40,960.
    let spec =
        format!("initContainers: [{{name: wait}}], containers: [{}]", gpumem("main", 30_000));
    let first = given("first", ";GPU-a,NVIDIA,30000,0:;", &spec);
    let second = pod("second", "", &one(30_000));
    let text = registered("gpu", &[("GPU-a", 40_960)]) + &first + &second;
    assert_eq!(placed(&means(&text)).0, 0);
}

#[test]
fn a_mig_instance_is_a_slice_of_its_card() {
    let register = r#"[{"id":"GPU-a","count":7,"devmem":40960,"devcore":100,"type":"NVIDIA-A100","health":true,"mode":"mig","migProfiles":[{"name":"2g.10gb","memoryMB":9856,"core":28,"sliceCount":2,"placements":[{"start":0,"size":2},{"start":2,"size":2}]}]}]"#;
    let node = format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: gpu\n  annotations:\n    hami.io/node-nvidia-register: '{register}'\n"
    );
    let mig = r#"[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb","placement":{"start":2,"size":2}}]"#;
    let text = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    {KEY}: 'GPU-a,NVIDIA,9856,28:;'\n    \
         hami.io/vgpu-mig-allocations: '{mig}'\nspec: {{nodeName: gpu, containers: [{}]}}\n",
        gpumem("main", 8000)
    );
    let cluster = means(&(node.clone() + &text));
    assert_eq!(charged(&cluster, "p"), (vec![0], 9856));
    let slice = holding(&cluster, "p").charges[0].slice.clone().expect("a slice");
    assert_eq!((&*slice.profile, slice.span.start, slice.span.size), ("2g.10gb", 2, 2));
    let broken = means(&(node + &text.replace("\"profile\"", "\"prof\"")));
    assert_eq!(charged(&broken, "p"), (vec![0], 9856));
    assert_eq!(codes(&broken), ["allocation-unreadable"]);
}
