//! Rows of the test tables of HAMi (4707fb02c91c) and KAI (72de64fc) that are answered differently
//! here, each by a minimal cluster of the same property, and the reason of the difference.

use super::*;

/// A node with these declared devices, which the scheduler chooses.
fn declared(devices: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  annotations:\n    \
         plimsoll.dev/devices: '[{devices}]'\n    plimsoll.dev/device-choice: owned\n"
    )
}

/// Returns HAMi's words for the first container on the only node; "fits" if it was placed.
fn answer(text: &str) -> String {
    let cluster = means(text);
    let decision = decide(&ledger(&cluster), &Policy::pack(), &only(&cluster).request);
    let table = decision.table().expect("the request was judged");
    let verdict = table.by_name()[0];
    plimsoll_core::wording::container_reason(verdict, 0).unwrap_or_else(|| "fits".to_owned())
}

#[test]
fn rows_of_hamis_fit_tables_that_differ_have_a_reason() {
    let neuron = r#"{"vendor":"AWSNeuron","cores":2},{"vendor":"AWSNeuron","cores":2}"#;
    let sgpu = r#"{"vendor":"Metax-SGPU","memory":"2GiB","cores":100,"slots":16}"#;
    let broken = r#"{"vendor":"Metax-SGPU","memory":"2GiB","cores":100,"slots":16,"health":false}"#;
    let gcu = r#"{"uuid":"g","vendor":"GCU","slots":1}"#;
    let holder = bound(
        "holder",
        "n",
        "annotations: {hami.io/enflame-gcu-devices-allocated: \"g,GCU,1,1:;\"}",
        "containers: [{name: main, resources: {limits: {enflame.com/gcu: 1}}}]",
    );
    let ascend = r#"{"vendor":"Ascend910B2","memory":"64GiB","slots":4}"#;
    let soft = pod(
        "p",
        "annotations: {huawei.com/vnpu-mode: hami-core}",
        "containers: [{name: main, resources: {limits: {huawei.com/Ascend910B2: 1}}}]",
    );
    let small = "metax-tech.com/sgpu: 1, metax-tech.com/vmemory: 1";
    for (what, hami, text, ours) in [
        (
            "A request for more devices than the node has fails HAMi's node check before its device \
             check, which the tables call directly.",
            "1/1 AllocatedCardsInsufficientRequest",
            declared(sgpu) + &pod_with("metax-tech.com/sgpu: 3, metax-tech.com/vmemory: 1"),
            "NodeInsufficientDevice",
        ),
        (
            "So does one for a device of another vendor.",
            "1/1 CardTypeMismatch",
            declared(sgpu) + &pod_with("amd.com/gpu: 1"),
            "NodeInsufficientDevice",
        ),
        (
            "HAMi gives several Neuron devices out in rows of 1, 4, 8 or 16 that begin at a multiple \
             of their number (any row on Inferentia). Which of them are neighbours is not considered; \
             the memory of none is shared.",
            "1/2 NumaNotFit",
            declared(neuron) + &pod_with("aws.amazon.com/neuron: 2"),
            "fits",
        ),
        (
            "More than all compute is all compute for every vendor, as in HAMi's other tables.",
            "1/1 CardInsufficientCore",
            declared(sgpu) + &pod_with(&format!("{small}, metax-tech.com/vcore: 120")),
            "fits",
        ),
        (
            "One code for an unhealthy device of any vendor.",
            "1/1 CardUnhealthy",
            declared(broken) + &pod_with(small),
            "1/1 CardNotHealth",
        ),
        (
            "Its only slot is the first that is missing.",
            "1/1 ExclusiveDeviceAllocateConflict",
            declared(gcu) + &holder + &pod_with("enflame.com/gcu: 1"),
            "1/1 CardTimeSlicingExhausted",
        ),
        ("As in the table.", "1/1 ModeNotFit", declared(ascend) + &soft, "1/1 ModeNotFit"),
    ] {
        assert_eq!(answer(&text), ours, "HAMi: {hami}. {what}");
    }
}

#[test]
fn applications_of_another_class_on_a_metax_device_are_named_and_not_kept_apart() {
    let sgpu = r#"{"uuid":"m","vendor":"Metax-SGPU","memory":"8GiB","cores":100,"slots":16}"#;
    let spec = |more: &str| {
        format!(
            "containers: [{{name: main, resources: {{limits: {{metax-tech.com/sgpu: 1, metax-tech.com/vmemory: 2{more}}}}}}}]"
        )
    };
    let online = "annotations: {metax-tech.com/sgpu-app-class: online}";
    let offline = "annotations: {metax-tech.com/sgpu-qos-policy: best-effort}";
    // HAMi: CardAppClassMismatch, as soon as memory and compute are enough.
    let text = declared(sgpu)
        + &pod("a", offline, &spec(", metax-tech.com/vcore: 60"))
        + &pod("b", online, &spec(""));
    let cluster = means(&text);
    assert_eq!(placed(&cluster).0, 2);
    let named: Vec<&str> =
        cluster.pending.iter().flat_map(|pod| &pod.not_considered).map(|what| &**what).collect();
    let keys = ["metax-tech.com/sgpu-qos-policy", "metax-tech.com/sgpu-app-class"];
    assert_eq!(named, keys.map(|key| format!("annotation {key}")));
    // A request that names no compute gets all of it, and leaves none to a second one.
    let text = declared(sgpu) + &pod("a", "", &spec("")) + &pod("b", "", &spec(""));
    assert_eq!(placed(&means(&text)).0, 1);
}

#[test]
fn rows_of_kais_tables_that_differ_have_a_reason() {
    let node = |labels: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels: {{{labels}, \
             nvidia.com/gpu.count: \"1\", nvidia.com/gpu.memory: \"40960\"}}\n\
             status: {{capacity: {{nvidia.com/gpu: 1}}, allocatable: {{nvidia.com/gpu: 1}}}}\n"
        )
    };
    // "Do not allocate regular GPU task on dynamic MIG node": a whole card beside instances is
    // advertised as such, and the kubelet starts the pod.
    let mixed = node("nvidia.com/mig.strategy: mixed");
    assert_eq!(placed(&means(&(mixed + &pod_with("nvidia.com/gpu: 1")))).0, 1);
    // "Fraction job on MIG node": strategy `single` is the default of the GPU operator on cards
    // that are not cut as well. The model tells whether they are.
    let share = pod("p", "annotations: {gpu-fraction: \"0.1\"}", "containers: [{name: main}]");
    let whole = node("nvidia.com/mig.strategy: single, nvidia.com/gpu.product: NVIDIA-A100");
    let cut =
        node("nvidia.com/mig.strategy: single, nvidia.com/gpu.product: NVIDIA-A100-MIG-1g.5gb");
    assert_eq!(placed(&means(&(whole + &share))).0, 1);
    assert_eq!(placed(&means(&(cut.replace("40960", "4864") + &share))).0, 0);
    // "Pipeline fractional … task when a task is evicting": a free card is taken at once, instead
    // of a place on a shared card once its holder has left.
    let text = registered("n", &[("GPU-a", 40_960), ("GPU-b", 40_960)])
        + &bound(
            "going",
            "n",
            "deletionTimestamp: \"2026-01-01T00:00:00Z\", annotations: {hami.io/vgpu-devices-allocated: \"GPU-a,NVIDIA,40960,0:;\"}",
            "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 40960}}}]",
        )
        + &share.replace("0.1", "0.5");
    assert_eq!(placed(&means(&text)).0, 1);
}
