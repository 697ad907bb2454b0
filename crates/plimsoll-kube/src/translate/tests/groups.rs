//! Gangs: groups and who names them.

use super::*;

const MAIN: &str = "containers: [{name: main}]";

fn group(api: &str, name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: {api}\nkind: PodGroup\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

#[test]
fn pods_name_their_group_in_eight_ways() {
    for (api, spec, metadata, of_pod) in [
        (
            "scheduling.x-k8s.io/v1alpha1",
            "minMember: 2",
            "labels: {scheduling.x-k8s.io/pod-group: g}",
            "",
        ),
        (
            "scheduling.x-k8s.io/v1alpha1",
            "minMember: 2",
            "labels: {pod-group.scheduling.sigs.k8s.io: g}",
            "",
        ),
        ("scheduling.run.ai/v2alpha2", "minMember: 2", "annotations: {pod-group-name: g}", ""),
        ("scheduling.run.ai/v2alpha2", "minMember: 2", "labels: {pod-group-name: g}", ""),
        (
            "scheduling.volcano.sh/v1beta1",
            "minMember: 2",
            "annotations: {scheduling.k8s.io/group-name: g}",
            "",
        ),
        (
            "scheduling.volcano.sh/v1beta1",
            "minMember: 2",
            "annotations: {scheduling.volcano.sh/group-name: g}",
            "",
        ),
        (
            "scheduling.volcano.sh/v1beta1",
            "minMember: 2",
            "labels: {scheduling.volcano.sh/group-name: g}",
            "",
        ),
        (
            "scheduling.k8s.io/v1alpha2",
            "schedulingPolicy: {gang: {minCount: 2}}",
            "",
            "schedulingGroup: {podGroupName: g}, ",
        ),
    ] {
        let spec_of_pod = format!("{of_pod}{MAIN}");
        let text = group(api, "g", spec)
            + &pod("a", metadata, &spec_of_pod)
            + &pod("b", metadata, &spec_of_pod);
        let cluster = means(&text);
        assert_eq!(cluster.gangs.len(), 1, "{api}");
        assert_eq!((&*cluster.gangs[0].name, cluster.gangs[0].minimum), ("default/g", 2), "{api}");
        assert!(cluster.pending.iter().all(|one| one.gang == Some(0)), "{api}");
    }
}

#[test]
fn members_that_run_are_counted() {
    let label = "labels: {scheduling.x-k8s.io/pod-group: g}";
    let text = labelled("gpu", 1, 32_000, 1)
        + &group("scheduling.x-k8s.io/v1alpha1", "g", "minMember: 3")
        + &bound("a", "gpu", label, MAIN)
        + &pod("b", label, MAIN)
        + &pod("c", label, MAIN);
    let cluster = means(&text);
    assert_eq!((cluster.gangs[0].minimum, cluster.gangs[0].running), (3, 1));
}

#[test]
fn a_group_that_was_not_read_needs_all_its_pods_and_says_so() {
    let label = "labels: {scheduling.x-k8s.io/pod-group: g}";
    let cluster = means(&(pod("a", label, MAIN) + &pod("b", label, MAIN)));
    assert_eq!(cluster.gangs[0].minimum, 2);
    let said = "the minimum of pod group default/g, which was not read: all of its 2 pods are taken for it";
    assert_eq!(*cluster.pending[0].not_considered, [said]);
}

#[test]
fn a_group_without_a_minimum_is_no_gang() {
    let label = "labels: {scheduling.x-k8s.io/pod-group: g}";
    for spec in ["", "minMember: 1"] {
        let text = group("scheduling.x-k8s.io/v1alpha1", "g", spec)
            + &pod("a", label, MAIN)
            + &pod("b", label, MAIN);
        let cluster = means(&text);
        assert_eq!((cluster.gangs.len(), cluster.pending[0].gang), (0, None), "{spec}");
        assert!(cluster.pending[0].not_considered.is_empty());
    }
}

#[test]
fn the_pods_of_a_workload_are_one_gang() {
    let job = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: {parallelism: 4, completions: 4, template: \
               {metadata: {annotations: {pod-group-name: g}}, spec: {containers: [{name: main}]}}}\n";
    let cluster = means(&(group("scheduling.run.ai/v2alpha2", "g", "minMember: 4") + job));
    assert_eq!((cluster.gangs.len(), cluster.gangs[0].minimum, cluster.pending.len()), (1, 4, 4));
    assert!(cluster.pending.iter().all(|one| one.gang == Some(0)));
}
