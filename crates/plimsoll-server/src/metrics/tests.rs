//! Scrapes after a series of events.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;

use super::slots::{EndingCounter, RejectionCounter};
use super::waits::WaitTimes;
use super::*;
use crate::rehearsal::{GIB, Rehearsal};

/// Returns the text of a scrape.
fn shown(world: &mut Rehearsal, counted: &Counted) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    for (file, text) in [
        ("journal.db", "12345"),
        ("journal.db-wal", "1"),
        ("snapshot-0.json", "123"),
        ("lock", "1"),
    ] {
        fs::write(dir.path().join(file), text).expect("a file");
    }
    let sheet = world.host.with(world.now, |desk, core| Sheet::copy(desk, core));
    render(counted, &sheet, Some(&Files::read(dir.path())))
}

/// Returns the rows of a text by name, with labels in order.
fn rows(text: &str) -> BTreeMap<String, f64> {
    let row = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_string(), value.parse().expect("a number"))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// Returns a world with one of everything: placed, rejected, evicted, failed, foreign memory, a
/// breach.
fn eventful() -> (Rehearsal, Arc<Counted>) {
    let mut endings = EndingCounter::default();
    let rejections = RejectionCounter::default();
    let mut waits = WaitTimes::default();
    let counted = Arc::new(Counted::new(|registry| {
        endings.register(registry);
        rejections.register(registry);
        waits.register(registry);
    }));
    let mut world = Rehearsal::new(Policy::spread(), &[80, 40]);
    let mut watcher = counted.observer();
    world.model("a", "memory: 60GiB\nidle_limit: 0s");
    world.model("b", "memory: 70GiB");
    world.model("huge", "memory: 1000GiB");
    world.model("warm", "memory: 80GiB\nprewarm: true");
    let first = world.reserve("a");
    world.reserve("huge");
    world.show(&mut [&mut *watcher, &mut endings, &mut waits]);
    world.beat(&[60 * GIB, GIB]);
    world.release(first);
    world.show(&mut [&mut *watcher, &mut endings, &mut waits]);
    world.pass(1000);
    world.reserve("b");
    world.show(&mut [&mut *watcher, &mut endings, &mut waits]);
    world.pass(1000);
    world.beat(&[0, 41 * GIB]);
    world.show(&mut [&mut *watcher, &mut endings, &mut waits]);
    counted.rejected(Rejected::Rate);
    let asked = [
        ("method", "GET".to_string()),
        ("route", "other".to_string()),
        ("status", "2xx".to_string()),
    ];
    counted.http.get_or_create(&asked).observe(0.1);
    counted.start_failures.inc();
    (world, counted)
}

