//! Takeover under load: bindings arrive at a constant rate while the deciding replica crashes, and
//! while another is shut down.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_testbed::api::{Api, pod_path};
use plimsoll_testbed::objects;
use serde_json::json;

use super::cluster::{Cluster, Replica, text, until};

/// Attempts to bind per second.
const RATE: u32 = 100;

const WORKERS: u32 = 16;

const NODES: usize = 12;
/// The policy of the guard looks at every pod of a namespace for each of its bindings.
const NAMESPACES: usize = 50;

/// Threads that create pods.
const CREATORS: usize = 8;

const PODS: usize = 700;

/// The memory of the only card of each node.
const LINE: u64 = 32_607;

/// The lease and three seconds after a crash; five seconds after a clean hand-over.
const CRASH: Duration = Duration::from_secs(12 + 3);
const HAND_OVER: Duration = Duration::from_secs(5);

/// The time that a machine needs on top if other builds keep it busy.
/// `PLIMSOLL_IDLE=1` allows nothing.
const BUSY: Duration = Duration::from_secs(30);

/// Pods that wait for a node, and the numbers of attempts and of bindings that succeeded.
struct Load {
    waiting: Mutex<VecDeque<(usize, String)>>,
    bound: Mutex<u64>,
    attempts: Mutex<u64>,
    is_over: AtomicBool,
}

#[test]
fn another_replica_takes_over_in_time_under_a_load_of_bindings() {
    let Some(cluster) = Cluster::start("takeover under load") else { return };
    let nodes: Vec<String> = (0..NODES).map(|at| format!("load-{at:02}")).collect();
    cluster.add_nodes(&nodes);
    let mut one = Replica::deciding(&cluster, "one");
    let mut two = Replica::start(&cluster, "two");
    until("the second replica is ready", || two.is_ready());
    let load = Load {
        waiting: Mutex::new(create(&cluster)),
        bound: Mutex::default(),
        attempts: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    let busy = if std::env::var_os("PLIMSOLL_IDLE").is_some() { Duration::ZERO } else { BUSY };
    let start = Instant::now();
    thread::scope(|scope| {
        let over = EndsLoad(&load.is_over);
        for worker in 0..WORKERS {
            let (cluster, nodes, load) = (&cluster, &nodes, &load);
            scope.spawn(move || bind_at_rate(cluster, nodes, load, start, worker));
        }
        scope.spawn(|| {
            while !load.is_over.load(Ordering::SeqCst) {
                no_card_is_over_its_line(&cluster);
                thread::sleep(Duration::from_secs(4));
            }
        });
        thread::sleep(Duration::from_secs(3));
        let crashed = Instant::now();
        one.process.kill();
        let took = first_admission(&two, crashed);
        println!("admitted again {took:?} after a crash");
        assert!(took <= CRASH + busy, "{took:?}\n{}", two.log());
        let mut three = Replica::start(&cluster, "three");
        until("the third replica is ready", || three.is_ready());
        let signalled = Instant::now();
        scope.spawn(move || two.process.terminate(Duration::from_secs(20)));
        let took = first_admission(&three, signalled);
        println!("admitted again {took:?} after a clean hand-over");
        assert!(took <= HAND_OVER + busy, "{took:?}\n{}", three.log());
        thread::sleep(Duration::from_secs(2));
        drop(over);
        three.until_deciding();
    });
    no_card_is_over_its_line(&cluster);
    let count = |number: &Mutex<u64>| *number.lock().expect("no panic");
    let (bound, attempts) = (count(&load.bound), count(&load.attempts));
    println!("{attempts} attempts in {:.1} s, {bound} bindings", start.elapsed().as_secs_f64());
}

/// Ends the load, also where the test fails.
struct EndsLoad<'a>(&'a AtomicBool);

impl Drop for EndsLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits for the first binding that a replica admits, and returns the time since a moment.
fn first_admission(replica: &Replica, since: Instant) -> Duration {
    let deadline = since + Duration::from_secs(60);
    while replica.reviews("admitted") == 0.0 {
        assert!(Instant::now() < deadline, "none in 60 s\n{}", replica.log());
        thread::sleep(Duration::from_millis(20));
    }
    since.elapsed()
}

/// Creates the pods, in several namespaces.
fn create(cluster: &Cluster) -> VecDeque<(usize, String)> {
    for namespace in 0..NAMESPACES {
        cluster.namespace(&format!("load-{namespace}"), Some("enforce"));
    }
    thread::scope(|scope| {
        for worker in 0..CREATORS {
            scope.spawn(move || {
                for at in (worker..PODS).step_by(CREATORS) {
                    let pods = format!("/api/v1/namespaces/load-{}/pods", at % NAMESPACES);
                    let pod = objects::gpu_pod(&format!("p{at:04}"), 100 + 100 * (at as u64 % 9));
                    cluster.admin.create(&pods, pod).expect("a pod");
                }
            });
        }
    });
    (0..PODS).map(|at| (at % NAMESPACES, format!("p{at:04}"))).collect()
}

/// Tries a pod at each of its times, as a scheduler would: another node after a rejection.
fn bind_at_rate(cluster: &Cluster, nodes: &[String], load: &Load, start: Instant, worker: u32) {
    let every = Duration::from_secs(1) / RATE;
    for at in (worker..).step_by(WORKERS as usize) {
        if load.is_over.load(Ordering::SeqCst) {
            return;
        }
        let due = start + every * at;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let Some((namespace, name)) = load.waiting.lock().expect("no panic").pop_front() else {
            continue;
        };
        // Half of the attempts go to a third of the nodes, which fill up.
        let number = at as usize / 2;
        let node = if at % 2 == 0 { number % (nodes.len() / 3) } else { number % nodes.len() };
        let path = pod_path(&format!("load-{namespace}"), &name);
        let bound = cluster.admin.bind(&path, &nodes[node], &json!({}));
        *load.attempts.lock().expect("no panic") += 1;
        if bound.is_ok() {
            *load.bound.lock().expect("no panic") += 1;
        } else {
            load.waiting.lock().expect("no panic").push_back((namespace, name));
        }
    }
}

/// Sums what bound pods ask for, by node, from the objects of the API server alone.
fn no_card_is_over_its_line(cluster: &Cluster) {
    let pods = cluster.admin.get("/api/v1/pods").expect("pods");
    let mut asked: BTreeMap<String, u64> = BTreeMap::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            let memory = text(&pod["metadata"]["annotations"]["gpu-memory"]);
            *asked.entry(node.to_owned()).or_default() += memory.parse::<u64>().expect("a number");
        }
    }
    let over: Vec<_> = asked.iter().filter(|(_, mib)| **mib > LINE).collect();
    assert!(over.is_empty(), "over their line: {over:?}");
}
