//! The scheduler log and the decision history of a front end that is not model slots.

use std::collections::BTreeSet;

use plimsoll_api::rows::{BindStatus, RequestRow, SchedulerLogRow, SlotNames};
use plimsoll_api::verdict::Verdict;
use plimsoll_core::device::{Device, Node, Source};
use plimsoll_core::event::{self, Event};
use plimsoll_core::front::{Core, Front};
use plimsoll_core::request::{Amount, Need, Request, Shape, Spec, Terms};
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::steps::Vocabulary;
use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_engine::engine::Engine;
use plimsoll_engine::journal::MemoryJournal;
use plimsoll_engine::recovery;

use super::*;
use crate::api::{found_row, schedulerlog_row};
use crate::decisions::Decisions;
use crate::served::FrontGauges;

/// A front end of pods that all need 10 GiB of one GPU, without state of its own.
#[derive(Debug, Default)]
struct Pods;

impl Pods {
    fn submit(core: &mut Core<'_>, name: &str) {
        Self::submit_as(core, pod(name));
    }

    fn submit_as(core: &mut Core<'_>, id: RequestId) {
        let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(10)));
        let spec = Spec::from_shapes(vec![Shape::single("main", need)]).into();
        let terms = Terms { waits: true, ..Terms::default() };
        let request = Request { id, spec, terms };
        core.step(Event::Submit { request, deadline: None });
    }
}

impl Front for Pods {
    type Change = ();
    type State = ();
    type Topic = Name;

    fn restore(&mut self, (): ()) {}
    fn apply(&mut self, (): ()) {}
    fn state(&self) {}
    fn tick(&mut self, core: &mut Core<'_>) {
        self.handle(core, Event::Tick);
    }
    fn handle(&mut self, core: &mut Core<'_>, event: Event) {
        core.step(event);
    }
    fn take_changes(&mut self) -> Vec<()> {
        Vec::new()
    }
    fn take_topics(&mut self) -> BTreeSet<Name> {
        BTreeSet::new()
    }
}

impl ServedFront for Pods {
    const VOCABULARY: Vocabulary = Vocabulary::Pods;
    type DecisionFacts = ();

    fn decision_facts(&self, _: &Scheduler, _: &RequestId) {}
    fn slot_names(_: Option<&RequestId>, _: Option<&Name>) -> SlotNames {
        SlotNames::default()
    }
    fn start_failure(&self, _: &Scheduler, _: &RequestId) -> Option<String> {
        Some("ImagePullBackOff".to_string())
    }
    fn gauges(&self, _: &Scheduler, _: Millis) -> Box<dyn FrontGauges> {
        unreachable!("no scrape in these tests")
    }
}

fn pod(name: &str) -> RequestId {
    RequestId::new("default", name)
}

fn add_node(pods: &mut Pods, core: &mut Core<'_>) {
    let device = Device::new("NVIDIA", Bytes::gib(15), Source::Declared);
    let node = Box::new(Node { devices: vec![device], ..Node::new("n") });
    pods.handle(core, Event::Node { node });
}

/// The answer of the route for a pod.
fn shown(log: &RequestLog<()>, name: &str) -> Result<SchedulerLogRow, String> {
    let found = log.find("default", name).map(|entry| schedulerlog_row(&entry));
    found_row(found, &format!("default/{name}"), Settings::default())
        .map_err(|problem| format!("{problem:?}"))
}

#[tokio::test]
async fn a_front_end_of_pods_has_a_history_and_a_scheduler_log_by_request_id() {
    let decisions: Arc<Decisions<()>> = Arc::default();
    let log: Arc<RequestLog<()>> = Arc::default();
    let journal = MemoryJournal::new(1000);
    let (host, clock) = recovery::rebuild(journal.recovered(), Pods, &event::Settings::default())
        .expect("an empty journal");
    let observers = vec![decisions.observer(&log)];
    let (engine, thread) = Engine::start(host, clock, journal, observers).expect("a thread");

    engine.write(add_node).await.expect("an answer");
    engine.write(|_, core| Pods::submit(core, "one")).await.expect("an answer");
    engine.write(|_, core| Pods::submit(core, "two")).await.expect("an answer");
    // A reply can leave before the observers run; a read is served after them, as in the API.
    engine.read(|_, _| ()).await.expect("an answer");

    let placed = shown(&log, "one").expect("it was decided");
    assert_eq!(
        (placed.filter.status, placed.bind.status),
        (Verdict::Passed, BindStatus::NotReached)
    );
    let pending = shown(&log, "two").expect("it was decided");
    assert_eq!(pending.filter.status, Verdict::Failed);
    assert!(pending.filter.summary.contains("5.0 GiB short"), "{}", pending.filter.summary);
    assert_eq!(pending.request, Some(RequestRow::from(&pod("two"))));
    let json = serde_json::to_value(&pending).expect("rows are JSON");
    assert!(json.get("reservation_id").is_none() && json.get("model").is_none(), "{json}");
    let read: SchedulerLogRow = serde_json::from_value(json).expect("what was written");
    assert_eq!(read, pending, "clients read the log of a pod");
    assert_eq!(decisions.newest_first().len(), 2);

    let fail = |pods: &mut Pods, core: &mut Core<'_>| {
        let (id, holding) = core.ledger().holdings().next().expect("it is charged");
        let request = holding.request.clone();
        pods.handle(core, Event::Failed { request, generation: id.0 });
    };
    engine.write(fail).await.expect("an answer");
    engine.read(|_, _| ()).await.expect("an answer");
    let failed = shown(&log, "one").expect("it was decided");
    assert_eq!(
        (failed.bind.status, failed.bind.summary.as_str()),
        (BindStatus::Failed, "ImagePullBackOff")
    );
    let unknown = shown(&log, "three").expect_err("no such pod");
    assert!(unknown.contains("nothing named default/three"), "{unknown}");

    let again = |_: &mut Pods, core: &mut Core<'_>| {
        Pods::submit_as(core, pod("two").with_uid("a second one"));
    };
    engine.write(again).await.expect("an answer");
    engine.read(|_, _| ()).await.expect("an answer");
    let newest = shown(&log, "two").expect("it was decided");
    assert_eq!(newest.request.map(|request| request.uid).as_deref(), Some("a second one"));
    assert!(log.get(&pod("two")).is_none(), "the newest uid counts");
    engine.stop();
    thread.join().expect("no panic").expect("everything durable");
}
