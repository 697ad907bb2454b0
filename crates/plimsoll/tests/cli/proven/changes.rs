//! Rows in which something changes while it is watched: B7 and B15 live.

use std::time::Duration;

use plimsoll_testbed::api::{Api, node_path};
use plimsoll_testbed::client::Client;
use serde_json::json;

use super::rows::{allocated, limited, node, on, register, registered};
use super::{Asked, Row, create, held, is_as_stated};
use crate::watching::Watching;

const SOON: Duration = Duration::from_secs(20);

/// Waits until the cards of a node are held by these: card, pod and MiB.
fn becomes(watching: &mut Watching, node: &str, wanted: &[(&str, &str, u64)]) {
    let wanted: Vec<(String, String, u64)> =
        wanted.iter().map(|(card, pod, mib)| ((*card).into(), (*pod).into(), *mib)).collect();
    for _ in 0..200 {
        if held(watching, node) == wanted {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(held(watching, node), wanted, "{node}");
}

fn annotate(admin: &Client, node: &str, key: &str, value: &str) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    admin.patch(&node_path(node), patch).expect("a node");
}

pub(super) fn are_followed(admin: &Client, watching: &mut Watching) {
    cards_in_another_order_keep_their_charges(admin, watching);
    a_uuid_that_is_learnt_later_takes_over(admin, watching);
    a_card_that_fails_is_one_less(admin, watching);
}

/// B15.
fn cards_in_another_order_keep_their_charges(admin: &Client, watching: &mut Watching) {
    const REGISTER: &str = "hami.io/node-nvidia-register";
    let (a, b) = (("GPU-15a", 40_960), ("GPU-15b", 40_960));
    let row = Row {
        case: "B15",
        node: registered("b15", &[a, b]),
        pods: vec![
            allocated("on-a", "b15", "GPU-15a", 30_000),
            allocated("on-b", "b15", "GPU-15b", 10_000),
        ],
        held: vec![],
        asked: vec![],
        found: &[],
    };
    create(admin, &row);
    becomes(watching, "b15", &[("GPU-15a", "on-a", 30_000), ("GPU-15b", "on-b", 10_000)]);
    annotate(admin, "b15", REGISTER, &register(&[b, a]));
    becomes(watching, "b15", &[("GPU-15b", "on-b", 10_000), ("GPU-15a", "on-a", 30_000)]);
    // Of a card that vanished nothing is forgotten: its holder counts wherever it can be.
    annotate(admin, "b15", REGISTER, &register(&[b]));
    becomes(watching, "b15", &[("GPU-15b", "on-a", 30_000), ("GPU-15b", "on-b", 10_000)]);
    watching.until(SOON, |watching| {
        let findings = watching.text("/api/v1/findings").unwrap_or_default();
        findings.contains("allocation-unknown-device") && findings.contains("GPU-15a")
    });
    annotate(admin, "b15", REGISTER, &register(&[a, b]));
    becomes(watching, "b15", &[("GPU-15a", "on-a", 30_000), ("GPU-15b", "on-b", 10_000)]);
}

/// B15: known by its ordinal first.
fn a_uuid_that_is_learnt_later_takes_over(admin: &Client, watching: &mut Watching) {
    let holder = on("b15-late", limited("holder", &json!({"nvidia.com/gpu": "1"})));
    let row = Row {
        case: "B15, late",
        node: node("b15-late", 1, 40_960, 1),
        pods: vec![holder],
        held: vec![],
        asked: vec![],
        found: &[],
    };
    create(admin, &row);
    becomes(watching, "b15-late", &[("b15-late/gpu-0", "holder", 40_960)]);
    let named = r#"[{"uuid": "GPU-15c", "memory": "40960MiB"}]"#;
    annotate(admin, "b15-late", "plimsoll.dev/devices", named);
    becomes(watching, "b15-late", &[("GPU-15c", "holder", 40_960)]);
}

/// B7: the kubelet takes unhealthy cards out of allocatable only.
fn a_card_that_fails_is_one_less(admin: &Client, watching: &mut Watching) {
    let whole = |name: &str| limited(name, &json!({"nvidia.com/gpu": "1"}));
    let mut row = Row {
        case: "B7, live",
        node: node("b7-live", 2, 32_607, 1),
        pods: vec![on("b7-live", whole("one")), whole("two")],
        held: vec![("b7-live/gpu-0", "one", 32_607)],
        asked: vec![Asked { pod: "two", fits: true, because: &[] }],
        found: &[],
    };
    create(admin, &row);
    let fits = |wanted: bool| {
        move |watching: &Watching| {
            super::opinion(watching, "b7-live", "two").is_some_and(|(fits, _)| fits == wanted)
        }
    };
    watching.until(SOON, fits(true));
    is_as_stated(watching, &row);
    let allocatable = |tokens: &str| {
        let status = json!({"status": {"allocatable": {"nvidia.com/gpu": tokens}}});
        let path = format!("{}/status", node_path("b7-live"));
        admin.patch(&path, status).expect("a status");
    };
    allocatable("1");
    watching.until(SOON, fits(false));
    row.asked[0].fits = false;
    is_as_stated(watching, &row);
    allocatable("2");
    watching.until(SOON, fits(true));
}
