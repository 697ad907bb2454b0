//! What was understood, said before anything is claimed: nodes, devices, where capacity comes from, who chooses the card.

use std::collections::BTreeMap;

use plimsoll_core::device::{Capacity, Device, DeviceChoice, Sharing, Source};
use plimsoll_core::request::{Amount, PlainRule};
use plimsoll_core::units::Bytes;
use plimsoll_kube::cluster::{Cluster, NodeFacts};

use super::count;
use super::page::{FAINT, ODD, Page};

/// Says what was understood.
pub(crate) fn understood(page: &mut Page, cluster: &Cluster, plain: PlainRule) {
    page.heading("Understood");
    for (text, odd) in node_lines(cluster) {
        page.styled(2, if odd { ODD } else { super::page::PLAIN }, &text);
    }
    page.line(2, &pods(cluster));
    if let Some(ignored) = ignored(cluster) {
        page.styled(2, FAINT, &ignored);
    }
    not_counted(page, cluster);
    if has_plain(cluster) && has_shared(cluster) {
        page.line(
            2,
            &format!(
                "device requests that declare no memory: {} (--plain {plain})",
                plain_words(plain)
            ),
        );
    }
    page.styled(2, FAINT, "telemetry: none, so placements go by what is booked");
}

/// One line for each kind of node; nodes that are alike share it.
fn node_lines(cluster: &Cluster) -> Vec<(String, bool)> {
    let mut alike: Vec<(String, Vec<&NodeFacts>)> = Vec::new();
    let mut at: BTreeMap<String, usize> = BTreeMap::new();
    for facts in &cluster.nodes {
        let words = node_words(facts);
        let index = *at.entry(words.clone()).or_insert_with(|| {
            alike.push((words, Vec::new()));
            alike.len() - 1
        });
        alike[index].1.push(facts);
    }
    let line = |(words, nodes): (String, Vec<&NodeFacts>)| {
        let name = match &nodes[..] {
            [one] => one.node.name.to_string(),
            [first, second] => format!("{} and {}", first.node.name, second.node.name),
            [first, rest @ ..] => format!("{} and {} nodes like it", first.node.name, rest.len()),
            [] => String::new(),
        };
        let odd = nodes.iter().any(|facts| facts.node.unknown.is_some());
        (format!("{name}: {words}"), odd)
    };
    alike.into_iter().map(line).collect()
}

fn node_words(facts: &NodeFacts) -> String {
    let node = &facts.node;
    if let Some(unknown) = &node.unknown {
        return format!("its devices are unknown: {unknown}");
    }
    if node.devices.is_empty() {
        return "no devices".to_string();
    }
    let mut words = vec![devices_words(&node.devices, facts.capacity_source)];
    if let Some(advertised) =
        facts.advertised.filter(|advertised| *advertised != node.devices.len() as u64)
    {
        words.push(format!("advertised as {advertised} ({})", sharing_words(&node.devices)));
    }
    if node.missing_cards > 0 {
        words.push(format!(
            "{} unhealthy, which is not known",
            count(usize::from(node.missing_cards), "card")
        ));
    }
    words.push(choice_words(facts));
    words.join(", ")
}

/// The devices of a node, equal ones together: `8 devices NVIDIA-A100, 40 GiB each by register`.
fn devices_words(devices: &[Device], source: &str) -> String {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for device in devices {
        let words = device_words(device, source);
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, number)) => *number += 1,
            None => groups.push((words, 1)),
        }
    }
    let group = |(words, number): (String, usize)| format!("{} {words}", count(number, "device"));
    groups.into_iter().map(group).collect::<Vec<_>>().join(" + ")
}

fn device_words(device: &Device, source: &str) -> String {
    let model = device.model.as_deref().unwrap_or(&device.kind);
    let memory = match &device.memory.total {
        Capacity::Known { bytes, source: Source::Declared } => format!("{bytes} declared"),
        Capacity::Known { bytes, source } => format!("{bytes} by {source}"),
        Capacity::Unknown { missing } if source == "declared" => {
            format!("memory unknown: {missing}, counted as declared")
        }
        Capacity::Unknown { missing } => format!("memory unknown: {missing}, counted by {source}"),
    };
    let reserve = match device.memory.reserve {
        Bytes::ZERO => String::new(),
        reserve => format!(", {reserve} of it reserved"),
    };
    let cap =
        device.memory.cap.map(|cap| format!(", at most {cap} to be used")).unwrap_or_default();
    format!("{model} ({memory}{reserve}{cap})")
}

fn sharing_words(devices: &[Device]) -> String {
    let replicas = devices.iter().find_map(|device| match device.sharing {
        Sharing::Tokens { replicas, .. } => Some(replicas),
        _ => None,
    });
    let sharing = plimsoll_api::device::sharing(devices);
    match replicas {
        Some(replicas) => format!("{sharing} x{replicas}, access and not capacity"),
        None if sharing == "none" => "not shared".to_string(),
        None => sharing,
    }
}

fn choice_words(facts: &NodeFacts) -> String {
    let several = facts.node.devices.len() > 1;
    match facts.choice {
        DeviceChoice::Owned => "the scheduler chooses the card".to_string(),
        DeviceChoice::Plugin if !several => "one card, so there is no choice".to_string(),
        DeviceChoice::Plugin
            if facts.node.devices.iter().any(|device| facts.node.floats(&device.kind)) =>
        {
            "the device plugin chooses the card, so a share must fit whichever it is".to_string()
        }
        DeviceChoice::Plugin => "the device plugin chooses the card".to_string(),
    }
}

