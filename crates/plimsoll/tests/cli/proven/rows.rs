//! The rows: nodes and pods of our own, with numbers that were worked out by hand.

use plimsoll_testbed::objects::{self, GpuNode};
use serde_json::{Value, json};

use super::{Asked, Row};

pub(super) fn node(name: &str, cards: u32, mib: u64, replicas: u32) -> Value {
    GpuNode::new(name, cards, mib).shared(replicas).object()
}

fn without_label(mut node: Value, label: &str) -> Value {
    node["metadata"]["labels"].as_object_mut().expect("labels").remove(label);
    node
}

fn with_tokens(mut node: Value, capacity: &str, allocatable: &str) -> Value {
    node["status"]["capacity"]["nvidia.com/gpu"] = json!(capacity);
    node["status"]["allocatable"]["nvidia.com/gpu"] = json!(allocatable);
    node
}

pub(super) fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = json!(value);
    object
}

/// A pod that asks for MiB by annotation, as the user wrote the number.
pub(super) fn share(name: &str, amount: &str) -> Value {
    annotated(objects::pod(name), "gpu-memory", amount)
}

pub(super) fn limited(name: &str, limits: &Value) -> Value {
    let mut pod = objects::pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": limits});
    pod
}

pub(super) fn on(node: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod
}

/// A node whose cards HAMi has registered, by UUID.
pub(super) fn registered(name: &str, cards: &[(&str, u64)]) -> Value {
    let node = with_tokens(node(name, 1, 1, 10), "20", "20");
    let labels = ["nvidia.com/gpu.count", "nvidia.com/gpu.memory", "nvidia.com/gpu.replicas"];
    let node = labels.into_iter().fold(node, without_label);
    let node = without_label(node, "nvidia.com/gpu.sharing-strategy");
    annotated(node, "hami.io/node-nvidia-register", &register(cards))
}

pub(super) fn register(cards: &[(&str, u64)]) -> String {
    let rows = cards.iter().enumerate().map(|(index, (uuid, mib))| {
        json!({
            "id": uuid, "index": index, "count": 10, "devmem": mib, "devcore": 100,
            "type": "NVIDIA A100", "numa": 0, "mode": "hami-core", "health": true,
        })
    });
    Value::Array(rows.collect()).to_string()
}

/// A pod on a card that HAMi has given it.
pub(super) fn allocated(name: &str, node: &str, uuid: &str, mib: u64) -> Value {
    let limits = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": mib.to_string()});
    let pod = annotated(
        limited(name, &limits),
        "hami.io/vgpu-devices-allocated",
        &format!("{uuid},NVIDIA,{mib},0:;"),
    );
    on(node, pod)
}

const fn fits(pod: &'static str) -> Asked {
    Asked { pod, fits: true, because: &[] }
}

