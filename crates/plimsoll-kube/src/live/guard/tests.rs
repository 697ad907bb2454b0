//! Bindings of other schedulers on one card of 32,607 MiB, and what becomes of them.

use plimsoll_core::event::Settings;
use plimsoll_core::front::Host;
use plimsoll_core::units::Millis;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::tests::{id, node, parse, pod, with};
use super::*;
use crate::booking::{ALLOCATED, Booking, DECISION};
use crate::cluster::Reading;
use crate::live::{Kind, Observation};
use crate::read::Object;

mod chosen;
mod creation;
mod record;

/// A guard on a cluster, with the objects as an API server has them.
struct Rig {
    host: Host<Watch>,
    now: u64,
    version: u64,
}

fn namespace(line: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "a", "uid": "ns-a", "labels": {"plimsoll.dev/line": line}}})
}

fn at(version: u64, object: Value) -> Value {
    with(object, "/metadata/resourceVersion", json!(version.to_string()))
}

fn binding(pod: &str, node: &str) -> BindingReview {
    BindingReview {
        namespace: "a".into(),
        pod: pod.into(),
        pod_uid: None,
        node: node.into(),
        resource_version: None,
        run: Run::Real,
    }
}

fn typed_pod(object: &Value) -> Box<crate::object::Pod> {
    let Object::Pod(pod) = parse(object) else { panic!("a pod was written") };
    pod
}

impl Rig {
    fn following(objects: &[Value]) -> Rig {
        let host = Host::new(Watch::new(Reading::default()), Settings::default());
        let mut rig = Rig { host, now: 1_000_000, version: 100 };
        rig.see(&namespace("enforce"));
        objects.iter().for_each(|object| rig.see(object));
        rig
    }

    /// A guard that has the lease, and has touched and listed.
    fn leading(objects: &[Value]) -> Rig {
        let mut rig = Rig::following(objects);
        rig.lead(1);
        rig
    }

    fn lead(&mut self, number: u64) {
        let until = Millis(self.now + 1_000_000);
        self.with(|watch, _| watch.begin_term(Term { number, until }));
        for _ in 0..100 {
            let errands = self.with(|watch, _| watch.take_errands());
            if errands.is_empty() {
                break;
            }
            errands.into_iter().for_each(|errand| self.run(errand));
        }
        assert_eq!(self.host.front().leadership(), Leadership::Leading);
    }

    /// Carries an errand out as an API server would on which nothing else happens.
    fn run(&mut self, errand: Errand) {
        let outcome = match &errand {
            Errand::List { .. } => ErrandOutcome::Listed(Vec::new()),
            Errand::Read { pod } => match self.host.front().index().pod(pod) {
                Some(pod) => ErrandOutcome::Object(Box::new(pod.clone())),
                None => ErrandOutcome::Gone,
            },
            Errand::Touch { pod, .. } => {
                let pod = self.host.front().index().pod(pod).expect("only known pods are touched");
                self.version += 1;
                let mut pod = pod.clone();
                pod.metadata.resource_version = Some(self.version.to_string());
                ErrandOutcome::Object(Box::new(pod))
            }
        };
        self.done(errand, outcome);
    }

    fn done(&mut self, errand: Errand, outcome: ErrandOutcome) {
        self.with(|watch, core| watch.errand_done(core, errand, outcome));
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut Watch, &mut Core<'_>) -> R) -> R {
        self.host.with(Millis(self.now), call)
    }

    fn see(&mut self, object: &Value) {
        let object = parse(object);
        self.with(|watch, core| watch.observe(core, vec![Observation::Applied(object)]));
    }

    fn delete(&mut self, object: &Value) {
        let object = parse(object);
        self.with(|watch, core| watch.observe(core, vec![Observation::Deleted(object)]));
    }

    fn pass(&mut self, seconds: u64) -> Vec<Errand> {
        self.now += seconds * 1000;
        self.with(|watch, core| watch.confirm_sight(core.now()));
        self.host.tick(Millis(self.now));
        self.with(|watch, _| watch.take_errands())
    }

    fn bind(&mut self, review: &BindingReview) -> BindingVerdict {
        self.with(|watch, core| watch.review_binding(core, review))
    }

    fn holders(&self) -> Vec<(String, &'static str)> {
        let holdings = self.host.scheduler().ledger().holdings();
        let mut holders: Vec<_> =
            holdings.map(|(_, one)| (one.request.to_string(), one.stage.name())).collect();
        holders.sort();
        holders
    }
}

