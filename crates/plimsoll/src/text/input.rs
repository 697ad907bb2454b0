//! The summary of the input, printed before any result: nodes, devices, the source of their
//! capacity, and what chooses the card.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::device::{Capacity, Device, DeviceChoice, Sharing, Source};
use plimsoll_core::request::{Amount, PlainRule};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_kube::cluster::{Cluster, NodeFacts, Pending};
use plimsoll_kube::finding::{LabelProblem, NodeProblem, Problem};

use super::count;
use super::page::{FAINT, ODD, PLAIN, Page};

/// Prints the summary of the input.
pub(crate) fn input(page: &mut Page, cluster: &Cluster, plain: PlainRule) {
    page.heading("Input");
    for (nodes, text) in alike_nodes(cluster) {
        let unknown = nodes.iter().any(|facts| facts.node.unknown.is_some());
        let style = if unknown { ODD } else { PLAIN };
        page.styled(2, style, &format!("{}: {text}", node_names(&nodes)));
    }
    page.line(2, &pods(cluster));
    let ignored = &cluster.understood.ignored;
    if !ignored.is_empty() {
        let kinds: Vec<String> =
            ignored.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
        page.styled(2, FAINT, &format!("ignored: {}", kinds.join(", ")));
    }
    not_counted(page, cluster);
    if has_plain_request(cluster) && has_shared_device(cluster) {
        let rule = plain_rule(plain);
        page.line(2, &format!("device requests without declared memory: {rule} (--plain {plain})"));
    }
    page.styled(2, FAINT, "no live GPU metrics; using requested memory");
}

/// Groups the nodes that have the same description, in the order of their first node.
fn alike_nodes(cluster: &Cluster) -> Vec<(Vec<&NodeFacts>, String)> {
    let mut groups: Vec<(Vec<&NodeFacts>, String)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let uncounted = uncounted_nodes(cluster);
    for facts in &cluster.nodes {
        let numbering = match uncounted.contains(&facts.node.name) {
            true => Numbering::Assumed,
            false => Numbering::Told,
        };
        let text = node_text(facts, numbering);
        let at = *known.entry(text.clone()).or_insert(groups.len());
        if at == groups.len() {
            groups.push((Vec::new(), text));
        }
        groups[at].0.push(facts);
    }
    groups
}

fn node_names(nodes: &[&NodeFacts]) -> String {
    match nodes {
        [one] => one.node.name.to_string(),
        [first, second] => format!("{} and {}", first.node.name, second.node.name),
        [first, rest @ ..] => format!("{} and {} nodes like it", first.node.name, rest.len()),
        [] => String::new(),
    }
}

/// The source of the number of devices that a node only counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbering {
    Told,
    /// The devices that are advertised can be shares of one.
    Assumed,
}

fn uncounted_nodes(cluster: &Cluster) -> BTreeSet<&Name> {
    let nodes = cluster.findings.iter().filter_map(|finding| match &finding.problem {
        Problem::Node(NodeProblem::Label(LabelProblem::CardsUncounted { .. })) => {
            finding.node.as_ref()
        }
        _ => None,
    });
    nodes.collect()
}

fn node_text(facts: &NodeFacts, numbering: Numbering) -> String {
    let node = &facts.node;
    if let Some(unknown) = &node.unknown {
        return format!("devices unknown: {unknown}");
    }
    if node.devices.is_empty() {
        return "no devices".to_string();
    }
    let mut parts = vec![devices_text(&node.devices, facts.capacity_source, numbering)];
    if let Some(advertised) =
        facts.advertised.filter(|advertised| *advertised != node.devices.len() as u64)
    {
        let sharing = match numbering {
            Numbering::Told => sharing_text(&node.devices),
            Numbering::Assumed => "these can be shares of one card".to_string(),
        };
        parts.push(format!("advertised as {advertised} ({sharing})"));
    }
    if node.missing_cards > 0 {
        let cards = count(usize::from(node.missing_cards), "unhealthy card");
        parts.push(format!("{cards} (unknown which)"));
    }
    parts.extend(choice_text(facts).map(String::from));
    parts.join(", ")
}

/// Describes the devices of a node, equal ones together: `8 devices NVIDIA-A100 (40 GiB by label)`.
fn devices_text(devices: &[Device], source: &str, numbering: Numbering) -> String {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for device in devices {
        let text = device_text(device, source, numbering);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, number)) => *number += 1,
            None => groups.push((text, 1)),
        }
    }
    let groups = groups.into_iter();
    let groups = groups.map(|(text, number)| format!("{} {text}", count(number, "device")));
    groups.collect::<Vec<_>>().join(" + ")
}

fn device_text(device: &Device, source: &str, numbering: Numbering) -> String {
    let model = device.model.as_deref().unwrap_or(&device.kind);
    let memory = match &device.memory.total {
        Capacity::Known { bytes, source: Source::Declared } => format!("{bytes} declared"),
        Capacity::Known { bytes, source } => format!("{bytes} by {source}"),
        Capacity::Unknown { missing } if source == "declared" => {
            format!("declared; memory unknown: {missing}")
        }
        Capacity::Unknown { missing }
            if numbering == Numbering::Assumed && device.sharing != Sharing::Exclusive =>
        {
            format!("number unknown; memory unknown: {missing}")
        }
        Capacity::Unknown { missing } => format!("number by {source}; memory unknown: {missing}"),
    };
    let reserve = match device.memory.reserve {
        Bytes::ZERO => String::new(),
        reserve => format!(", {reserve} of it reserved"),
    };
    let cap = device.memory.cap.map_or(String::new(), |cap| format!(", capped at {cap}"));
    format!("{model} ({memory}{reserve}{cap})")
}

