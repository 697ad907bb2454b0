//! Who found no place: one sentence each with the nearest miss, and what would help.

use std::sync::Arc;

use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{Advice, Promised, Simulation};

use super::page::{BAD, FAINT, PLAIN, Page};

/// Equal answers in a row that are written out; the rest is counted unless all are wanted.
const ALIKE: usize = 8;

/// The refused pods.
pub(crate) fn refused(page: &mut Page, cluster: &Cluster, simulation: &Simulation, full: bool) {
    if simulation.rejected.is_empty() {
        return;
    }
    page.heading("Refused");
    let sentences: Vec<String> = simulation
        .rejected
        .iter()
        .map(|rejected| rejected.decision.summary().to_string())
        .collect();
    let mut from = 0;
    while from < simulation.rejected.len() {
        let advice = &simulation.rejected[from].advice;
        let alike = |to: &usize| {
            sentences[*to] == sentences[from]
                && Arc::ptr_eq(&simulation.rejected[*to].advice, advice)
        };
        let to = (from + 1..simulation.rejected.len())
            .find(|to| !alike(to))
            .unwrap_or(simulation.rejected.len());
        let shown = if full { to - from } else { (to - from).min(ALIKE) };
        for (refused, sentence) in
            simulation.rejected[from..from + shown].iter().zip(&sentences[from..])
        {
            let name = cluster.pending[refused.pending].request.id.to_string();
            page.pieces(2, &[(BAD, &*name), (PLAIN, ": "), (PLAIN, &**sentence)]);
        }
        if to - from > shown {
            page.styled(
                2,
                FAINT,
                &format!("and {} more with the same answer (--full names them)", to - from - shown),
            );
        }
        help(page, 4, advice);
        from = to;
    }
}

/// What would help, and what will be.
pub(super) fn help(page: &mut Page, indent: usize, advice: &Advice) {
    if let Some(promised) = &advice.promised {
        let Promised { promise, devices } = promised;
        let after: Vec<String> = promise.after.iter().map(ToString::to_string).collect();
        let device = |names: &Vec<String>| match &names[..] {
            [only] => only.clone(),
            several => format!("one of {}", several.join(", ")),
        };
        let text = format!(
            "will fit on {} ({}) once gone: {}",
            devices.iter().map(device).collect::<Vec<_>>().join(" and "),
            promise.placement.node,
            after.join(", ")
        );
        page.line(indent, &text);
    }
    for remedy in &advice.would_fit_if {
        page.line(indent, &format!("would fit if {}", remedy.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::device::{DeviceChoice, Sharing, Strategy};
    use plimsoll_sim::fixture;

    fn text(cluster: &Cluster, full: bool) -> String {
        let mut page = Page::default();
        refused(&mut page, cluster, &fixture::run(cluster), full);
        page.plain()
    }

    #[test]
    fn a_refusal_names_the_nearest_miss_and_what_would_help() {
        let text = text(&fixture::time_sliced(5), false);
        assert!(
            text.contains("default/test-4: needs 8000 MiB on one GPU; nearest is gpu-0 on"),
            "{text}"
        );
        assert!(text.contains("with 607 MiB free (7393 MiB short)"), "{text}");
        assert!(text.contains("    would fit if it asked for at most 607 MiB\n"), "{text}");
    }

    #[test]
    fn equal_answers_are_counted_and_written_out_on_request() {
        let cluster = fixture::time_sliced(400);
        let short = text(&cluster, false);
        assert!(short.contains("and 388 more with the same answer"), "{short}");
        assert_eq!(text(&cluster, true).matches("needs 8000 MiB").count(), 396);
    }

    #[test]
    fn a_promise_is_told() {
        let text = text(&fixture::releasing(), false);
        assert!(
            text.contains("will fit on node/gpu-0 (node) once gone: default/leaving"),
            "{text}"
        );
    }

    #[test]
    fn a_promise_names_all_cards_that_the_plugin_may_pick() {
        let mut cluster = fixture::releasing();
        let node = &mut cluster.nodes[0].node;
        node.devices.push(node.devices[0].clone());
        for device in &mut node.devices {
            device.sharing = Sharing::Tokens { replicas: 10, strategy: Strategy::TimeSlicing };
        }
        node.choice = DeviceChoice::Plugin;
        let text = text(&cluster, false);
        assert!(
            text.contains("will fit on one of node/gpu-0, node/gpu-1 (node) once gone:"),
            "{text}"
        );
    }
}