const fn lacks(pod: &'static str, because: &'static [&'static str]) -> Asked {
    Asked { pod, fits: false, because }
}

pub(super) fn rows() -> Vec<Row> {
    let groups = [memory(), capacity(), containers(), quantities(), annotations(), cards()];
    groups.into_iter().flatten().collect()
}

/// B5, B6 and B13.
fn memory() -> Vec<Row> {
    let foreign = r#"[{"memory": "81920MiB", "foreign": "21811MiB"}]"#;
    vec![
        Row {
            case: "B5: an amount of 0 is unknown, and no devices are none",
            node: node("b5", 1, 32_607, 10),
            pods: vec![share("zero", "0"), limited("none", &json!({"nvidia.com/gpu": "0"}))],
            held: vec![],
            asked: vec![lacks("zero", &["gpu-memory"])],
            found: &[],
        },
        Row {
            case: "B6: exactly the card fits, and one MiB more does not",
            node: node("b6", 1, 40_960, 10),
            pods: vec![share("whole", "40960"), share("more", "40961"), share("large", "81800")],
            held: vec![],
            asked: vec![
                fits("whole"),
                lacks("more", &["40961 MiB", "40960 MiB"]),
                lacks("large", &["79.9 GiB", "40.0 GiB in total"]),
            ],
            found: &[],
        },
        Row {
            case: "B13: memory that others use is not free, to the MiB",
            node: annotated(node("b13", 1, 81_920, 1), "plimsoll.dev/devices", foreign),
            pods: vec![share("exact", "60109"), share("more", "60110")],
            held: vec![],
            asked: vec![fits("exact"), lacks("more", &["60110 MiB", "60109 MiB free"])],
            found: &[],
        },
    ]
}

/// B7 and B18.
fn capacity() -> Vec<Row> {
    let whole = |name: &str| limited(name, &json!({"nvidia.com/gpu": "1"}));
    let scaled = registered("b18", &[("GPU-18", 81_920)]);
    let scaled = ["nvidia.com/gpu.count", "nvidia.com/gpu.memory", "nvidia.com/gpu.product"]
        .into_iter()
        .zip(["1", "40960", "NVIDIA-A100"])
        .fold(scaled, |mut node, (key, value)| {
            node["metadata"]["labels"][key] = json!(value);
            node
        });
    vec![
        Row {
            case: "B7: no memory label is unknown, never a default",
            node: without_label(node("b7-label", 1, 32_607, 10), "nvidia.com/gpu.memory"),
            pods: vec![share("some", "1000")],
            held: vec![],
            asked: vec![lacks("some", &["nvidia.com/gpu.memory"])],
            found: &["memory-label-missing"],
        },
        Row {
            case: "B7: labels that contradict the capacity of several cards",
            node: with_tokens(node("b7-count", 2, 32_607, 10), "30", "30"),
            pods: vec![share("some", "1000")],
            held: vec![],
            asked: vec![lacks("some", &["count is 2", "replicas is 10", "makes 20, but 30"])],
            found: &["capacity-contradiction"],
        },
        Row {
            case: "B7: one whole card is missing from allocatable",
            node: with_tokens(node("b7-sick", 4, 32_607, 1), "4", "3"),
            pods: vec![
                on("b7-sick", whole("a")),
                on("b7-sick", whole("b")),
                on("b7-sick", whole("c")),
                whole("four"),
            ],
            held: vec![
                ("b7-sick/gpu-0", "a", 32_607),
                ("b7-sick/gpu-1", "b", 32_607),
                ("b7-sick/gpu-2", "c", 32_607),
            ],
            asked: vec![lacks("four", &["1 of 4 GPUs possibly unhealthy", "3 short of memory"])],
            found: &[],
        },
        Row {
            case: "B18: a register that is scaled up counts as the label says",
            node: scaled,
            pods: vec![
                limited("half", &json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "40960"})),
                limited("more", &json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "40961"})),
            ],
            held: vec![],
            asked: vec![fits("half"), lacks("more", &["40961 MiB"])],
            found: &["register-scaled"],
        },
    ]
}

/// B9: a container with an amount of memory of a card.
fn container(name: &str, mib: u64) -> Value {
    json!({
        "name": name, "image": "x",
        "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": mib.to_string()}},
    })
}

fn containers() -> Vec<Row> {
    let card = |name: &str, uuid| registered(name, &[(uuid, 40_960)]);
    let of = |name: &str, init: Value, apps: Value| {
        let mut pod = objects::pod(name);
        pod["spec"]["initContainers"] = init;
        pod["spec"]["containers"] = apps;
        pod
    };
    let plain_init = json!([{"name": "init", "image": "x"}]);
    let mut sidecar = container("sidecar", 20_000);
    sidecar["restartPolicy"] = json!("Always");
    let third = |mib| limited("another", &json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": mib}));
    let mut started = of("app", plain_init, json!([container("main", 30_000)]));
    started["status"] = json!({"phase": "Running", "initContainerStatuses": [{
        "name": "init", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0}},
    }]});
    vec![
        Row {
            case: "B9: what an app holds stays held after its init container ended",
            node: card("b9-init", "GPU-9a"),
            pods: vec![on("b9-init", started), third("30000")],
            held: vec![("GPU-9a", "app", 30_000)],
            asked: vec![lacks("another", &["29.3 GiB", "10.7 GiB free"])],
            found: &[],
        },
        Row {
            case: "B9: a sidecar and an app are a sum",
            node: card("b9-sidecar", "GPU-9b"),
            pods: vec![
                on("b9-sidecar", of("both", json!([sidecar]), json!([container("main", 20_000)]))),
                third("20000"),
            ],
            held: vec![("GPU-9b", "both", 40_000)],
            asked: vec![lacks("another", &["19.5 GiB", "0.9 GiB free", "b9-sidecar/both"])],
            found: &[],
        },
        Row {
            case: "B9: an init container and an app are the larger of the two, in one row",
            node: card("b9-peak", "GPU-9c"),
            pods: vec![
                on(
                    "b9-peak",
                    of(
                        "peak",
                        json!([container("init", 30_000)]),
                        json!([container("main", 20_000)]),
                    ),
                ),
                third("10960"),
            ],
            held: vec![("GPU-9c", "peak", 30_000)],
            asked: vec![fits("another")],
            found: &[],
        },
    ]
}

