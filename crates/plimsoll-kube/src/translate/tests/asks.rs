//! Requests of pending pods: quantities, contradictions, containers, priorities.

use plimsoll_core::request::{Amount, Compute, PlainRule, Role};
use plimsoll_core::units::{Cores, MilliCpu, Portion};

use super::*;

fn bytes(mib: u64) -> Amount {
    Amount::bytes(Bytes::mib(mib))
}

fn percent(percent: u64) -> Amount {
    Amount::Portion(Portion::new(percent, 100).unwrap())
}

#[test]
fn hami_resources_ask_as_tables_a3_and_a4_say() {
    let plain = Amount::Plain(PlainRule::Whole);
    for (limits, count, amount, compute) in [
        ("nvidia.com/gpu: 1", 1, plain.clone(), Compute::Any),
        ("nvidia.com/gpu: 2, nvidia.com/gpumem: 4096", 2, bytes(4096), Compute::Any),
        ("nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50", 1, percent(50), Compute::Any),
        // A4: who takes all memory and says nothing of cores has all of them.
        ("nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 100", 1, percent(100), Compute::All),
        ("nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 150", 1, percent(100), Compute::All),
        (
            "nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 4294967346",
            1,
            percent(100),
            Compute::All,
        ),
        ("nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 0", 1, plain.clone(), Compute::Any),
        (
            "nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 0, nvidia.com/gpumem: 2000",
            1,
            bytes(2000),
            Compute::Any,
        ),
        (
            "nvidia.com/gpumem: 4096, nvidia.com/gpucores: 30",
            1,
            bytes(4096),
            Compute::Units(Cores(30)),
        ),
        ("nvidia.com/gpucores: 30", 1, plain, Compute::Units(Cores(30))),
    ] {
        let need = need(limits);
        assert_eq!(
            (need.count.get(), &need.amount, need.compute),
            (count, &amount, compute),
            "{limits}"
        );
        assert_eq!((&*need.kind, need.slots), ("NVIDIA", 1), "{limits}");
    }
}

#[test]
fn requests_count_where_no_limit_is_and_must_agree_where_one_is() {
    let asking = |resources: &str| {
        means(&pod("p", "", &format!("containers: [{{name: main, resources: {{{resources}}}}}]")))
    };
    let only_requests = asking("requests: {nvidia.com/gpu: 1, nvidia.com/gpumem: 8k}");
    assert_eq!(containers(&only_requests)[0].needs[0].amount, bytes(8000));
    let same = asking("limits: {nvidia.com/gpumem: 8k}, requests: {nvidia.com/gpumem: 8000}");
    assert_eq!(containers(&same)[0].needs[0].amount, bytes(8000));
    let differ = asking("limits: {nvidia.com/gpumem: 8000}, requests: {nvidia.com/gpumem: 1000}");
    assert_eq!(misuse(&differ).fields.len(), 2);
    assert!(
        misuse(&differ).problem.contains("is 8000 and the request is 1000"),
        "{}",
        misuse(&differ).problem
    );
}

#[test]
fn a_bad_amount_is_rejected_with_its_field_and_its_value() {
    // HAMi's A3 makes an empty request of some of these, and reads -1 as "not specified";
    // acceptance B10 rejects them all.
    for value in ["1500m", "-1", "1e9999", "NaN", "8000MB", "3Gi", "16.0Gi"] {
        let cluster =
            means(&pod_with(&format!("nvidia.com/gpu: 1, nvidia.com/gpumem: \"{value}\"")));
        let field = "container \"main\": resources.limits[\"nvidia.com/gpumem\"]";
        assert_eq!(*misuse(&cluster).fields, [field], "{value}");
        let problem = &misuse(&cluster).problem;
        assert!(problem.starts_with(field) && problem.contains(value), "{problem}");
    }
    let empty = means(&pod_with("nvidia.com/gpu: 1, nvidia.com/gpumem: \"\""));
    assert!(misuse(&empty).problem.contains("the quantity is empty"), "{}", misuse(&empty).problem);
    let hint = means(&pod_with("nvidia.com/gpu: 1, nvidia.com/gpumem: 3Gi"));
    assert!(
        misuse(&hint).problem.contains("3,221,225,472 MiB; write 3072"),
        "{}",
        misuse(&hint).problem
    );
    let percentage = means(&pod_with("nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: -1"));
    assert!(misuse(&percentage).problem.contains("-1"), "{}", misuse(&percentage).problem);
}

#[test]
fn the_same_amount_in_three_spellings_is_the_same_request() {
    for value in ["8000", "8k", "8e3"] {
        assert_eq!(
            need(&format!("nvidia.com/gpu: 1, nvidia.com/gpumem: \"{value}\"")).amount,
            bytes(8000)
        );
    }
}