fn card() -> Value {
    node("n1", "b1")
}

fn pending(name: &str, version: u64) -> Value {
    at(version, pod(name, "", &format!("u-{name}")))
}

fn message(verdict: BindingVerdict) -> String {
    match verdict {
        BindingVerdict::Rejected { message }
        | BindingVerdict::Unavailable { message }
        | BindingVerdict::Warned { message } => message,
        other => panic!("{other:?} has no message"),
    }
}

fn is_admitted(verdict: &BindingVerdict) -> bool {
    matches!(verdict, BindingVerdict::Admitted(_))
}

proptest! {
    #[test]
    fn of_five_bindings_of_8000_mib_the_first_four_are_admitted_in_every_order(
        order in Just((0..5_u64).collect::<Vec<_>>()).prop_shuffle(),
        again in prop::collection::vec(0..5_usize, 0..5),
    ) {
        let pods: Vec<Value> = (0..5).map(|at| pending(&format!("p{at}"), 10 + at)).collect();
        let mut rig = Rig::leading(&[&[card()], &pods[..]].concat());
        let review = |at: u64| binding(&format!("p{at}"), "n1");
        let verdicts: Vec<BindingVerdict> =
            order.iter().map(|at| rig.bind(&review(*at))).collect();
        prop_assert!(verdicts[..4].iter().all(is_admitted), "{verdicts:?}");
        let text = message(verdicts[4].clone());
        let start = format!(
            "cannot bind a/p{}: needs 8000 MiB on n1; gpu-0 has 607 MiB free of 32607 MiB (7393 MiB \
             short), held by a/p", order[4]);
        prop_assert!(text.starts_with(&start), "{text}");
        // Asking again gives the same answer.
        for position in again {
            let verdict = rig.bind(&review(order[position]));
            prop_assert_eq!(&verdict, &verdicts[position]);
        }
        prop_assert_eq!(rig.holders().len(), 4);
    }
}

#[test]
fn an_admitted_binding_carries_uid_version_and_booking() {
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    let BindingVerdict::Admitted(admission) = rig.bind(&binding("p", "n1")) else { panic!() };
    assert_eq!(admission.uid, "u-p");
    let known = rig.host.front().index().pod(&id("p", "u-p")).expect("it is known");
    assert_eq!(admission.resource_version, known.metadata.resource_version);
    assert_eq!(
        admission.annotations[ALLOCATED],
        r#"{"node":"n1","containers":{"main":[{"kind":"NVIDIA","device":"gpu-0","bytes":8388608000}]}}"#
    );
    assert!(admission.annotations[DECISION].ends_with(".0"));
    assert_eq!(rig.holders(), [("a/p".into(), "sent")]);
}

#[test]
fn a_dry_run_is_answered_and_books_nothing() {
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    let dry = BindingReview { run: Run::Dry, ..binding("p", "n1") };
    let records = rig.host.next_numbers().record;
    assert!(is_admitted(&rig.bind(&dry)));
    assert_eq!((rig.holders(), rig.host.next_numbers().record), (vec![], records));
}

#[test]
fn a_pod_that_is_seen_bound_confirms_its_charge() {
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    rig.bind(&binding("p", "n1"));
    let admission = rig.bind(&binding("p", "n1"));
    let bound = at(500, pod("p", "n1", "u-p"));
    rig.see(&bound);
    assert_eq!(rig.holders(), [("a/p".into(), "running")]);
    assert!(is_admitted(&admission));
    // A late event from before the binding changes nothing.
    rig.see(&pending("p", 10));
    assert_eq!(rig.holders(), [("a/p".into(), "running")]);
    assert_eq!(rig.pass(60), []);
}

#[test]
fn a_pod_seen_later_without_a_node_releases_the_charge_of_its_failed_binding() {
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    rig.bind(&binding("p", "n1"));
    let version = rig.version;
    rig.see(&pending("p", version));
    assert_eq!(rig.holders(), [("a/p".into(), "sent")], "the binding can still land");
    rig.see(&pending("p", version + 1));
    assert_eq!(rig.holders(), []);
}

