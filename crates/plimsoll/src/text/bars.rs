//! The load of every device of a simulated cluster, one bar a device.

use plimsoll_core::device::{Health, Identity};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::room::NodeView;
use plimsoll_kube::cluster::Cluster;

use super::load::{self, Load};
use super::page::Page;

/// The load of every device.
pub(crate) fn bars(page: &mut Page, cluster: &Cluster, ledger: &Ledger) {
    let views: Vec<&NodeView> = cluster
        .nodes
        .iter()
        .filter_map(|facts| ledger.view(ledger.node_id(&facts.node.name)?))
        .collect();
    if views.iter().all(|view| view.node.devices.is_empty()) {
        return;
    }
    page.heading("Load");
    let mut shown = Vec::new();
    let label = |view: &NodeView, at: usize| {
        let label = view.node.device_label(at);
        match view.node.devices[at].identity {
            Identity::Ordinal => label,
            Identity::Uuid(_) => format!("{}  {label}", view.node.name),
        }
    };
    let width = views
        .iter()
        .flat_map(|view| (0..view.node.devices.len()).map(|at| label(view, at).chars().count()));
    let width = width.max().unwrap_or(0);
    for view in views {
        for (at, room) in view.room.devices().iter().enumerate() {
            let name = format!("{:width$}  ", label(view, at));
            load::bar(page, &name, &Load::of(room), &remarks(view, at), &mut shown);
        }
    }
    load::legend(page, &shown);
}

fn remarks(view: &NodeView, at: usize) -> String {
    let device = &view.node.devices[at];
    let health = match device.health {
        Health::Healthy => "",
        Health::Faulty => ", faulty",
        Health::Gone => ", gone",
    };
    let cordoned = if device.cordoned { ", cordoned" } else { "" };
    let closed = if view.room.devices()[at].closed() { ", closed" } else { "" };
    format!("{health}{cordoned}{closed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_sim::fixture;

    fn drawn(cluster: &Cluster) -> String {
        let mut page = Page::default();
        bars(&mut page, cluster, fixture::run(cluster).ledger());
        page.plain()
    }

    #[test]
    fn a_bar_shows_what_is_held_and_what_is_free() {
        let text = drawn(&fixture::time_sliced(5));
        let bar = format!(
            "  gpu-node/gpu-0  [{}-|]  32000 MiB of 32607 MiB, 4 tenants\n",
            "#".repeat(31)
        );
        assert!(text.contains(&bar), "{text}");
        assert!(text.contains("# held, - free, | the line"), "{text}");
    }

    #[test]
    fn what_is_over_the_line_stands_behind_it() {
        let text = drawn(&fixture::too_late());
        let bar = format!(
            "[{}|!!!!!!!]  40000 MiB of 32607 MiB, 5 tenants, OVER by 7393 MiB",
            "#".repeat(32)
        );
        assert!(text.contains(&bar), "{text}");
    }

    #[test]
    fn what_is_being_given_back_is_not_drawn_as_free() {
        let text = drawn(&fixture::releasing());
        assert!(
            text.contains(&format!(
                "[{}{}|]  60 GiB of 80 GiB, 1 tenant",
                "<".repeat(24),
                "-".repeat(8)
            )),
            "{text}"
        );
        assert!(text.contains("< being given back"), "{text}");
    }

    #[test]
    fn tenants_that_declare_no_memory_leave_the_rest_unknown() {
        let mut cluster = fixture::too_late();
        cluster.running.truncate(1);
        cluster.running[0].charges[0].amount = plimsoll_core::charge::Booked::Undeclared;
        let text = drawn(&cluster);
        assert!(
            text.contains(&format!("[{}|]  undeclared of 32607 MiB, 1 tenant\n", "?".repeat(32))),
            "{text}"
        );
        let mut cluster = fixture::too_late();
        cluster.running.truncate(2);
        cluster.running[0].charges[0].amount = plimsoll_core::charge::Booked::Undeclared;
        let text = drawn(&cluster);
        assert!(text.contains("]  8000 MiB + undeclared of 32607 MiB, 2 tenants\n"), "{text}");
    }

    #[test]
    fn without_devices_nothing_is_drawn() {
        let mut cluster = fixture::time_sliced(0);
        cluster.nodes[0].node.devices.clear();
        assert_eq!(drawn(&cluster), "");
    }
}