#[test]
fn contradictions_name_both_fields() {
    let share = |annotations: &str, limits: &str| {
        let spec = format!("containers: [{{name: main, resources: {{limits: {{{limits}}}}}}}]");
        means(&pod("p", &format!("annotations: {{{annotations}}}"), &spec))
    };
    for (annotations, limits, one, other) in [
        ("gpu-memory: \"8000\", gpu-fraction: \"0.5\"", "", "gpu-memory", "gpu-fraction"),
        (
            "gpu-memory: \"8000\", gpu-fraction-num-devices: \"3\"",
            "nvidia.com/gpu: 2",
            "gpu-fraction-num-devices",
            "nvidia.com/gpu",
        ),
        ("gpu-fraction: \"0.5\"", "nvidia.com/gpumem: 1000", "gpu-fraction", "nvidia.com/gpumem"),
        (
            "gpu-fraction: \"0.5\"",
            "nvidia.com/mig-1g.5gb: 1",
            "gpu-fraction",
            "nvidia.com/mig-1g.5gb",
        ),
        (
            "a: b",
            "nvidia.com/gpu: 1, nvidia.com/gpumem: 8000, nvidia.com/gpumem-percentage: 50",
            "nvidia.com/gpumem\"",
            "nvidia.com/gpumem-percentage",
        ),
        (
            "a: b",
            "nvidia.com/gpu: 0, nvidia.com/gpumem: 8000",
            "nvidia.com/gpu\"",
            "nvidia.com/gpumem\"",
        ),
        (
            "a: b",
            "nvidia.com/gpu: 0, nvidia.com/gpucores: 30",
            "nvidia.com/gpu\"",
            "nvidia.com/gpucores\"",
        ),
    ] {
        let cluster = share(annotations, limits);
        let fields = &misuse(&cluster).fields;
        assert!(fields[0].contains(one) && fields[1].contains(other), "{fields:?}");
    }
    let gpu_of_none = share("gpu-memory: \"8000\"", "nvidia.com/gpu: 0");
    assert_eq!(
        containers(&gpu_of_none)[0].needs[0].amount,
        bytes(8000),
        "a limit of 0 asks for nothing"
    );
}

#[test]
fn containers_stand_in_the_order_in_which_they_start() {
    let spec = format!(
        "initContainers: [{}, {{name: side, restartPolicy: Always}}], containers: [{}]",
        gpumem("first", 500),
        gpumem("main", 100)
    );
    let cluster = means(&pod("p", "", &spec));
    let roles: Vec<(&str, Role, usize)> =
        containers(&cluster).iter().map(|one| (&*one.name, one.role, one.needs.len())).collect();
    assert_eq!(
        roles,
        [("first", Role::Init, 1), ("side", Role::Sidecar, 0), ("main", Role::App, 1)]
    );
}

#[test]
fn a_pod_without_devices_asks_for_none() {
    let cluster = means(&pod_with("nvidia.com/gpu: 0, cpu: 2"));
    assert_eq!(containers(&cluster)[0].needs, []);
    let gated = means(&pod("p", "", "schedulingGates: [{name: wait}], containers: [{name: main}]"));
    assert_eq!((gated.pending.len(), gated.understood.gated), (0, 1));
}

#[test]
fn mig_instances_and_renamed_gpus_are_plain_requests() {
    let mig = need("nvidia.com/mig-1g.5gb: 2");
    assert_eq!(
        (&*mig.kind, mig.count.get(), mig.amount),
        ("nvidia.com/mig-1g.5gb", 2, Amount::Whole)
    );
    let shared = need("nvidia.com/gpu.shared: 1");
    assert_eq!((&*shared.kind, shared.amount), ("NVIDIA", Amount::Plain(PlainRule::Whole)));
    let bad = means(&pod_with("nvidia.com/mig-1g.5gb: 1500m"));
    assert!(misuse(&bad).problem.contains("nvidia.com/mig-1g.5gb"), "{}", misuse(&bad).problem);
}

#[test]
fn more_devices_than_can_be_counted_are_rejected() {
    let cluster = means(&pod_with("nvidia.com/gpu: 65536"));
    assert!(
        misuse(&cluster).problem.contains("65536 is more than any node has"),
        "{}",
        misuse(&cluster).problem
    );
}

#[test]
fn two_devices_of_one_container_are_two_cards() {
    // Acceptance B16: one card of a hundred tokens is one card.
    let (placed, _) =
        placed(&means(&(labelled("gpu", 1, 32_607, 100) + &pod_with("nvidia.com/gpu: 2"))));
    assert_eq!(placed, 0);
}