fn sharing_text(devices: &[Device]) -> String {
    let replicas = devices.iter().find_map(|device| match device.sharing {
        Sharing::Tokens { replicas, .. } => Some(replicas),
        _ => None,
    });
    let is_shared = devices.iter().any(|device| device.sharing != Sharing::Exclusive);
    let sharing = plimsoll_api::device::sharing(devices);
    match replicas {
        Some(replicas) => format!("{sharing} x{replicas}, adds no memory"),
        None if is_shared => sharing,
        None => "not shared".to_string(),
    }
}

/// Describes what chooses the card; `None` if there is no choice.
fn choice_text(facts: &NodeFacts) -> Option<&'static str> {
    let node = &facts.node;
    match facts.choice {
        DeviceChoice::Owned => Some("card chosen by the scheduler"),
        DeviceChoice::Plugin if node.devices.len() < 2 => None,
        DeviceChoice::Plugin if node.devices.iter().any(|device| node.floats(&device.kind)) => {
            Some("card chosen by the device plugin, so a share must fit on any card")
        }
        DeviceChoice::Plugin => Some("card chosen by the device plugin"),
    }
}

fn pods(cluster: &Cluster) -> String {
    let read = &cluster.understood;
    let mut parts = vec![format!("{} running", read.running)];
    for (number, state) in [
        (read.terminating, "terminating"),
        (read.finished, "finished"),
        (read.gated, "held back by scheduling gates"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {state}"));
        }
    }
    let expanded = match read.expanded {
        0 => String::new(),
        number => format!(" ({number} created from workloads)"),
    };
    parts.push(format!("{} pending{expanded}", read.pending));
    format!("pods: {}", parts.join(", "))
}

/// Prints the pods that do not count, or not as they are written.
fn not_counted(page: &mut Page, cluster: &Cluster) {
    const SHOWN: usize = 5;
    for (finding, problem) in cluster.pod_problems().take(SHOWN) {
        let as_written = if problem.leaves_pods_out() { "" } else { " as written" };
        page.styled(2, ODD, &format!("not counted{as_written}: {}", finding.message()));
    }
    let more = cluster.pod_problems().skip(SHOWN).count();
    if more > 0 {
        let text =
            format!("not counted, or not as written: {more} more (plimsoll audit lists them)");
        page.styled(2, ODD, &text);
    }
}

fn has_plain_request(cluster: &Cluster) -> bool {
    cluster.pending.iter().any(is_plain)
}

fn is_plain(pending: &Pending) -> bool {
    let containers = pending.request.spec.shapes().iter().flat_map(|shape| &shape.containers);
    let mut needs = containers.flat_map(|container| &container.needs);
    needs.any(|need| matches!(need.amount, Amount::Plain(_)))
}

/// Returns whether a card is shared, so that the rule for undeclared memory matters.
fn has_shared_device(cluster: &Cluster) -> bool {
    let mut devices = cluster.nodes.iter().flat_map(|facts| &facts.node.devices);
    devices.any(|device| device.sharing != Sharing::Exclusive)
}

fn plain_rule(rule: PlainRule) -> &'static str {
    match rule {
        PlainRule::Whole => "each counts as the whole card if the card is shared",
        PlainRule::EqualShare => "each counts as an equal share of the card",
        PlainRule::Refuse => "rejected if the card is shared",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::units::Name;
    use plimsoll_kube::finding::{AnnotationProblem, Finding, PodProblem, Problem, UserAnnotation};
    use plimsoll_sim::fixture;

    fn text(cluster: &Cluster) -> String {
        let mut page = Page::default();
        input(&mut page, cluster, PlainRule::Whole);
        page.plain()
    }

    #[test]
    fn capacity_source_and_choice_are_shown() {
        let mut cluster = fixture::time_sliced(1);
        cluster.understood.ignored.insert("Service".to_string(), 2);
        let text = text(&cluster);
        assert!(
            text.contains("gpu-node: 1 device RTX-5090 (32607 MiB by label), advertised as 100"),
            "{text}"
        );
        assert!(text.contains("card chosen by the scheduler"), "{text}");
        assert!(text.contains("ignored: 2 Service"), "{text}");
        assert!(text.contains("no live GPU metrics"), "{text}");
        assert!(!text.contains("--plain"), "all pods declare their memory: {text}");
    }

    #[test]
    fn pods_that_do_not_count_are_named_and_many_are_counted() {
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
        let text = text(&cluster);
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
        let mut third = cluster.nodes[0].clone();
        third.node.name = "node-c".into();
        cluster.nodes.push(third);
        let text = text(&cluster);
        assert!(
            text.contains("node-a and 2 nodes like it: 2 devices NVIDIA (80 GiB by register)"),
            "{text}"
        );
    }
}
