//! The stream: live, resumed from any id, and told when something is missing.

use futures_util::StreamExt;

use super::*;

/// A reader of the stream.
pub(super) struct Stream {
    body: axum::body::BodyDataStream,
    text: String,
}

/// One event: its id, its name, its data.
pub(super) type Event = (Option<u64>, String, Value);

impl Stream {
    pub(super) async fn open(world: &World, query: &str, last: Option<&str>) -> Stream {
        let request = Request::get(format!("/api/v1/events{query}")).header("host", "localhost");
        let request =
            last.into_iter().fold(request, |request, last| request.header("Last-Event-ID", last));
        let response =
            world.router.clone().oneshot(request.body(Body::empty()).expect("a request")).await;
        let response = response.expect("an answer");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Stream { body: response.into_body().into_data_stream(), text: String::new() }
    }

    pub(super) async fn next(&mut self) -> Event {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = read(event);
                self.text = rest.to_string();
                return event;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.body.next()).await;
            let chunk = chunk.expect("in time").expect("more").expect("bytes");
            self.text.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    async fn take(&mut self, number: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..number {
            events.push(self.next().await);
        }
        events
    }
}

fn read(text: &str) -> Event {
    let line = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let data = serde_json::from_str(&line("data")).expect("JSON");
    (line("id").parse().ok(), line("event"), data)
}

/// Makes changes: declares a model, reserves it, and starts its slot.
async fn happen(world: &World, name: &str) {
    world.declare(name, json!({"memory": "1GiB"})).await;
    world.ask(name).await;
}

/// Makes this many changes in one batch, all of which are sent.
async fn change_settings(world: &World, times: u64) {
    let changes = move |desk: &mut Desk, core: &mut Core<'_>| {
        for number in 0..times {
            let offer_for = Timespan::millis(1000 + number);
            let settings = Box::new(Settings { offer_for, ..settings() });
            desk.handle(core, plimsoll_core::event::Event::Configured { settings });
        }
    };
    world.engine.write(changes).await.expect("an answer");
    // An answer can arrive before the stream's events. A read after it is served once all are sent.
    world.engine.read(|_, _| ()).await.expect("an answer");
}

#[tokio::test]
async fn a_reader_sees_decisions_and_changes_as_they_happen() {
    let world = World::new();
    let mut stream = Stream::open(&world, "", None).await;
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    let (id, kind, data) = stream.next().await;
    assert_eq!((id, kind.as_str(), &data["event"]), (Some(0), "ledger", &json!("node")));
    assert_eq!(data["changes"], json!([{"op": "put_node", "node": "r1", "runner_id": "r1"}]));
    assert_eq!(stream.next().await.0, Some(1), "it is open once it has said what runs on it");
    happen(&world, "m").await;
    let (id, kind, data) = stream.next().await;
    assert_eq!((id, kind.as_str(), &data["event"]), (Some(2), "decision", &json!("submit")));
    let decided = &data["decisions"][0];
    assert_eq!((&decided["id"], &decided["placed"]), (&json!("2.0"), &json!(true)));
    assert_eq!((&decided["slot_id"], &decided["runner_id"]), (&json!("slot-1"), &json!("r1")));
    let held = json!({"op": "hold", "request": {"account": "m", "name": "slot-1", "uid": "slot-1"}, "node": "r1",
        "model": "m", "slot_id": "slot-1", "runner_id": "r1", "bytes": GIB, "stage": "sent"});
    assert_eq!(data["changes"][0], held);
    runner.settle(&world).await;
    let (_, _, data) = stream.next().await;
    assert_eq!(
        (&data["event"], &data["changes"][0]["stage"]),
        (&json!("started"), &json!("running"))
    );
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let world = World::new();
    let _runner = Runner::registered(&world, "r1", &[80]).await;
    for name in ["a", "b", "c"] {
        happen(&world, name).await;
    }
    let mut whole = Stream::open(&world, "?after=beginning", None).await;
    let mut ids: Vec<u64> = whole.take(4).await.into_iter().filter_map(|(id, _, _)| id).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    let mut by_address = Stream::open(&world, "?after=1", None).await;
    let mut by_header = Stream::open(&world, "?after=0", Some("1")).await;
    for stream in [&mut by_address, &mut by_header] {
        assert_eq!(
            stream.take(2).await.into_iter().map(|(id, _, _)| id).collect::<Vec<_>>(),
            [Some(2), Some(3)]
        );
    }
    happen(&world, "d").await;
    happen(&world, "e").await;
    let live = by_address.take(2).await;
    assert_eq!(live, by_header.take(2).await);
    ids.extend(whole.take(2).await.into_iter().filter_map(|(id, _, _)| id));
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
    let mut again = Stream::open(&world, "?after=3", None).await;
    assert_eq!(again.take(2).await, live, "from the journal it reads as it did live");
}

