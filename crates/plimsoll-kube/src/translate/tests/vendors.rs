//! Acceptance B17: other vendors, by their own units and rules.

use plimsoll_core::request::{Amount, Compute};
use plimsoll_core::units::Cores;

use super::*;

#[test]
fn every_vendor_is_asked_in_its_own_unit() {
    let bytes = |mib| Amount::bytes(Bytes::mib(mib));
    for (limits, kind, count, amount, compute) in [
        (
            "huawei.com/Ascend910B3: 1, huawei.com/Ascend910B3-memory: 10000",
            "Ascend910B3",
            1,
            bytes(16_384),
            Compute::Any,
        ),
        ("huawei.com/Ascend910B3: 1", "Ascend910B3", 1, Amount::Whole, Compute::Any),
        // Larger than every template: a whole device, which must be that large all the same (B6).
        (
            "huawei.com/Ascend910B3: 1, huawei.com/Ascend910B3-memory: 40000",
            "Ascend910B3",
            1,
            bytes(40_000),
            Compute::All,
        ),
        (
            "cambricon.com/vmlu: 1, cambricon.com/mlu.smlu.vmemory: 4",
            "MLU",
            1,
            bytes(1024),
            Compute::Any,
        ),
        (
            "hygon.com/dcunum: 1, hygon.com/dcumem: 2048, hygon.com/dcucores: 60",
            "DCU",
            1,
            bytes(2048),
            Compute::Percent(60),
        ),
        (
            "amd.com/gpu: 1, amd.com/gpumem: 2048, amd.com/gpucores: 25",
            "AMD",
            1,
            bytes(2048),
            Compute::Percent(25),
        ),
        (
            "iluvatar.ai/MR-V100-vgpu: 1, iluvatar.ai/MR-V100.vMem: 4",
            "MR-V100",
            1,
            bytes(1024),
            Compute::Any,
        ),
        (
            "mthreads.com/vgpu: 2, mthreads.com/sgpu-memory: 64, mthreads.com/sgpu-core: 16",
            "Mthreads",
            2,
            bytes(16_384),
            Compute::Units(Cores(8)),
        ),
        ("metax-tech.com/gpu: 2", "Metax-GPU", 2, Amount::Whole, Compute::Any),
        (
            "kunlunxin.com/vxpu: 1, kunlunxin.com/vxpu-memory: 20000",
            "XPU",
            1,
            bytes(24_576),
            Compute::Any,
        ),
        ("aws.amazon.com/neuron: 2", "AWSNeuron", 2, Amount::Whole, Compute::Any),
        // Cores alone: two of them are a device, which is taken whole because its memory is not
        // known.
        ("aws.amazon.com/neuroncore: 3", "AWSNeuron", 2, Amount::Whole, Compute::Units(Cores(3))),
        ("vastaitech.com/va: 1", "Vastai", 1, Amount::Whole, Compute::Any),
    ] {
        let need = need(limits);
        assert_eq!((&*need.kind, need.count.get()), (kind, count), "{limits}");
        assert_eq!((&need.amount, need.compute), (&amount, compute), "{limits}");
    }
}

#[test]
fn a_vendor_that_says_nothing_of_devices_is_asked_how_many() {
    let cluster = means(&pod_with("hygon.com/dcumem: 4096"));
    let fields: Vec<&str> = misuse(&cluster).fields.iter().map(|field| &**field).collect();
    assert_eq!(
        fields,
        [
            "container \"main\": resources.limits[\"hygon.com/dcumem\"]",
            "container \"main\": resources.limits[\"hygon.com/dcunum\"]"
        ]
    );
}

#[test]
fn a_dcu_short_of_memory_says_so() {
    let node = "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: dcu\n  annotations:\n    \
                hami.io/node-dcu-register: 'test-0,1,1024,100,DCU,0,true,0,test:'\n";
    let text = node.to_owned() + &pod_with("hygon.com/dcunum: 1, hygon.com/dcumem: 2048");
    let (placed, rejected) = placed(&means(&text));
    assert_eq!(placed, 0);
    assert!(
        rejected[0].contains("2048 MiB") && rejected[0].contains("1024 MiB"),
        "{}",
        rejected[0]
    );
}

