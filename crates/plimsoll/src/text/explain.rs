//! One pod as text: its decision, or why there is none.

use plimsoll_api::offline::{ChosenDevices, ExplainOutput, ExplainStatus};

use super::candidates::{Detail, candidates};
use super::decision::{clauses, decided_by, help, not_chosen, placed_on, requested, without_needs};
use super::live::reservation::prospects;
use super::page::{BAD, GOOD, ODD, Page};
use super::simulate::device_name;
use super::table::{Align, Table};
use super::{common_format, or_else};

/// Prints the explanation of a pod.
pub(crate) fn explain(page: &mut Page, pod: &ExplainOutput, detail: Detail) {
    let explanation = &pod.explanation;
    page.heading(&format!("{}/{}", pod.namespace, pod.pod));
    requested(page, explanation);
    match pod.status {
        ExplainStatus::Placed => {
            page.styled(2, GOOD, &placed_on(pod.node.as_deref().unwrap_or("?"), explanation));
        }
        ExplainStatus::Pending | ExplainStatus::Impossible | ExplainStatus::Rejected => {
            page.styled(2, BAD, &format!("{}: {}", pod.status, explanation.brief));
            clauses(page, 4, without_needs(&explanation.clauses));
        }
        ExplainStatus::Running => page.styled(2, GOOD, &explanation.summary),
        ExplainStatus::Gated | ExplainStatus::Finished => {
            page.styled(2, ODD, &format!("{}: {}", pod.status, explanation.summary));
        }
    }
    prospects(page, 2, explanation.forecast.as_ref());
    if let Some(chosen) = &pod.chosen {
        holds(page, chosen);
    }
    for what in &pod.not_considered {
        page.styled(2, ODD, &format!("not considered: {what}"));
    }
    not_chosen(page, &explanation.lost_by);
    candidates(page, "Nodes", explanation, pod.node.as_deref(), detail);
    if explanation.promised.is_some() || !pod.would_fit_if.is_empty() {
        page.heading("What would help");
        help(page, 2, explanation.promised.as_ref(), &pod.would_fit_if);
    }
    decided_by(page, explanation, None);
}

/// Prints the devices of each container, and the charges if containers share a device: the pod
/// holds the peak then, not the sum.
fn holds(page: &mut Page, chosen: &ChosenDevices) {
    if chosen.devices.is_empty() {
        return page.line(2, "holds no device");
    }
    let mut table = Table::new(&[
        ("CONTAINER", Align::Left),
        ("DEVICE", Align::Left),
        ("MEMORY", Align::Right),
        ("CORES", Align::Right),
    ]);
    let format = common_format(chosen.devices.iter().map(|charge| charge.bytes));
    let mut parts = 0;
    for container in &chosen.containers {
        for device in &container.devices {
            parts += 1;
            let cores = if device.cores == 0 { "-".to_string() } else { device.cores.to_string() };
            table.row([
                format!("{} ({})", container.name, container.role),
                device_name(&device.device),
                or_else(device.bytes.map(|bytes| format.show(bytes)), "undeclared"),
                cores,
            ]);
        }
    }
    table.print(page, 4);
    if parts != chosen.devices.len() {
        for charge in &chosen.devices {
            let memory = or_else(charge.bytes.map(|bytes| format.show(bytes)), "undeclared");
            page.line(4, &format!("the pod holds {memory} on {}", device_name(&charge.device)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_kube::cluster::Cluster;
    use plimsoll_sim::fixture;

    fn explained(cluster: &Cluster, pod: &str) -> String {
        let mut page = Page::default();
        let found = crate::commands::explain_in(cluster, pod).expect("it is decided");
        explain(&mut page, &found, Detail::Nearest);
        page.plain()
    }

    #[test]
    fn a_rejection_shows_every_device_with_its_numbers_and_holders() {
        let text = explained(&fixture::time_sliced(5), "test-4");
        assert!(text.contains("DEVICE              NEED     FREE  SHORT BY  VERDICT"), "{text}");
        assert!(
            text.contains("gpu-node/gpu-0  8000 MiB  607 MiB  7393 MiB  CardInsufficientMemory"),
            "{text}"
        );
        assert!(
            text.contains("held by default/test-0 (8000 MiB), default/test-1 (8000 MiB)"),
            "{text}"
        );
        assert!(text.contains("  pending: "), "{text}");
        assert!(text.contains("main failed: 1/1 CardInsufficientMemory"), "{text}");
        assert!(text.contains("would fit if   default/test-0 stopped (8000 MiB)"), "{text}");
    }

    #[test]
    fn a_placement_shows_what_was_not_chosen_and_the_score_term() {
        let mut cluster = fixture::gang();
        cluster.gangs.clear();
        cluster.pending.truncate(1);
        cluster.pending[0].gang = None;
        let text = explained(&cluster, "worker-0");
        assert!(text.contains("placed on node-a, score"), "{text}");
        assert!(text.contains("node-b: node, 5000 points behind (5000 in total)"), "{text}");
        assert!(text.contains("fits, chosen") && text.contains("fits, best here"), "{text}");
    }

    #[test]
    fn ties_are_decided_by_name() {
        let mut cluster = fixture::gang();
        cluster.gangs.clear();
        cluster.running.clear();
        cluster.pending.truncate(1);
        cluster.pending[0].gang = None;
        let text = explained(&cluster, "worker-0");
        assert!(text.contains("node-b: tie, decided by node name"), "{text}");
        assert!(text.contains("GPU-node-a-1 on node-a: tie, decided by device order"), "{text}");
    }

    #[test]
    fn a_running_pod_shows_what_it_holds() {
        let text = explained(&fixture::gang(), "busy");
        assert!(text.contains("running on node-a"), "{text}");
        assert!(text.contains("main (app)  GPU-node-a-0  80.0 GiB"), "{text}");
    }
}