#[test]
fn cpu_and_memory_are_the_peak_over_the_containers_lives() {
    let asks = |name: &str, rest: &str, cpu: &str, memory: &str| {
        format!(
            "{{name: {name}, {rest} resources: {{requests: {{cpu: {cpu}, memory: {memory}}}}}}}"
        )
    };
    let spec = format!(
        "initContainers: [{}, {}, {}], containers: [{}, {{name: limited, resources: {{limits: {{cpu: 500m, memory: 1Gi}}}}}}], \
         overhead: {{cpu: 100m, memory: 64Mi}}",
        asks("first", "", "3", "1Gi"),
        asks("side", "restartPolicy: Always,", "1", "1Gi"),
        asks("second", "", "1500m", "9Gi"),
        asks("main", "", "1", "2Gi")
    );
    let need = only(&means(&pod("p", "", &spec))).request.spec.resources.clone();
    assert_eq!(
        (need.cpu, need.pods),
        (MilliCpu(3100), 1),
        "max(3, 1 + 1.5, 1 + 1 + 0.5) and the overhead"
    );
    assert_eq!(
        need.memory,
        Bytes::mib(10 * 1024 + 64),
        "max(1, 1 + 9, 1 + 2 + 1) and the overhead"
    );
    let bad =
        means(&pod("p", "", "containers: [{name: main, resources: {requests: {memory: lots}}}]"));
    assert_eq!(&*misuse(&bad).fields[0], "container \"main\": resources.requests[\"memory\"]");
}

#[test]
fn what_a_pod_asks_as_a_whole_counts_where_it_is_more() {
    for (resources, cpu, mib) in [
        ("requests: {cpu: 4, memory: 8Gi}", 4100, 8192),
        ("requests: {cpu: 4}", 4100, 2048),
        // Kubernetes does not admit less than the containers ask.
        ("requests: {cpu: 500m, memory: 1Gi}", 1100, 2048),
        ("limits: {cpu: 8, memory: 16Gi}", 1100, 2048),
        ("requests: null", 1100, 2048),
    ] {
        let main = "containers: [{name: main, resources: {requests: {cpu: 1, memory: 2Gi}}}]";
        let spec = format!("resources: {{{resources}}}, overhead: {{cpu: 100m}}, {main}");
        let need = only(&means(&pod("p", "", &spec))).request.spec.resources.clone();
        assert_eq!((need.cpu, need.memory), (MilliCpu(cpu), Bytes::mib(mib)), "{resources}");
    }
    let only_limits =
        means(&pod("p", "", "resources: {limits: {cpu: 8}}, containers: [{name: main}]"));
    assert_eq!(only(&only_limits).request.spec.resources.cpu, MilliCpu(8000));
    let bad =
        means(&pod("p", "", "resources: {requests: {cpu: lots}}, containers: [{name: main}]"));
    assert_eq!(&*misuse(&bad).fields[0], "spec.resources.requests[\"cpu\"]");
}

#[test]
fn priority_is_a_number_or_a_class_and_orders_the_turns() {
    let classes = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n\
                   ---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: usual}\nvalue: 5\nglobalDefault: true\n";
    let one = |name: &str, spec: &str| {
        let limits = "resources: {limits: {nvidia.com/priority: 1}}";
        pod(name, "", &format!("{spec} containers: [{{name: main, {limits}}}]"))
    };
    let text = [
        one("usual", ""),
        one("low", "priority: -3,"),
        one("first", "priorityClassName: high,"),
        one("second", "priorityClassName: high,"),
        one("system", "priorityClassName: system-node-critical,"),
        one("lost", "priorityClassName: absent,"),
    ];
    let cluster = means(&(text.concat() + classes));
    let turns: Vec<(&str, i32)> = cluster
        .pending
        .iter()
        .map(|one| (&*one.request.id.name, one.request.terms.priority))
        .collect();
    assert_eq!(
        turns,
        [
            ("system", 2_000_001_000),
            ("first", 100),
            ("second", 100),
            ("usual", 5),
            ("lost", 5),
            ("low", -3)
        ]
    );
    assert_eq!(*cluster.pending[4].not_considered, ["the unknown priority class absent"]);
    assert!(cluster.pending[3].not_considered.is_empty(), "nvidia.com/priority orders nothing");
}

