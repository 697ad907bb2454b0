//! The list of reservations: filters, pages, and invalid parameters; the limits on pending ones.

use super::*;

const RESERVATIONS: &str = "/api/v1/scheduler/reservations";

/// Reserves a model in a namespace.
async fn reserve(world: &World, model: &str, namespace: &str) {
    let body = json!({"model": model, "namespace": namespace, "name": "a"});
    let asked = world.post("/api/v1/scheduler/slots", body).await;
    assert!(asked.status.is_success(), "{}", asked.body);
}

/// Six reservations: of two models, from two namespaces and without one; the third is released.
async fn with_six() -> World {
    let world = World::new();
    let mut runner = Runner::registered(&world, "r1", &[80]).await;
    world.declare("m", json!({"memory": "10GiB", "concurrency": 2})).await;
    world.declare("n", json!({"memory": "10GiB"})).await;
    for (model, namespace) in [("m", "a"), ("n", "a"), ("m", "b"), ("m", "b"), ("m", "b")] {
        reserve(&world, model, namespace).await;
    }
    world.ask("n").await;
    runner.settle(&world).await;
    let released = world.delete("/api/v1/scheduler/slots/reservation-3").await;
    assert_eq!(released.status, StatusCode::NO_CONTENT);
    world
}

#[tokio::test]
async fn reservations_are_listed_by_age_and_filtered() {
    let world = with_six().await;
    for (query, ids) in [
        ("", &[1, 2, 4, 5, 6][..]),
        ("?status=all", &[1, 2, 3, 4, 5, 6]),
        ("?status=ended", &[3]),
        ("?status=released", &[3]),
        ("?status=lease_expired", &[]),
        ("?status=ready", &[1, 2, 4]),
        ("?status=pending", &[5, 6]),
        ("?model=m", &[1, 4, 5]),
        ("?namespace=b", &[4, 5]),
        ("?namespace=b&status=all&model=m", &[3, 4, 5]),
        ("?model=none", &[]),
        ("?after=reservation-4", &[5, 6]),
    ] {
        let rows = world.get(&format!("{RESERVATIONS}{query}")).await;
        let expected: Vec<String> = ids.iter().map(|id| format!("reservation-{id}")).collect();
        assert_eq!(column(&rows, "id"), expected, "{query}");
    }
    let rows = world.get(RESERVATIONS).await;
    assert_eq!(rows[0], world.reservation(&json!("reservation-1")).await, "the same row");
}

#[tokio::test]
async fn reservations_are_read_page_by_page() {
    let world = with_six().await;
    let first = world.call("GET", &format!("{RESERVATIONS}?model=m&limit=2"), None).await;
    assert_eq!(column(&first.body, "id"), ["reservation-1", "reservation-4"]);
    let next = "/api/v1/scheduler/reservations?model=m&limit=2&after=reservation-4";
    assert_eq!(first.headers[header::LINK], format!("<{next}>; rel=\"next\""));
    let last = world.call("GET", next, None).await;
    assert_eq!(column(&last.body, "id"), ["reservation-5"]);
    assert!(!last.headers.contains_key(header::LINK));
}

#[tokio::test]
async fn an_invalid_parameter_of_the_list_is_rejected_by_name() {
    let world = World::new();
    for (query, field) in [
        ("status=Ready", "status"),
        ("status=", "status"),
        ("after=slot-1", "after"),
        ("after=reservation--1", "after"),
        ("limit=0", "limit"),
        ("limit=5001", "limit"),
        ("runner_id=r1", "runner_id"),
    ] {
        let answered = world.call("GET", &format!("{RESERVATIONS}?{query}"), None).await;
        assert_eq!(answered.status, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(answered.body["field"], field, "{}", answered.body);
    }
    assert_eq!(world.get(RESERVATIONS).await, json!([]));
}

#[tokio::test]
async fn too_many_pending_reservations_are_rejected_with_the_limit_and_cost_nothing() {
    let limit = |number| std::num::NonZeroU32::new(number).expect("at least 1");
    let pending = PendingLimits { total: limit(3), per_namespace: limit(2) };
    let config = DeskConfig { pending, ..DeskConfig::default() };
    let world = World::with(&settings(), config, schedulerlog::Settings::default());
    world.declare("m", json!({"memory": "10GiB"})).await;
    for namespace in ["a", "a", "b"] {
        reserve(&world, "m", namespace).await;
    }
    let before = world.engine.read(|_, core| core.next_numbers()).await.expect("an answer");
    for (namespace, part) in [
        ("a", "the limit of namespace a (pending.per_namespace) is 2"),
        ("b", "the limit of the server (pending.total) is 3"),
    ] {
        let body = json!({"model": "m", "namespace": namespace, "name": "x", "key": "k"});
        let answered = world.post("/api/v1/scheduler/slots", body).await;
        assert_eq!(answered.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(answered.body["code"], "too_many_pending");
        let detail = answered.body["detail"].as_str().expect("text");
        assert!(detail.contains(part) && detail.contains("retry later"), "{detail}");
        assert_eq!(answered.headers[header::RETRY_AFTER], "5");
    }
    let after = world.engine.read(|_, core| core.next_numbers()).await.expect("an answer");
    assert_eq!(after, before, "nothing is journalled");
    assert_eq!(column(&world.get(RESERVATIONS).await, "id").len(), 3);
    let mut registry = prometheus_client::registry::Registry::default();
    world.app.rejections().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    for limit in ["total", "namespace"] {
        let row = format!("reservations_rejected_total{{limit=\"{limit}\"}} 1");
        assert!(text.contains(&row), "{text}");
    }
    assert_eq!(world.delete("/api/v1/scheduler/slots/reservation-1").await.status, 204);
    reserve(&world, "m", "a").await;
}