/// B10.
fn quantities() -> Vec<Row> {
    let on_node = |name: &str, amount: &str| on("b10", share(name, amount));
    vec![
        Row {
            case: "B10: one number, however it is written",
            node: node("b10", 1, 32_607, 100),
            pods: vec![on_node("a", "8000"), on_node("b", "8k"), on_node("c", "8e3")],
            held: vec![
                ("b10/gpu-0", "a", 8000),
                ("b10/gpu-0", "b", 8000),
                ("b10/gpu-0", "c", 8000),
            ],
            asked: vec![],
            found: &[],
        },
        Row {
            case: "B10: what is no amount is rejected with field and value",
            node: node("b10-bad", 1, 32_607, 100),
            pods: vec![
                share("milli", "1500m"),
                share("negative", "-1"),
                share("huge", "1e9999"),
                share("not-a-number", "NaN"),
                share("unit", "8000MB"),
                share("empty", ""),
                limited("suffix", &json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3Gi"})),
                limited(
                    "both",
                    &json!({
                        "nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000",
                        "nvidia.com/gpumem-percentage": "50",
                    }),
                ),
            ],
            held: vec![],
            asked: vec![
                lacks("milli", &["gpu-memory", "1500m"]),
                lacks("negative", &["gpu-memory", "-1"]),
                lacks("huge", &["gpu-memory", "1e9999"]),
                lacks("not-a-number", &["gpu-memory", "NaN"]),
                lacks("unit", &["gpu-memory", "8000MB"]),
                lacks("empty", &["gpu-memory"]),
                lacks("suffix", &["nvidia.com/gpumem", "3Gi", "3072"]),
                lacks("both", &["nvidia.com/gpumem", "nvidia.com/gpumem-percentage"]),
            ],
            found: &[],
        },
    ]
}

/// B14: what users write on pods.
fn annotations() -> Vec<Row> {
    let key = "hami.io/vgpu-devices-allocated";
    let asks = |name: &str, mib: &str| {
        limited(name, &json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": mib}))
    };
    let forged = |name: &str, value: &str| annotated(asks(name, "8000"), key, value);
    vec![Row {
        case: "B14: annotations of a user lower no charge and change no capacity",
        node: registered("b14", &[("GPU-14a", 40_960), ("GPU-14b", 40_960)]),
        pods: vec![
            on("b14", forged("lower", "GPU-14a,NVIDIA,1,0:;")),
            on("b14", forged("negative", "GPU-14b,NVIDIA,-8000,0:;")),
            forged("huge", "GPU-14a,NVIDIA,99999999,0:;"),
            asks("rest", "32960"),
        ],
        held: vec![
            ("GPU-14a", "lower", 8000),
            ("GPU-14a", "negative", 8000),
            ("GPU-14b", "negative", 8000),
        ],
        asked: vec![fits("huge"), fits("rest")],
        found: &[],
    }]
}

/// B16 and B19.
fn cards() -> Vec<Row> {
    let mut reservation = limited("gpu-reservation-g1", &json!({"nvidia.com/gpu": "1"}));
    reservation["metadata"]["namespace"] = json!("kai-resource-reservation");
    reservation["metadata"]["labels"] =
        json!({"runai-gpu-group": "g1", "app": "kai-resource-reservation"});
    reservation["metadata"]["annotations"] = json!({"run.ai/reserve_for_gpu_index": "GPU-19b"});
    let mut fraction = annotated(objects::pod("fraction"), "gpu-fraction", "0.5");
    fraction["metadata"]["labels"] = json!({"runai-gpu-group": "g1"});
    vec![
        Row {
            case: "B16: two devices are two physical devices",
            node: node("b16", 1, 32_607, 100),
            pods: vec![limited("two", &json!({"nvidia.com/gpu": "2"}))],
            held: vec![],
            asked: vec![lacks("two", &["2 GPUs", "too few GPUs"])],
            found: &[],
        },
        Row {
            case: "B19: a reservation pod holds nothing, and says where a fraction is",
            node: registered("b19", &[("GPU-19a", 40_960), ("GPU-19b", 40_960)]),
            pods: vec![on("b19", reservation), on("b19", fraction)],
            held: vec![("GPU-19b", "fraction", 20_480)],
            asked: vec![],
            found: &[],
        },
    ]
}
