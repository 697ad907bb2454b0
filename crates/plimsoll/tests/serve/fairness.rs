//! Fairness through a real server, over HTTP: small requests keep a runner busy, large ones start
//! within their bound, and accounts get their shares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Serve, file, scratch};

const GIB: u64 = 1 << 30;
const GPUS: usize = 2;
const GPU: u64 = 80 * GIB;

/// The time that a client uses a small model.
const HOLD: Duration = Duration::from_millis(300);

/// The bound is `HOLD` and the time to stop a slot, which is one message here. The rest is what a
/// busy machine takes for messages; a request that starves is not served within minutes.
const BOUND: Duration = Duration::from_secs(20);

/// A runner that speaks the protocol and starts and stops slots at once.
struct Runner<'a> {
    server: &'a Serve,
    sequence: u64,
    /// The reports of its slots by name.
    slots: BTreeMap<String, Value>,
    load: [u64; GPUS],
}

impl Runner<'_> {
    fn start(server: &Serve) -> Runner<'_> {
        server.register("r", GPUS);
        Runner { server, sequence: 1, slots: BTreeMap::new(), load: [0; GPUS] }
    }

    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            self.sequence += 1;
            let slots: Vec<&Value> = self.slots.values().collect();
            let beat = json!({"session": 1, "sequence": self.sequence, "slots": slots});
            let (status, orders) =
                self.server.ask("POST", "/api/v1/runners/r/heartbeat", Some(&beat));
            assert_eq!(status, 200, "{orders}");
            self.obey(orders["orders"].as_array().expect("a list"));
            sleep(Duration::from_millis(30));
        }
    }

    fn obey(&mut self, orders: &[Value]) {
        let ordered: BTreeSet<&str> =
            orders.iter().filter_map(|one| one["slot"].as_str()).collect();
        self.slots.retain(|slot, _| ordered.contains(slot.as_str()));
        for order in orders {
            let slot = order["slot"].as_str().expect("a name").to_string();
            let known = self.slots.get(&slot).filter(|known| known["state"] != "gone");
            match (order["action"].as_str().expect("an action"), known.cloned()) {
                ("start", None) => {
                    let booked = &order["launch"]["devices"];
                    let booked: Vec<Value> = booked
                        .as_array()
                        .expect("its devices")
                        .iter()
                        .map(|one| json!({"index": one["index"], "bytes": one["bytes"]}))
                        .collect();
                    self.charge(&booked, u64::checked_add);
                    let report = json!({
                        "slot": slot, "generation": order["generation"], "model": order["model"], "state": "running",
                        "endpoint": "http://127.0.0.1:1", "booked": booked,
                    });
                    self.slots.insert(slot, report);
                }
                ("stop", Some(mut report)) => {
                    self.charge(
                        report["booked"].as_array().expect("its devices"),
                        u64::checked_sub,
                    );
                    report["state"] = json!("gone");
                    report["generation"] = order["generation"].clone();
                    self.slots.insert(slot, report);
                }
                _ => {}
            }
        }
    }

    /// Keeps the runner's own books of its GPUs, and checks them.
    fn charge(&mut self, booked: &[Value], change: fn(u64, u64) -> Option<u64>) {
        for device in booked {
            let index =
                usize::try_from(device["index"].as_u64().expect("an index")).expect("small");
            let bytes = device["bytes"].as_u64().expect("a charge");
            let load = change(self.load[index], bytes).expect("no overflow");
            assert!(load <= GPU, "GPU {index} holds {load} bytes");
            self.load[index] = load;
        }
    }
}

/// Reserves models one after the other, each for `HOLD`.
fn client(server: &Serve, models: &[String], is_over: &AtomicBool, served: &AtomicUsize) {
    for model in models.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let wanted = json!({"model": model, "wait": "2s"});
        let (_, row) = server.ask("POST", "/api/v1/scheduler/slots", Some(&wanted));
        if row["status"] == "ready" {
            sleep(HOLD);
            served.fetch_add(1, Ordering::Relaxed);
        }
        let id = row["id"].as_str().unwrap_or_else(|| panic!("{row}"));
        server.ask("DELETE", &format!("/api/v1/scheduler/slots/{id}"), None);
    }
}