#[test]
fn a_binding_that_is_not_seen_is_touched_before_its_charge_is_released() {
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    rig.bind(&binding("p", "n1"));
    assert_eq!(rig.pass(9), []);
    let errands = rig.pass(1);
    let [Errand::Touch { pod: touched, version, .. }] = &errands[..] else { panic!("{errands:?}") };
    assert_eq!((touched, version), (&id("p", "u-p"), &rig.version.to_string()));
    assert_eq!(rig.holders(), [("a/p".into(), "sent")]);
    // The touch was lost; then it is found that the pod was written meanwhile.
    rig.done(errands[0].clone(), ErrandOutcome::Unknown);
    assert_eq!(rig.holders(), [("a/p".into(), "sent")]);
    let errands = rig.pass(10);
    rig.done(errands[0].clone(), ErrandOutcome::Conflict);
    let errands = rig.with(|watch, _| watch.take_errands());
    assert_eq!(errands, [Errand::Read { pod: id("p", "u-p") }]);
    // The pod is unchanged after all: it must be touched.
    let unchanged = typed_pod(&pending("p", rig.version));
    rig.done(errands[0].clone(), ErrandOutcome::Object(unchanged));
    assert_eq!(rig.holders(), [("a/p".into(), "sent")]);
    let errands = rig.with(|watch, _| watch.take_errands());
    rig.run(errands[0].clone());
    assert_eq!(rig.holders(), []);
}

#[test]
fn a_binding_that_landed_unseen_is_found_by_the_touch() {
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    rig.bind(&binding("p", "n1"));
    let errands = rig.pass(10);
    rig.done(errands[0].clone(), ErrandOutcome::Conflict);
    let errands = rig.with(|watch, _| watch.take_errands());
    let bound = typed_pod(&at(500, pod("p", "n1", "u-p")));
    rig.done(errands[0].clone(), ErrandOutcome::Object(bound));
    assert_eq!(rig.holders(), [("a/p".into(), "running")]);
}

#[test]
fn a_pod_that_vanished_with_an_open_binding_counts_until_its_node_says_otherwise() {
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    rig.bind(&binding("p", "n1"));
    let list = Observation::Listed { kind: Kind::Pod, objects: Vec::new(), version: Some(900) };
    rig.with(|watch, core| watch.observe(core, vec![list]));
    assert_eq!(rig.holders(), [("a/p".into(), "releasing")]);
    // A late event from before the binding is no evidence, the last form of the pod is.
    let version = rig.version;
    rig.see(&pending("p", version));
    assert_eq!(rig.holders(), [("a/p".into(), "releasing")]);
    rig.see(&pending("p", version + 1));
    assert_eq!(rig.holders(), []);
}

#[test]
fn a_list_from_before_a_pod_was_seen_does_not_make_it_vanish() {
    let mut rig = Rig::leading(&[card()]);
    rig.see(&at(500, pod("p", "n1", "u-p")));
    for (version, stage) in [(400, "running"), (600, "releasing")] {
        let list =
            Observation::Listed { kind: Kind::Pod, objects: Vec::new(), version: Some(version) };
        rig.with(|watch, core| watch.observe(core, vec![list]));
        assert_eq!(rig.holders(), [("a/p".into(), stage)]);
    }
}

#[test]
fn another_node_is_rejected_while_a_binding_is_in_flight() {
    let mut rig = Rig::leading(&[card(), node("n2", "b2"), pending("p", 10)]);
    assert!(is_admitted(&rig.bind(&binding("p", "n1"))));
    let text = message(rig.bind(&binding("p", "n2")));
    assert!(text.contains("an earlier binding to n1 is in flight"), "{text}");
    let errands = rig.pass(0);
    errands.into_iter().for_each(|errand| rig.run(errand));
    assert!(is_admitted(&rig.bind(&binding("p", "n2"))));
    assert_eq!(rig.holders(), [("a/p".into(), "sent")]);
}

