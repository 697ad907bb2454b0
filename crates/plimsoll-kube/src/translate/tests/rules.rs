//! Scheduling rules of pods.

use plimsoll_core::request::Order;
use plimsoll_core::rules::{Effect, NodeRules, Operator, Requirement, Subject, Toleration};

use super::*;

fn of(metadata: &str, spec: &str) -> NodeRules {
    let cluster = means(&pod("p", metadata, &format!("{spec}, containers: [{{name: main}}]")));
    only(&cluster).request.spec.rules.clone()
}

fn rejected(spec: &str) -> (String, String) {
    let cluster = means(&pod("p", "", &format!("{spec}, containers: [{{name: main}}]")));
    let misuse = misuse(&cluster);
    (misuse.fields[0].to_string(), misuse.problem.to_string())
}

#[test]
fn selectors_and_pools_must_all_hold() {
    let rules = of("labels: {kai.scheduler/node-pool: blue}", "nodeSelector: {zone: a}");
    assert_eq!(
        rules.all,
        [
            Requirement::label_is("zone", "a"),
            Requirement::label_is("kai.scheduler/node-pool", "blue")
        ]
    );
    let reading = Reading { node_pool_key: "pool".into(), ..Reading::default() };
    let text = pod("p", "labels: {pool: red}", "containers: [{name: main}]");
    let cluster = means_under(&text, &reading);
    assert_eq!(only(&cluster).request.spec.rules.all, [Requirement::label_is("pool", "red")]);
}

#[test]
fn one_term_of_the_required_affinity_must_hold() {
    let rules = of(
        "",
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [\
         {matchExpressions: [{key: zone, operator: In, values: [a, b]}, {key: gen, operator: Gt, values: ['6']}]}, \
         {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}, {}]}, \
         preferredDuringSchedulingIgnoredDuringExecution: [{weight: 30, preference: {matchExpressions: \
         [{key: spot, operator: DoesNotExist}]}}]}}",
    );
    let on = |subject, operator| Requirement { subject, operator };
    assert_eq!(
        rules.any[0].0,
        [
            on(Subject::Label("zone".into()), Operator::In(vec!["a".into(), "b".into()])),
            on(Subject::Label("gen".into()), Operator::Gt(6))
        ]
    );
    assert_eq!(rules.any[1].0, [on(Subject::NodeName, Operator::In(vec!["n1".into()]))]);
    assert_eq!(rules.any[2].0, [], "an empty term is satisfied by no node");
    assert_eq!(rules.preferred[0].0, 30);
}

#[test]
fn tolerations_are_equal_or_exist() {
    let rules = of(
        "",
        "tolerations: [{key: gpu, value: 'yes', effect: NoSchedule}, {key: gpu, operator: Exists}, {operator: Exists}]",
    );
    let tolerate = |key: Option<&str>, value: Option<&str>, effect| Toleration {
        key: key.map(Into::into),
        value: value.map(Into::into),
        effect,
    };
    assert_eq!(
        rules.tolerations,
        [
            tolerate(Some("gpu"), Some("yes"), Some(Effect::NoSchedule)),
            tolerate(Some("gpu"), None, None),
            tolerate(None, None, None)
        ]
    );
}

#[test]
fn a_toleration_by_another_operator_tolerates_nothing_and_is_named() {
    for operator in ["Gt", "Lt", "Like"] {
        let tolerations = format!(
            "tolerations: [{{key: gen, operator: {operator}, value: '6'}}, {{key: gpu, operator: Exists}}]"
        );
        let cluster = means(&pod("p", "", &format!("{tolerations}, containers: [{{name: main}}]")));
        let keys: Vec<Option<&str>> = only(&cluster)
            .request
            .spec
            .rules
            .tolerations
            .iter()
            .map(|one| one.key.as_deref())
            .collect();
        assert_eq!(keys, [Some("gpu")], "{operator}");
        let said = format!("the toleration of \"gen\" by operator \"{operator}\"");
        assert_eq!(*only(&cluster).not_considered, [said]);
    }
}