fn declare(server: &Serve, name: &str, memory: u64, more: &Value) {
    let mut model = json!({
        "name": name, "memory": format!("{memory}GiB"), "idle_limit": "0s",
        "runtime": {"command": {"argv": ["serve"]}},
    });
    for (key, value) in more.as_object().expect("fields") {
        model[key] = value.clone();
    }
    let (status, row) = server.ask("PUT", &format!("/api/v1/models/{name}"), Some(&model));
    assert_eq!(status, 201, "{row}");
}

/// The wait of one request.
struct Waited {
    time: Duration,
    /// The codes of its expected start while it was pending.
    expected: BTreeSet<String>,
    /// The longest list of holders that its memory was promised after.
    promised_after: usize,
}

/// Reserves a model, waits until it is ready, and releases it.
fn wait_for(server: &Serve, model: &str) -> Waited {
    let asked = Instant::now();
    let (_, row) = server.ask("POST", "/api/v1/scheduler/slots", Some(&json!({"model": model})));
    let path = format!("/api/v1/scheduler/slots/{}", row["id"].as_str().expect("an id"));
    let (mut expected, mut promised_after) = (BTreeSet::new(), 0);
    loop {
        let row = server.get(&path);
        if row["status"] == "ready" {
            let time = asked.elapsed();
            only_evicted_for(server, &row["slot_id"]);
            server.ask("DELETE", &path, None);
            return Waited { time, expected, promised_after };
        }
        let forecast = &row["forecast"];
        if forecast.is_object() {
            let start = &forecast["start"];
            let code = start["code"].as_str().expect("a code");
            // An older request may have the promise of retired holders for a moment.
            let is_later = ["after_request", "at_next_change"].contains(&code);
            assert!(start["bounded"] == true || is_later, "{row}");
            assert!(forecast["position"].as_u64().is_some_and(|position| position >= 1), "{row}");
            expected.insert(code.to_string());
            let after = row["promised"]["after"].as_array().map_or(0, Vec::len);
            promised_after = promised_after.max(after);
        }
        assert!(asked.elapsed() < BOUND, "{model} starves: {row}");
        sleep(Duration::from_millis(10));
    }
}

/// Returns the number of a slot: later ones have larger numbers.
fn number(slot: &Value) -> u64 {
    let digits = slot.as_str().and_then(|slot| slot.strip_prefix("slot-"));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{slot}"))
}

/// Checks that nothing was evicted for later slots from the first decision about this one until it
/// was placed. A later slot may be promised what the holders of this one leave over.
fn only_evicted_for(server: &Serve, slot: &Value) {
    let rows = server.get("/api/v1/scheduler/decisions?limit=5000");
    let rows = rows.as_array().expect("a list");
    let is_own = |row: &Value| row["slot_id"] == *slot;
    let first = rows.iter().rposition(is_own).expect("it was decided");
    let placed = rows.iter().position(|row| is_own(row) && row["placed"] == true);
    let while_pending = &rows[placed.expect("it was placed")..=first];
    let own = while_pending.iter().filter(|row| is_own(row));
    let holders = own.filter_map(|row| row["promised"]["after"].as_array()).flatten();
    let holders: BTreeSet<&str> = holders.filter_map(Value::as_str).collect();
    for row in while_pending.iter().filter(|row| number(&row["slot_id"]) > number(slot)) {
        for evicted in row["evictions"].as_array().expect("a list") {
            let (model, id) = (evicted["model"].as_str(), evicted["slot_id"].as_str());
            let holder = format!("{}/{}", model.expect("a model"), id.expect("a slot"));
            assert!(holders.contains(holder.as_str()), "evicted for a later request: {row}");
        }
    }
}

