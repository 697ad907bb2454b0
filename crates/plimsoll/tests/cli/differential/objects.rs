//! A random cluster as Kubernetes objects.

use serde_json::{Map, Value, json};

use super::asks::Ask;
use super::world::{Cards, Machine, RegisterForm, Running, Work, World};

const WIDGET: &str = "example.com/widget";
const INSTANCE: &str = "nvidia.com/mig-1g.5gb";
const STALE: &str = "nvidia.com/mig-2g.10gb";
const GPU: &str = "nvidia.com/gpu";
const VXPU: &str = "kunlunxin.com/vxpu";

/// Writes all objects of a cluster.
pub(super) fn list(world: &World) -> Value {
    let mut items: Vec<Value> = world.nodes.iter().map(node).collect();
    for machine in &world.nodes {
        items.extend(claims(machine));
    }
    items.extend(world.running.iter().enumerate().map(|(at, pod)| running(at, pod, world)));
    let binding = world.running.iter().filter(|pod| pod.binding);
    items.extend(binding.map(|pod| bind_request(pod, world)));
    items.extend(world.pending.iter().enumerate().map(|(at, work)| pending(at, work)));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Returns the name of a card in the output.
pub(super) fn card_name(machine: &Machine, card: usize) -> String {
    match machine.source {
        Cards::Register { .. } | Cards::EqualShares { .. } => {
            format!("GPU-{}-{card}", machine.name)
        }
        _ => format!("{}/gpu-{card}", machine.name),
    }
}

fn node(machine: &Machine) -> Value {
    let cards = machine.memory.len();
    let mut labels = Map::new();
    let mut annotations = Map::new();
    let first = machine.memory.first().copied().flatten().unwrap_or(0).to_string();
    let mut label =
        |name: &str, value: &str| labels.insert(format!("nvidia.com/{name}"), json!(value));
    match machine.source {
        Cards::Register { slots } => {
            let register = match machine.form {
                RegisterForm::Json => register(machine, slots).to_string(),
                form => fields(machine, slots, form),
            };
            annotations.insert("hami.io/node-nvidia-register".to_owned(), json!(register));
        }
        Cards::EqualShares { slots } => {
            let register = register(machine, slots).to_string();
            annotations.insert("hami.io/node-register-xpu".to_owned(), json!(register));
        }
        Cards::Exclusive | Cards::Sliced { .. } | Cards::Mps { .. } => {
            let (tokens, strategy) = match machine.source {
                Cards::Sliced { tokens } => (tokens, "time-slicing"),
                Cards::Mps { tokens } => (tokens, "mps"),
                _ => (1, "none"),
            };
            label("gpu.count", &cards.to_string());
            label("gpu.memory", &first);
            label("gpu.replicas", &tokens.to_string());
            label("gpu.sharing-strategy", strategy);
        }
        Cards::Mig => {
            label("mig.strategy", "mixed");
            label("gpu.count", "1");
            label("gpu.memory", "40960");
            label("mig-1g.5gb.count", &cards.to_string());
            label("mig-1g.5gb.memory", &first);
            label("mig-1g.5gb.replicas", "1");
        }
        Cards::Uncounted { .. } | Cards::Unread => {}
    }
    if machine.unread_register {
        annotations.insert("volcano.sh/node-vgpu-register".to_owned(), json!("GPU-x,10,1000,100:"));
    }
    let mut resources = Map::new();
    resources.insert("cpu".to_owned(), json!(format!("{}m", machine.cpu)));
    let is_vxpu = matches!(machine.source, Cards::EqualShares { .. });
    resources.insert(if is_vxpu { VXPU } else { GPU }.to_owned(), json!(machine.tokens));
    if machine.source == Cards::Mig {
        resources.insert(INSTANCE.to_owned(), json!(cards));
    }
    if machine.widgets > 0 {
        resources.insert(WIDGET.to_owned(), json!(machine.widgets));
    }
    if machine.second_plugin {
        resources.insert("koordinator.sh/gpu".to_owned(), json!(100));
    }
    let mut capacity = resources.clone();
    if machine.stale_mig {
        capacity.insert(STALE.to_owned(), json!(1));
        resources.insert(STALE.to_owned(), json!(0));
    }
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": machine.name, "labels": labels, "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": resources}})
}

fn register(machine: &Machine, slots: u64) -> Value {
    let cards = machine.memory.iter().enumerate().map(|(card, mib)| {
        json!({"id": card_name(machine, card), "index": card, "count": slots, "devmem": mib,
            "devcore": 100, "type": "NVIDIA A100", "health": true, "mode": "hami-core"})
    });
    Value::Array(cards.collect())
}

/// Writes the register as older versions of HAMi do.
fn fields(machine: &Machine, slots: u64, form: RegisterForm) -> String {
    let cards = machine.memory.iter().enumerate().map(|(card, mib)| {
        let (name, mib) = (card_name(machine, card), mib.unwrap_or(0));
        let more = match form {
            RegisterForm::Fields => format!(",{card},hami-core"),
            RegisterForm::Json | RegisterForm::ShortFields => String::new(),
        };
        format!("{name},{slots},{mib},100,NVIDIA A100,0,true{more}:")
    });
    cards.collect()
}

/// Writes the slice of a node's driver and its allocated claims.
fn claims(machine: &Machine) -> Vec<Value> {
    if machine.claims.is_empty() {
        return Vec::new();
    }
    let name = &machine.name;
    let devices = machine.memory.iter().enumerate().map(|(card, mib)| {
        json!({"name": format!("d{card}"), "attributes": {"uuid": {"string": card_name(machine, card)}},
            "capacity": {"memory": {"value": format!("{}Mi", mib.unwrap_or(0))}}})
    });
    let devices: Vec<Value> = devices.collect();
    let mut objects = vec![json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {"name": format!("slice-{name}")},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": name, "devices": devices,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}})];
    for (at, claim) in machine.claims.iter().enumerate() {
        let mut result = json!({"request": "r", "driver": "gpu.nvidia.com", "pool": name,
            "device": format!("d{}", claim.card)});
        if let Some(mib) = claim.mib {
            result["consumedCapacity"] = json!({"memory": format!("{mib}Mi")});
        }
        objects.push(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": format!("claim-{name}-{at}"), "namespace": "d"},
            "spec": {}, "status": {"allocation": {"devices": {"results": [result]}}}}));
    }
    objects
}