#[test]
fn a_rule_that_cannot_be_read_is_rejected_with_its_place() {
    let term = |inner: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{inner}]}}}}}}"
        )
    };
    for (spec, field, said) in [
        (
            term("{matchExpressions: [{key: a, operator: Is}]}"),
            "matchExpressions[0].operator",
            "\"Is\"",
        ),
        (
            term("{matchExpressions: [{key: a, operator: Gt, values: [x]}]}"),
            "matchExpressions[0].values",
            "\"x\"",
        ),
        (
            term("{matchExpressions: [{key: a, operator: In}]}"),
            "matchExpressions[0].values",
            "needs a value",
        ),
        (
            term("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}"),
            "matchExpressions[0].values",
            "no values",
        ),
        (
            term("{matchFields: [{key: spec.x, operator: In, values: [b]}]}"),
            "matchFields[0].key",
            "spec.x",
        ),
        (term(""), "nodeSelectorTerms", "empty"),
        ("tolerations: [{value: a}]".to_owned(), "spec.tolerations[0].operator", "Exists"),
        (
            "tolerations: [{key: a, effect: Never}]".to_owned(),
            "spec.tolerations[0].effect",
            "\"Never\"",
        ),
        (
            "tolerations: [{key: a, operator: Exists, value: b}]".to_owned(),
            "spec.tolerations[0].value",
            "\"b\"",
        ),
    ] {
        let (at, problem) = rejected(&spec);
        assert!(at.ends_with(field), "{at}");
        assert!(problem.contains(said), "{problem}");
    }
}

#[test]
fn wishes_are_read_from_hamis_annotations() {
    let annotations = "annotations: {nvidia.com/use-gputype: 'A100, ,H100', nvidia.com/nouse-gputype: V100, \
                       nvidia.com/use-gpuuuid: ' GPU-a ', nvidia.com/nouse-gpuuuid: 'GPU-b,', nvidia.com/numa-bind: 'true', \
                       nvidia.com/vgpu-mode: 'hami-core,mig', hami.io/gpu-scheduler-policy: 'mutex,topology-aware,spread', \
                       hami.io/node-scheduler-policy: binpack, hami.io/device-scoring-weights: 'slot=1,core=2,memory=3'}";
    let cluster = means(&pod("p", annotations, &format!("containers: [{}]", gpumem("main", 1000))));
    let spec = &only(&cluster).request.spec;
    let selector = &containers(&cluster)[0].needs[0].selector;
    let texts = |names: &[plimsoll_core::units::Name]| names.join("|");
    assert_eq!((&*texts(&selector.models), &*texts(&selector.not_models)), ("A100|H100", "V100"));
    assert_eq!((&*texts(&selector.uuids), &*texts(&selector.not_uuids)), ("GPU-a", "GPU-b"));
    assert_eq!(&*texts(&selector.modes), "hami-core|mig");
    assert!(selector.one_numa && selector.alone && selector.linked);
    assert_eq!((spec.hints.nodes, spec.hints.devices), (Some(Order::Pack), Some(Order::Spread)));
    let weights = spec.hints.weights.expect("weights");
    assert_eq!((weights.slots, weights.cores, weights.memory), (1, 2, 3));
}

#[test]
fn a_wish_that_cannot_be_read_is_rejected_with_its_annotation() {
    for (annotation, value) in [
        ("hami.io/gpu-scheduler-policy", "bin-pack"),
        ("hami.io/node-scheduler-policy", "mutex"),
        ("hami.io/device-scoring-weights", "slot=1"),
        ("nvidia.com/numa-bind", "maybe"),
    ] {
        let metadata = format!("annotations: {{{annotation}: \"{value}\"}}");
        let cluster =
            means(&pod("p", &metadata, &format!("containers: [{}]", gpumem("main", 1000))));
        assert_eq!(*misuse(&cluster).fields, [format!("metadata.annotations[\"{annotation}\"]")]);
        let without_devices = means(&pod("p", &metadata, "containers: [{name: main}]"));
        assert!(
            containers(&without_devices)[0].needs.is_empty(),
            "it is about devices, and none are asked"
        );
    }
}

#[test]
fn numa_in_a_chain_orders_and_binds_nothing() {
    let metadata = "annotations: {hami.io/gpu-scheduler-policy: 'numa,binpack'}";
    let cluster = means(&pod("p", metadata, &format!("containers: [{}]", gpumem("main", 1000))));
    assert!(!containers(&cluster)[0].needs[0].selector.one_numa);
    assert_eq!(only(&cluster).request.spec.hints.devices, Some(Order::Pack));
}