#[test]
fn what_an_ascend_pod_holds_is_its_template() {
    let register = r#"[{"id":"npu-0","index":0,"count":4,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true}]"#;
    let node = format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: npu\n  annotations:\n    hami.io/node-register-Ascend910B3: '{register}'\n"
    );
    let limits = "containers: [{name: main, resources: {limits: {huawei.com/Ascend910B3: 1, huawei.com/Ascend910B3-memory: 10000}}}]";
    let annotated = bound(
        "told",
        "npu",
        "annotations: {hami.io/Ascend910B3-devices-allocated: \"npu-0,Ascend910B3,16384,5:;\"}",
        limits,
    );
    let cluster = means(&(node + &annotated + &bound("untold", "npu", "", limits)));
    assert_eq!(charged(&cluster, "told"), (vec![0], 16_384));
    assert_eq!(charged(&cluster, "untold"), (vec![0], 16_384));
    assert_eq!(codes(&cluster), [""; 0]);
}

/// A node with one Enflame device of six slices, cut by these profiles.
fn enflame() -> String {
    let capacity = r#"{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0","3g.20gb":"1","6g.40gb":"2"}}"#;
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: gcu\n  annotations:\n    enflame.com/gcu-drs-capacity: '{capacity}'\n\
         status: {{capacity: {{enflame.com/drs-gcu: 6}}, allocatable: {{enflame.com/drs-gcu: 6}}}}\n"
    )
}

#[test]
fn slices_of_enflame_are_charged_by_their_profile() {
    let slices = |number: u64| format!("enflame.com/drs-gcu: {number}");
    for (limits, number) in [
        (slices(1), 6),
        (slices(3), 2),
        (slices(6), 1),
        (slices(2), 0),
        ("enflame.com/gcu-memory: 20480".to_owned(), 2),
        ("enflame.com/gcu-memory: 5000".to_owned(), 6),
    ] {
        let spec = format!("containers: [{{name: main, resources: {{limits: {{{limits}}}}}}}]");
        let pods: String = (0..8).map(|at| pod(&format!("p{at}"), "", &spec)).collect();
        assert_eq!(placed(&means(&(enflame() + &pods))).0, number, "{limits}");
    }
    let running = |name: &str, number: u64| {
        let containers = format!(
            "containers: [{{name: main, resources: {{limits: {{enflame.com/drs-gcu: {number}}}}}}}]"
        );
        bound(name, "gcu", "", &containers)
    };
    let cluster = means(&(enflame() + &running("one", 1) + &running("three", 3)));
    assert_eq!(charged(&cluster, "one"), (vec![0], 6 * 1024));
    assert_eq!(charged(&cluster, "three"), (vec![0], 20 * 1024));
}

#[test]
fn an_ascend_pod_that_accepts_only_soft_splits_is_charged_what_it_asks() {
    let register = r#"[{"id":"npu-0","index":0,"count":8,"devmem":65536,"devcore":20,"type":"Ascend910B3","health":true}]"#;
    let node = |annotation: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: npu\n  annotations:\n    hami.io/node-register-Ascend910B3: '{register}'\n    \
             {annotation}\n"
        )
    };
    let soft = "annotations: {huawei.com/vnpu-mode: hami-core}";
    let pods = |metadata: &str| -> String {
        let limits = "huawei.com/Ascend910B3: 1, huawei.com/Ascend910B3-memory: 10000";
        let spec = format!("containers: [{{name: main, resources: {{limits: {{{limits}}}}}}}]");
        (0..8).map(|at| pod(&format!("p{at}"), metadata, &spec)).collect()
    };
    let split = "hami-vnpu-core: \"true\"";
    assert_eq!(placed(&means(&(node(split) + &pods(soft)))).0, 6, "six times 10000 MiB");
    assert_eq!(placed(&means(&(node(split) + &pods("")))).0, 4, "four templates of 16384 MiB");
    assert_eq!(placed(&means(&(node("") + &pods(soft)))).0, 0, "the node has templates only");
}

#[test]
fn a_number_of_devices_that_hami_never_allocates_is_rejected_with_the_rule() {
    for (resource, allowed, rejected, rule) in [
        ("kunlunxin.com/xpu", vec![1, 2, 4, 8], vec![3, 5, 6, 7, 9], "1, 2, 4 or 8"),
        ("kunlunxin.com/vxpu", vec![1, 4], vec![3], "1, 2, 4 or 8"),
        ("huawei.com/Ascend910C", vec![1, 2, 8], vec![3, 7], "1 or even"),
        ("huawei.com/Ascend910B3", vec![1, 2, 3], vec![], ""),
    ] {
        for number in allowed {
            let cluster = means(&pod_with(&format!("{resource}: {number}")));
            let asks = &only(&cluster).request.spec.asks;
            assert!(matches!(asks, Asks::Shapes(_)), "{resource}: {number}");
        }
        for number in rejected {
            let cluster = means(&pod_with(&format!("{resource}: {number}")));
            let problem = &misuse(&cluster).problem;
            assert!(problem.contains(resource) && problem.contains(rule), "{problem}");
        }
    }
}