#[test]
fn h1_a_request_for_a_whole_gpu_and_one_for_two_start_within_their_bound() {
    let dir = scratch();
    let config = file(dir.path(), "config.yaml", "policy: spread\nresidency: 0s\n");
    let config = config.display().to_string();
    let server = Serve::start(dir.path(), &["--config", &config]);
    let small: Vec<String> = (0..10).map(|number| format!("small-{number}")).collect();
    small.iter().for_each(|name| declare(&server, name, 20, &json!({})));
    declare(&server, "large", 74, &json!({}));
    // It leaves no room for a small one beside it, which could be promised the rest.
    declare(&server, "parallel", 148, &json!({"tensor_parallel": [2]}));
    let runner = Runner::start(&server);
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| runner.run(&is_over));
        for number in 0..6 {
            let (server, is_over, served) = (&server, &is_over, &served);
            let mut models = small.clone();
            models.rotate_left(number * 3 % small.len());
            scope.spawn(move || client(server, &models, is_over, served));
        }
        while served.load(Ordering::Relaxed) < 20 {
            sleep(Duration::from_millis(50));
        }
        for model in ["large", "parallel"] {
            let Waited { time, expected, promised_after } = wait_for(&server, model);
            println!("{model} waited {time:?} for {promised_after} holders: {expected:?}");
            assert!(promised_after > 0, "{model} had to wait for holders");
        }
        drop(over);
    });
    // The small requests behind the large ones were served again.
    assert!(served.load(Ordering::Relaxed) > 20);
}

/// Ends all threads when it is dropped, also by a failed assertion.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the bytes that an account holds.
fn held(server: &Serve, account: &str) -> u64 {
    let rows = server.get("/api/v1/scheduler/accounts");
    let mut rows = rows.as_array().expect("a list").iter();
    let row = rows.find(|row| row["account"] == account).unwrap_or_else(|| panic!("no {account}"));
    row["held"]["memory"].as_u64().expect("bytes")
}

#[test]
fn h2_accounts_with_equal_guarantees_hold_equal_memory_and_lend_what_is_idle() {
    let dir = scratch();
    let [a, b] = ["a", "b"]
        .map(|team| -> Vec<String> { (0..8).map(|number| format!("{team}-{number}")).collect() });
    let config = json!({"residency": "0s", "accounts": {
        "research": {"guaranteed": {"memory": "160GiB"}},
        "a": {"parent": "research", "members": a, "guaranteed": {"memory": "80GiB"}},
        "b": {"parent": "research", "members": b, "guaranteed": {"memory": "80GiB"}},
    }});
    let config = file(dir.path(), "config.yaml", &config.to_string()).display().to_string();
    let server = Serve::start(dir.path(), &["--config", &config]);
    a.iter().chain(&b).for_each(|name| declare(&server, name, 20, &json!({"idle_limit": "1h"})));
    let runner = Runner::start(&server);
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| runner.run(&is_over));
        let start_clients = |models: &[String]| {
            for model in models {
                let (server, is_over, served) = (&server, &is_over, &served);
                let models = [model.clone()];
                scope.spawn(move || client(server, &models, is_over, served));
            }
        };
        start_clients(&a);
        let lent_by = Instant::now() + BOUND;
        while held(&server, "a") < 160 * GIB {
            assert!(Instant::now() < lent_by, "the idle share of b is not lent");
            sleep(Duration::from_millis(50));
        }
        start_clients(&b);
        let back_by = Instant::now() + BOUND;
        while held(&server, "b") < 80 * GIB {
            assert!(Instant::now() < back_by, "b does not get its share back");
            sleep(Duration::from_millis(50));
        }
        let difference = |_: usize| {
            sleep(Duration::from_millis(50));
            held(&server, "a").abs_diff(held(&server, "b"))
        };
        let differences: Vec<u64> = (0..40).map(difference).collect();
        let mean = differences.iter().sum::<u64>() / 40;
        assert!(mean <= 20 * GIB, "the accounts differ by {mean} bytes: {differences:?}");
        drop(over);
    });
}