#[test]
fn what_is_not_understood_is_said() {
    let spec = "volumes: [{name: a, persistentVolumeClaim: {claimName: a}}, {name: b, ephemeral: {}}], \
                affinity: {podAffinity: {}, podAntiAffinity: {}}, topologySpreadConstraints: [{}], \
                containers: [{name: main, ports: [{hostPort: 80}], resources: {limits: {rdma/hca: 1, cpu: 1}}}]";
    let cluster = means(&pod("p", "", spec));
    let said: Vec<&str> = only(&cluster).not_considered.iter().map(|what| &**what).collect();
    assert_eq!(
        said,
        [
            "volume claims",
            "ephemeral volumes",
            "affinity to pods",
            "anti-affinity to pods",
            "topology spread constraints",
            "host ports",
        ]
    );
    assert!(only(&means(&pod_with("nvidia.com/gpu: 1"))).not_considered.is_empty());
}

#[test]
fn a_duplicate_object_counts_once_and_a_nameless_one_gets_a_name() {
    let twice = means(&(pod_with("nvidia.com/gpu: 1") + &pod_with("nvidia.com/gpu: 2")));
    assert_eq!(containers(&twice)[0].needs[0].count.get(), 2);
    let nameless = "---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: web-}\nspec: {containers: [{name: main}]}\n";
    let two = means(&(nameless.to_owned() + nameless));
    let names: Vec<&str> = two.pending.iter().map(|one| &*one.request.id.name).collect();
    assert_eq!(names, ["unnamed-1", "unnamed-2"]);
}

#[test]
fn a_pod_that_has_a_node_is_not_forgotten_for_its_manifest() {
    let node = labelled("gpu", 1, 32_607, 100);
    let runs = |mib| bound("p", "gpu", "", &format!("containers: [{}]", gpumem("main", mib)));
    let waits = |mib| pod("p", "", &format!("containers: [{}]", gpumem("main", mib)));
    let twice = vec!["object-given-twice"];
    for (first, second, held, expected) in [
        (runs(8000), waits(100), Some(8000), twice.clone()),
        (waits(100), runs(8000), Some(8000), twice),
        (runs(8000), runs(9000), Some(9000), vec![]),
        (waits(100), waits(200), None, vec![]),
    ] {
        let cluster = means(&(node.clone() + &first + &second));
        let charges = cluster.running.iter().flat_map(|one| &one.charges);
        assert_eq!(
            charges.map(super::mib).collect::<Vec<_>>(),
            Vec::from_iter(held),
            "{first}{second}"
        );
        assert_eq!(cluster.running.len() + cluster.pending.len(), 1, "{first}{second}");
        assert_eq!(codes(&cluster), expected, "{first}{second}");
    }
}

#[test]
fn a_share_with_tokens_is_that_share_on_one_card_per_token() {
    let spec = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]";
    let cluster = means(&pod("p", "annotations: {gpu-memory: \"8000\"}", spec));
    let [need] = &containers(&cluster)[0].needs[..] else { panic!("one need") };
    let amount = Amount::bytes(Bytes::from_mib(8000).unwrap());
    assert_eq!((need.count.get(), need.slots, &need.amount), (2, 1, &amount));
    assert_eq!(only(&cluster).request.spec.resources.extended.get("nvidia.com/gpu"), 2);
}

#[test]
fn every_named_resource_counts_unless_hami_manages_it() {
    let cluster = means(&pod_with(
        "nvidia.com/gpumem: 1000, nvidia.com/gpucores: 10, nvidia.com/gpumemory: 7, rdma/hca: 1, \
         hugepages-2Mi: 4Mi, ephemeral-storage: 1Gi, cpu: 1",
    ));
    let extended = &only(&cluster).request.spec.resources.extended;
    let amounts: Vec<(&str, u64)> =
        extended.iter().map(|(name, amount)| (&**name, amount)).collect();
    assert_eq!(
        amounts,
        [
            ("ephemeral-storage", 1 << 30),
            ("hugepages-2Mi", 4 << 20),
            ("nvidia.com/gpu", 1),
            ("nvidia.com/gpumemory", 7),
            ("rdma/hca", 1)
        ]
    );
}

#[test]
fn an_ignored_resource_binds_no_node_and_is_named() {
    let text = registered("n", &[("GPU-a", 40_960)])
        + &pod_with("nvidia.com/gpu: 1, nvidia.com/gpumem: 512, example.com/seat: 3");
    assert_eq!(placed(&means(&text)).0, 0);
    let mut reading = Reading::default();
    reading.ignored_resources.insert("example.com/seat".into());
    let cluster = means_under(&text, &reading);
    assert_eq!(placed(&cluster).0, 1);
    let named: Vec<&str> = only(&cluster).not_considered.iter().map(|what| &**what).collect();
    assert_eq!(named, ["the resource example.com/seat"]);
}