#[test]
fn only_a_leader_that_touched_listed_and_sees_the_cluster_decides() {
    let mut rig = Rig::following(&[card(), pending("p", 10)]);
    let unavailable = |rig: &mut Rig, why: &str| {
        let verdict = rig.bind(&binding("p", "n1"));
        assert!(
            matches!(&verdict, BindingVerdict::Unavailable { message } if message.contains(why)),
            "{verdict:?}"
        );
    };
    unavailable(&mut rig, "does not decide");
    let until = Millis(rig.now + 60_000);
    rig.with(|watch, _| watch.begin_term(Term { number: 1, until }));
    let list = rig.with(|watch, _| watch.take_errands());
    assert_eq!(list, [Errand::List { term: 1 }]);
    unavailable(&mut rig, "does not decide");
    rig.done(list[0].clone(), ErrandOutcome::Listed(Vec::new()));
    let touch = rig.with(|watch, _| watch.take_errands());
    assert!(matches!(&touch[..], [Errand::Touch { version, .. }] if version == "10"), "{touch:?}");
    assert_eq!(rig.host.front().leadership(), Leadership::Touching);
    unavailable(&mut rig, "does not decide");
    rig.run(touch[0].clone());
    let list = rig.with(|watch, _| watch.take_errands());
    assert_eq!(list, [Errand::List { term: 1 }]);
    unavailable(&mut rig, "does not decide");
    rig.done(list[0].clone(), ErrandOutcome::Listed(Vec::new()));
    assert!(is_admitted(&rig.bind(&binding("p", "n1"))));
    rig.now += 6_000;
    unavailable(&mut rig, "has not seen the cluster for 6s");
    rig.with(|watch, core| watch.confirm_sight(core.now()));
    assert!(is_admitted(&rig.bind(&binding("p", "n1"))));
    rig.pass(60);
    unavailable(&mut rig, "does not decide");
}

#[test]
fn a_leader_that_sees_the_mark_of_a_later_term_decides_nothing() {
    let touched = |version: u64, mark: &str| {
        let annotations = json!({"gpu-memory": "8000", TOUCHED: mark});
        with(pending("p", version), "/metadata/annotations", annotations)
    };
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    rig.see(&touched(200, "1.7"));
    assert!(is_admitted(&rig.bind(&binding("p", "n1"))), "its own mark");
    rig.see(&touched(300, "2.1"));
    let verdict = rig.bind(&binding("p", "n1"));
    assert!(matches!(verdict, BindingVerdict::Unavailable { .. }), "{verdict:?}");
    assert_eq!(rig.host.front().leadership(), Leadership::Follower);
    // A renewal that was sent before proves nothing.
    let now = rig.now;
    rig.with(|watch, _| watch.confirm_lease(Millis(now)));
    assert_eq!(rig.host.front().leadership(), Leadership::Follower);
    // One that was sent later proves that the mark is forged: the term begins again.
    rig.with(|watch, _| watch.confirm_lease(Millis(now + 1)));
    assert_eq!(rig.host.front().leadership(), Leadership::Surveying);
    let list = rig.with(|watch, _| watch.take_errands());
    assert_eq!(list, [Errand::List { term: 1 }]);
    rig.see(&touched(301, "2.1"));
    assert_eq!(rig.host.front().leadership(), Leadership::Surveying, "known to be forged");
    // Where annotations are free, marks mean nothing.
    let mut rig = Rig::leading(&[card(), pending("p", 10)]);
    rig.see(&with(touched(200, "9.1"), "/metadata/namespace", json!("free")));
    assert_eq!(rig.host.front().leadership(), Leadership::Leading);
}

#[test]
fn the_label_of_the_namespace_is_the_blast_radius() {
    let mut rig = Rig::following(&[card(), pending("p", 10)]);
    assert!(matches!(rig.bind(&binding("p", "n1")), BindingVerdict::Unavailable { .. }));
    rig.see(&namespace("warn"));
    assert!(message(rig.bind(&binding("p", "n1"))).contains("does not decide"));
    for line in ["off", "", "Enforce"] {
        rig.see(&namespace(line));
        assert_eq!(rig.bind(&binding("p", "n1")), BindingVerdict::Ignored);
    }
    // Pods without devices are not even looked at.
    rig.see(&namespace("enforce"));
    let plain = with(pending("q", 11), "/metadata/annotations", json!({}));
    rig.see(&plain);
    assert_eq!(rig.bind(&binding("q", "n1")), BindingVerdict::Ignored);
}

#[test]
fn kube_system_and_plimsolls_own_namespace_are_never_guarded() {
    let watch = Watch::new(Reading::default()).with_own_namespace("plimsoll");
    let mut host = Host::new(watch, Settings::default());
    for name in ["kube-system", "plimsoll", "team"] {
        let labelled = with(namespace("enforce"), "/metadata/name", json!(name));
        let object = parse(&labelled);
        host.with(Millis(1), |watch, core| {
            watch.observe(core, vec![Observation::Applied(object)]);
        });
    }
    let lines = ["kube-system", "plimsoll", "team"].map(|name| host.front().line(name));
    assert_eq!(lines, [Line::Off, Line::Off, Line::Enforce]);
}