fn pods(cluster: &Cluster) -> String {
    let read = &cluster.understood;
    let mut words = vec![format!("{} running", read.running)];
    let more = [
        (read.terminating, "terminating"),
        (read.finished, "finished"),
        (read.gated, "held back by scheduling gates"),
    ];
    words.extend(
        more.iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{number} {what}")),
    );
    let expanded = match read.expanded {
        0 => String::new(),
        number => format!(" ({number} made from workloads)"),
    };
    words.push(format!("{} pending{expanded}", read.pending));
    format!("pods: {}", words.join(", "))
}

fn ignored(cluster: &Cluster) -> Option<String> {
    let kinds = &cluster.understood.ignored;
    let words: Vec<String> =
        kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    (!words.is_empty()).then(|| format!("not read: {}", words.join(", ")))
}

/// Pods that do not count, or not as they are written.
fn not_counted(page: &mut Page, cluster: &Cluster) {
    const SHOWN: usize = 5;
    for (finding, problem) in cluster.pod_problems().take(SHOWN) {
        let as_written = if problem.leaves_pods_out() { "" } else { " as written" };
        page.styled(2, ODD, &format!("not counted{as_written}: {}", finding.message()));
    }
    let more = cluster.pod_problems().skip(SHOWN).count();
    if more > 0 {
        page.styled(
            2,
            ODD,
            &format!("not counted, or not as written: {more} more (plimsoll audit names them)"),
        );
    }
}

fn has_plain(cluster: &Cluster) -> bool {
    let needs = |pending: &plimsoll_kube::cluster::Pending| {
        let containers = pending.request.spec.shapes().iter().flat_map(|shape| &shape.containers);
        containers
            .flat_map(|container| &container.needs)
            .any(|need| matches!(need.amount, Amount::Plain(_)))
    };
    cluster.pending.iter().any(needs)
}

/// Whether there is a card on which a request without declared memory leaves a question open.
fn has_shared(cluster: &Cluster) -> bool {
    let mut devices = cluster.nodes.iter().flat_map(|facts| &facts.node.devices);
    devices.any(|device| device.sharing != Sharing::Exclusive)
}

fn plain_words(rule: PlainRule) -> &'static str {
    match rule {
        PlainRule::Whole => "each counts as the whole card where the card is shared",
        PlainRule::EqualShare => "each counts as an equal share of the card",
        PlainRule::Refuse => "refused where the card is shared",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::units::Name;
    use plimsoll_kube::finding::{AnnotationProblem, Finding, PodProblem, Problem, UserAnnotation};
    use plimsoll_sim::fixture;

    #[test]
    fn capacity_source_and_choice_are_said() {
        let mut page = Page::default();
        let mut cluster = fixture::time_sliced(1);
        cluster.understood.ignored.insert("Service".to_string(), 2);
        understood(&mut page, &cluster, PlainRule::Whole);
        let text = page.plain();
        assert!(
            text.contains("gpu-node: 1 device RTX-5090 (32607 MiB by label), advertised as 100"),
            "{text}"
        );
        assert!(text.contains("the scheduler chooses the card"), "{text}");
        assert!(text.contains("not read: 2 Service"), "{text}");
        assert!(text.contains("telemetry: none"), "{text}");
        assert!(!text.contains("--plain"), "nobody asked without declaring memory: {text}");
    }

    #[test]
    fn pods_that_do_not_count_are_named_and_many_of_them_folded() {
        let finding = |problem| Finding { node: None, device: None, problem };
        let pod = |i: usize| Name::from(format!("d/p{i}"));
        let invalid = |i| PodProblem::RequestInvalid { pod: pod(i), problem: "odd".into() };
        let unknown = PodProblem::NodeUnknown { node: "n".into(), pods: 1, first: pod(9) };
        let annotation = UserAnnotation::PodHasNoNode;
        let by_user = PodProblem::AnnotationByUser { pod: pod(7), key: "k", annotation };
        let empty = Problem::Node(AnnotationProblem::DeclarationEmpty.into());
        let problems = [unknown, by_user].into_iter().chain((0..6).map(invalid));
        let mut cluster = fixture::time_sliced(0);
        cluster.findings = problems.map(|problem| finding(Problem::Pod(problem))).collect();
        cluster.findings.push(finding(empty));
        let mut page = Page::default();
        understood(&mut page, &cluster, PlainRule::Whole);
        let text = page.plain();
        assert!(
            text.contains("  not counted: d/p9 is on node n")
                && text.contains("  not counted as written: d/p0 runs, and its request is invalid"),
            "{text}"
        );
        assert!(text.contains("not counted, or not as written: 2 more"), "{text}");
        assert!(!text.contains("d/p4") && !text.contains("d/p7"), "{text}");
    }

    #[test]
    fn nodes_that_are_alike_share_a_line() {
        let mut cluster = fixture::gang();
        let third = NodeFacts {
            node: plimsoll_core::device::Node {
                name: "node-c".into(),
                ..cluster.nodes[0].node.clone()
            },
            ..cluster.nodes[0].clone()
        };
        cluster.nodes.push(third);
        let mut page = Page::default();
        understood(&mut page, &cluster, PlainRule::Whole);
        assert!(
            page.plain()
                .contains("node-a and 2 nodes like it: 2 devices NVIDIA (80 GiB by register)")
        );
    }
}
