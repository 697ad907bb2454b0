//! The simulated API server: the cases that it is used for, which the real one satisfies too.

use std::time::Duration;

use plimsoll_testbed::api::{Api, WatchEventKind, version};
use plimsoll_testbed::client::Client;
use plimsoll_testbed::objects;
use plimsoll_testbed::simulated::SimulatedApiServer;
use serde_json::json;

use crate::cases::CASES;

const PODS: &str = "/api/v1/namespaces/default/pods";
const WITHIN: Duration = Duration::from_secs(20);

#[test]
fn the_simulated_api_server_satisfies_every_case() {
    let server = SimulatedApiServer::start().expect("a server");
    let api = Client::plain(&server.url());
    for (name, case) in CASES {
        println!("{name}");
        case(&api);
    }
}

#[test]
fn a_version_before_a_compaction_is_gone_from_lists_and_watches() {
    let server = SimulatedApiServer::start().expect("a server");
    let api = Client::plain(&server.url());
    for index in 0..3 {
        api.create(PODS, objects::pod(&format!("p{index}"))).expect("a pod");
    }
    let page = api.get(&format!("{PODS}?limit=2")).expect("a page");
    let rest = page["metadata"]["continue"].as_str().expect("more pages").to_owned();
    let mut watch = api.watch(PODS, version(&page)).expect("a watch");
    server.put(PODS, objects::pod("p3"));
    let event = watch.next(WITHIN).expect("an event");
    assert_eq!(
        (event.kind, &event.object["metadata"]["name"]),
        (WatchEventKind::Added, &json!("p3"))
    );
    server.compact();
    let error = api.watch(PODS, version(&page)).map(|_| ()).expect_err("it is gone");
    assert_eq!(error.status(), Some(410), "{error}");
    let error = api.get(&format!("{PODS}?limit=2&continue={rest}")).expect_err("it is gone");
    assert_eq!((error.status(), error.reason()), (Some(410), Some("Expired")), "{error}");
}

#[test]
fn a_quiet_watch_gets_bookmarks_and_ends_with_the_others() {
    let server = SimulatedApiServer::start().expect("a server");
    let api = Client::plain(&server.url());
    let list = api.get(PODS).expect("a list");
    let mut watch = api.watch(PODS, version(&list)).expect("a watch");
    let event = watch.next(WITHIN).expect("a bookmark");
    assert_eq!((event.kind, version(&event.object)), (WatchEventKind::Bookmark, version(&list)));
    server.end_watches();
    assert_eq!(watch.next(WITHIN), None);
}