#[test]
fn a_warned_namespace_binds_what_does_not_fit_and_says_so() {
    let pods: Vec<Value> = (0..5).map(|at| pending(&format!("p{at}"), 10 + at)).collect();
    let mut rig = Rig::leading(&[&[card()], &pods[..]].concat());
    rig.see(&namespace("warn"));
    let verdicts: Vec<BindingVerdict> =
        (0..5).map(|at| rig.bind(&binding(&format!("p{at}"), "n1"))).collect();
    assert!(verdicts[..4].iter().all(|verdict| matches!(verdict,
        BindingVerdict::Admitted(admission) if admission.resource_version.is_none())));
    assert!(matches!(&verdicts[4], BindingVerdict::Warned { message }
        if message.contains("7393 MiB short")));
}

#[test]
fn nothing_but_device_memory_is_checked() {
    let tainted = with(
        card(),
        "/spec",
        json!({"unschedulable": true,
        "taints": [{"key": "k", "effect": "NoSchedule"}]}),
    );
    let wants = with(pending("p", 10), "/spec/nodeSelector", json!({"zone": "elsewhere"}));
    let wants = with(
        wants,
        "/spec/containers/0/resources",
        json!({"requests": {"cpu": "9000", "memory": "9000Gi", "example.com/nic": "4"}}),
    );
    let mut rig = Rig::leading(&[tainted, wants]);
    assert!(is_admitted(&rig.bind(&binding("p", "n1"))));
}

#[test]
fn a_repeated_rejection_is_no_record() {
    let big = with(pending("p", 10), "/metadata/annotations/gpu-memory", json!("40000"));
    let mut rig = Rig::leading(&[card(), big]);
    let first = message(rig.bind(&binding("p", "n1")));
    assert!(
        first.contains("needs 39.1 GiB on n1; gpu-0 has 31.8 GiB in total (7.3 GiB short)"),
        "{first}"
    );
    let records = rig.host.next_numbers().record;
    assert_eq!(message(rig.bind(&binding("p", "n1"))), first);
    assert_eq!(rig.host.next_numbers().record, records);
}

#[test]
fn a_pod_is_charged_on_its_booked_card_with_at_least_what_it_asks() {
    let mut two = card();
    two["metadata"]["labels"]["nvidia.com/gpu.count"] = json!("2");
    two["status"] =
        json!({"capacity": {"nvidia.com/gpu": 200}, "allocatable": {"nvidia.com/gpu": 200}});
    let booked = |name: &str, device: &str, bytes: u64| {
        let booking = json!({"node": "n1", "containers": {"main": [
            {"kind": "NVIDIA", "device": device, "bytes": bytes}]}});
        with(
            pod(name, "n1", name),
            "/metadata/annotations",
            json!({"gpu-memory": "8000", ALLOCATED: booking.to_string()}),
        )
    };
    let rig =
        Rig::following(&[two, booked("low", "gpu-1", 1), booked("high", "gpu-1", 9_000 << 20)]);
    let charges: Vec<(Vec<u16>, Option<u64>)> = rig
        .host
        .scheduler()
        .ledger()
        .holdings()
        .flat_map(|(_, holding)| &holding.charges)
        .map(|charge| (charge.on.clone(), charge.bytes().map(|bytes| bytes.get() >> 20)))
        .collect();
    assert_eq!(charges, [(vec![1], Some(8000)), (vec![1], Some(9000))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn c1_of_64_bindings_for_the_last_place_exactly_one_is_admitted(
        order in Just((0..64_u64).collect::<Vec<_>>()).prop_shuffle(),
        seen in prop::collection::vec(0..64_usize, 0..16),
    ) {
        let held: Vec<Value> =
            (0..3).map(|at| self::at(at, pod(&format!("h{at}"), "n1", &format!("h{at}")))).collect();
        let pods: Vec<Value> = (0..64).map(|at| pending(&format!("p{at}"), 10 + at)).collect();
        let mut rig = Rig::leading(&[&[card()], &held[..], &pods[..]].concat());
        let mut admitted = Vec::new();
        for (turn, position) in order.iter().enumerate() {
            let name = format!("p{position}");
            if is_admitted(&rig.bind(&binding(&name, "n1"))) {
                admitted.push(name);
            }
            // Events of other pods, and of the winner, arrive in between.
            if seen.contains(&turn) {
                rig.see(&held[turn % 3]);
                if let Some(winner) = admitted.first() {
                    rig.see(&self::at(1000, pod(winner, "n1", &format!("u-{winner}"))));
                }
            }
        }
        prop_assert_eq!(admitted.len(), 1);
        prop_assert_eq!(rig.holders().len(), 4);
    }
}