fn running(at: usize, running: &Running, world: &World) -> Value {
    let machine = &world.nodes[running.node];
    let mut pod = pod(&running.work, &format!("2026-01-01T00:00:{at:02}Z"));
    if !running.binding {
        pod["spec"]["nodeName"] = json!(machine.name);
    }
    if let (Some(card), Ask::Memory { mib, cores, .. }) = (running.card, running.work.apps[0]) {
        let allocated = format!("{},NVIDIA,{mib},{cores}:;", card_name(machine, card));
        pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = json!(allocated);
    }
    if running.ending {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
    }
    if running.unknown {
        pod["spec"]["containers"][0]["resources"]["limits"]["example.com/gpu"] = json!(1);
    }
    pod
}

fn bind_request(running: &Running, world: &World) -> Value {
    let (pod, node) = (&running.work.name, &world.nodes[running.node].name);
    json!({"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": format!("bind-{pod}"), "namespace": "d"},
        "spec": {"podName": pod, "selectedNode": node}})
}

fn pending(at: usize, work: &Work) -> Value {
    pod(work, &format!("2026-01-02T00:00:{at:02}Z"))
}

fn pod(work: &Work, created: &str) -> Value {
    let mut annotations = Map::new();
    match work.apps[0] {
        Ask::Share { cards, mib } => {
            annotations.insert("gpu-memory".to_owned(), json!(mib.to_string()));
            let number = json!(cards.to_string());
            annotations.insert("gpu-fraction-num-devices".to_owned(), number);
        }
        Ask::ShareWithTokens { mib, .. } => {
            annotations.insert("gpu-memory".to_owned(), json!(mib.to_string()));
        }
        Ask::Fraction(percent) => {
            annotations.insert("gpu-fraction".to_owned(), json!(format!("0.{percent}")));
        }
        _ => {}
    }
    let init: Vec<Value> =
        (0..).zip(&work.init).map(|(at, ask)| container("i", at, *ask)).collect();
    let apps = (0..).zip(&work.apps).map(|(at, ask)| container("a", at, *ask));
    let mut apps: Vec<Value> = apps.collect();
    apps[0]["resources"]["requests"] = json!({"cpu": format!("{}m", work.cpu)});
    if work.widgets > 0 {
        apps[0]["resources"]["limits"][WIDGET] = json!(work.widgets);
        apps[0]["resources"]["requests"][WIDGET] = json!(work.widgets);
    }
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": work.name, "namespace": "d", "annotations": annotations,
            "creationTimestamp": created},
        "spec": {"initContainers": init, "containers": apps}})
}

fn container(prefix: &str, at: usize, ask: Ask) -> Value {
    let mut limits = Map::new();
    let mut limit = |name: &str, amount: u64| limits.insert(name.to_owned(), json!(amount));
    if ask.tokens() > 0 {
        let is_vxpu = matches!(ask, Ask::EqualShare(_));
        limit(if is_vxpu { VXPU } else { GPU }, ask.tokens());
    }
    match ask {
        Ask::Memory { mib, cores, .. } => {
            limit("nvidia.com/gpumem", mib);
            if cores > 0 {
                limit("nvidia.com/gpucores", cores);
            }
        }
        Ask::Percent(percent) => {
            limit("nvidia.com/gpumem-percentage", percent);
        }
        Ask::Instances(number) => {
            limit(INSTANCE, number);
        }
        Ask::EqualShare(mib) => {
            limit("kunlunxin.com/vxpu-memory", mib);
        }
        Ask::Nothing
        | Ask::Plain(_)
        | Ask::Share { .. }
        | Ask::ShareWithTokens { .. }
        | Ask::Fraction(_) => {}
    }
    json!({"name": format!("{prefix}{at}"), "resources": {"limits": limits}})
}