#[test]
fn events_are_counted_by_kind() {
    let (mut world, counted) = eventful();
    let rows = rows(&shown(&mut world, &counted));
    for (name, expected) in [
        (r#"plimsoll_build_info{version="0.1.0"}"#, 1.0),
        (r#"plimsoll_effects_total{effect="stop"}"#, 1.0),
        ("plimsoll_evictions_total", 1.0),
        (r#"plimsoll_reservations_ended_total{ending="released"}"#, 1.0),
        (r#"plimsoll_reservations_ended_total{ending="impossible"}"#, 1.0),
        (r#"plimsoll_breaches_found_total{kind="over_line"}"#, 1.0),
        (r#"plimsoll_breaches{kind="over_line"}"#, 1.0),
        (r#"plimsoll_breaches{kind="sums_differ"}"#, 0.0),
        (r#"plimsoll_http_rejected_total{reason="too_many_requests"}"#, 1.0),
        (r#"plimsoll_runners{state="online"}"#, 1.0),
        ("plimsoll_models", 4.0),
        (r#"plimsoll_device_utilisation_ratio{node="runner-1",gpu="1"}"#, 0.5),
        (r#"plimsoll_device_healthy{node="runner-1",gpu="1"}"#, 1.0),
        (r#"plimsoll_store_bytes{file="journal"}"#, 5.0),
        (r#"plimsoll_store_bytes{file="snapshots"}"#, 3.0),
    ] {
        assert_eq!(rows.get(name), Some(&expected), "{name} in {rows:#?}");
    }
    assert!(rows.contains_key(r#"plimsoll_queue_length{kind="prewarm"}"#));
    // Nothing was rejected for another reason; the core decides how often it tries.
    let rejected = rows[r#"plimsoll_decisions_total{outcome="rejected"}"#];
    assert!(rejected >= 2.0);
    assert_eq!(rows[r#"plimsoll_rejections_total{reason="CardInsufficientMemory"}"#], rejected);
}

#[test]
fn memory_by_stage_adds_up_to_the_load_of_the_ledger() {
    let (mut world, counted) = eventful();
    let text = shown(&mut world, &counted);
    let rows = rows(&text);
    let ledger = world.host.scheduler().ledger();
    let view = ledger.view(ledger.node_id("runner-1").expect("it is there")).expect("it is there");
    for (gpu, room) in view.room.devices().iter().enumerate() {
        let of = |stage: &str| {
            let name = format!(
                r#"plimsoll_device_memory_bytes{{node="runner-1",gpu="{gpu}",stage="{stage}"}}"#
            );
            rows.get(&name).copied().unwrap_or_else(|| panic!("{name} is not in {text}"))
        };
        let load: f64 =
            ["offered", "sent", "running", "releasing", "foreign"].into_iter().map(of).sum();
        let shown = rows[&format!(r#"plimsoll_device_load_bytes{{node="runner-1",gpu="{gpu}"}}"#)];
        assert_eq!((load, shown), (shown, room.load().get() as f64), "GPU {gpu}");
        assert_eq!(of("free"), room.free().expect("it is known").get() as f64);
        assert_eq!(of("total"), ((if gpu == 0 { 80 } else { 40 }) * GIB) as f64);
    }
}

#[test]
fn the_oldest_age_is_that_of_the_first_pending_request_without_prewarming() {
    let mut world = Rehearsal::new(Policy::pack(), &[80]);
    let counted = Arc::new(Counted::default());
    world.model("a", "memory: 80GiB");
    world.reserve("a");
    world.beat(&[0]);
    world.model("warm", "memory: 10GiB\nprewarm: true");
    world.pass(7000);
    let age =
        |world: &mut Rehearsal| rows(&shown(world, &counted))["plimsoll_queue_oldest_age_seconds"];
    assert_eq!(age(&mut world), 0.0);
    world.reserve("a");
    world.pass(3000);
    assert_eq!(age(&mut world), 3.0);
}

#[test]
fn waiting_times_are_measured_by_account_and_size() {
    let mut waits = WaitTimes::default();
    let counted = Arc::new(Counted::new(|registry| waits.register(registry)));
    let mut world = Rehearsal::new(Policy::pack(), &[80]);
    let shares =
        r#"{"team": {"members": ["large"], "guaranteed": {"memory": 85899345920}, "weight": 1}}"#;
    let accounts = serde_json::from_str(shares).expect("one share");
    let settings = Settings { accounts, ..world.host.scheduler().settings().clone() };
    world.host.configure(world.now, settings);
    world.model("small", "memory: 20GiB\nidle_limit: 1h");
    world.model("large", "memory: 74GiB");
    let first = world.reserve("small");
    world.show(&mut [&mut waits]);
    world.beat(&[20 * GIB]);
    world.reserve("large");
    world.show(&mut [&mut waits]);
    world.pass(7000);
    let rows_now = |world: &mut Rehearsal| rows(&shown(world, &counted));
    let pending = rows_now(&mut world);
    let oldest = r#"plimsoll_queue_oldest_wait_seconds{account="team",size="large"}"#;
    assert_eq!(pending[oldest], 7.0);
    assert_eq!(pending[r#"plimsoll_queue_expected{start="after_work"}"#], 1.0);
    assert_eq!(pending["plimsoll_queue_overdue_seconds"], 0.0);
    world.release(first);
    world.pass(15_000);
    let late = rows_now(&mut world);
    assert_eq!(late[r#"plimsoll_queue_expected{start="by"}"#], 1.0);
    assert_eq!(late["plimsoll_queue_overdue_seconds"], 5.0, "15 s after a stop within 10 s");
    world.beat(&[0]);
    world.show(&mut [&mut waits]);
    let placed = rows_now(&mut world);
    assert_eq!(placed[oldest], 0.0, "{placed:#?}");
    let name = "plimsoll_queue_wait_seconds";
    let of = |account: &str, size: &str, part: &str| {
        placed[&format!("{name}_{part}{{account=\"{account}\",size=\"{size}\"}}")]
    };
    assert_eq!((of("(others)", "small", "count"), of("(others)", "small", "sum")), (1.0, 0.0));
    assert_eq!((of("team", "large", "count"), of("team", "large", "sum")), (1.0, 22.0));
}

#[test]
fn models_beyond_a_number_share_a_label() {
    let mut world = Rehearsal::new(Policy::pack(), &[80]);
    for number in 0..250 {
        world.model(&format!("model-{number:03}"), "memory: 1GiB");
    }
    world.reserve("model-249");
    let rows = rows(&shown(&mut world, &Counted::default()));
    let names: BTreeSet<&str> = rows
        .keys()
        .filter_map(|name| {
            name.strip_prefix("plimsoll_model_reservations{model=\"")?.split('"').next()
        })
        .collect();
    assert_eq!(names.len(), 201);
    assert_eq!(rows[r#"plimsoll_model_reservations{model="(others)",status="starting"}"#], 1.0);
}

#[test]
fn a_client_cannot_invent_labels() {
    assert_eq!(method(&Method::GET), "GET");
    assert_eq!(method(&Method::from_bytes(b"INVENTED").expect("a method")), "other");
    assert_eq!(class(StatusCode::IM_A_TEAPOT), "4xx");
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Name and type of every metric in the documentation.
fn documented() -> BTreeMap<String, String> {
    let page = fs::read_to_string(root().join("docs/metrics.md")).expect("the page");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `plimsoll_")?.split('|').map(str::trim);
        let name = format!("plimsoll_{}", cells.next()?.trim_end_matches('`'));
        Some((name, cells.next()?.to_string()))
    };
    page.lines().filter_map(row).collect()
}

#[test]
fn the_documentation_lists_every_metric() {
    let (mut world, counted) = eventful();
    let text = shown(&mut world, &counted);
    let typed = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        Some((format!("{name}{suffix}"), kind.to_string()))
    };
    let shown: BTreeMap<String, String> = text.lines().filter_map(typed).collect();
    assert_eq!(shown, documented());
}

#[test]
fn every_alert_links_to_its_section_of_the_runbook() {
    let alerts = fs::read_to_string(root().join("deploy/prometheus/alerts.yaml")).expect("alerts");
    let runbook = fs::read_to_string(root().join("docs/alerts.md")).expect("the runbook");
    let sections: BTreeSet<&str> =
        runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut named = BTreeSet::new();
    for rule in alerts.split("- alert: ").skip(1) {
        let name = rule.lines().next().expect("a name");
        let link = format!(" docs/alerts.md#{}\n", name.to_lowercase());
        assert!(rule.contains("runbook_url: ") && rule.contains(&link), "{name} has no {link}");
        named.insert(name);
    }
    assert!(named.len() > 10, "{named:?}");
    assert_eq!(sections, named);
}

#[test]
fn dashboard_and_alerts_use_existing_metrics() {
    let documented = documented();
    for file in ["deploy/grafana/plimsoll.json", "deploy/prometheus/alerts.yaml"] {
        let text = fs::read_to_string(root().join(file)).expect("the file");
        let mut used = 0;
        for (at, _) in text.match_indices("plimsoll_") {
            let rest = &text[at..];
            let end =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let name = &rest[..end];
            let plain =
                ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let known = |name: &str| documented.contains_key(name);
            assert!(known(name) || plain.is_some_and(known), "{file} uses {name}");
            used += 1;
        }
        assert!(used > 5, "{file} uses {used} metrics");
    }
}