#[tokio::test]
async fn a_slow_reader_is_notified_and_gets_the_rest_from_the_journal() {
    let world = World::new();
    let mut stream = Stream::open(&world, "", None).await;
    change_settings(&world, 5000).await;
    let (id, kind, data) = stream.next().await;
    assert_eq!((id, kind.as_str()), (None, "lagged"), "{data}");
    assert!(data["missed"].as_u64().is_some_and(|missed| missed > 0), "{data}");
    for expected in 0..5000 {
        assert_eq!(stream.next().await.0, Some(expected));
    }
    happen(&world, "m").await;
    assert_eq!(stream.next().await.0, Some(5000));
}

#[tokio::test]
async fn a_reader_slower_than_the_journal_is_kept_is_notified_of_what_is_missing() {
    let world = World::new();
    let mut stream = Stream::open(&world, "", None).await;
    change_settings(&world, 5000).await;
    let journal =
        rusqlite::Connection::open(world.dir.path().join("journal.db")).expect("the journal");
    journal.execute("DELETE FROM journal WHERE seq < 1000", ()).expect("old rows can be removed");
    assert_eq!(stream.next().await.1, "lagged");
    let (_, kind, data) = stream.next().await;
    assert_eq!((kind.as_str(), &data["missed"]), ("lagged", &json!(1000)), "{data}");
    assert_eq!(stream.next().await.0, Some(1000));
    let mut back = Stream::open(&world, "?after=499", None).await;
    let (_, kind, data) = back.next().await;
    assert_eq!((kind.as_str(), &data["missed"]), ("lagged", &json!(500)), "{data}");
    assert_eq!(back.next().await.0, Some(1000));
}

#[tokio::test]
async fn a_reader_of_another_journal_is_notified() {
    let world = World::new();
    let _runner = Runner::registered(&world, "r1", &[80]).await;
    let mut stream = Stream::open(&world, "?after=77", None).await;
    let (_, kind, data) = stream.next().await;
    assert_eq!(kind, "lagged");
    assert!(data["reason"].as_str().is_some_and(|reason| reason.contains("77")), "{data}");
    happen(&world, "m").await;
    assert_eq!(stream.next().await.0, Some(2));
}

#[tokio::test]
async fn the_stream_ends_with_the_server() {
    let world = World::new();
    let mut stream = Stream::open(&world, "", None).await;
    world.engine.stop();
    let end =
        tokio::time::timeout(Duration::from_secs(10), stream.body.next()).await.expect("in time");
    assert!(end.is_none(), "{end:?}");
}

#[tokio::test]
async fn a_stream_too_many_is_rejected_and_one_that_ends_makes_room() {
    let world = World::new();
    let mut streams = Vec::new();
    for _ in 0..crate::events::READERS {
        streams.push(Stream::open(&world, "", None).await);
    }
    let rejected = world.call("GET", "/api/v1/events", None).await;
    assert_eq!(
        (rejected.status.as_u16(), &rejected.body["code"]),
        (429, &json!("too_many_streams"))
    );
    drop(streams.pop());
    Stream::open(&world, "", None).await;
}
