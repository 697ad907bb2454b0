//! The scope of the registration.

use super::*;

fn registration() -> Registration {
    Registration {
        endpoint: Endpoint::Url("https://127.0.0.1:9443/".into()),
        trusted: "PEM".into(),
        namespace: "gpu-system".into(),
        owner: None,
        term: 7,
    }
}

#[test]
fn only_labelled_namespaces_are_ever_called_for() {
    let [(_, webhooks), (_, policy), _] = registration().objects();
    let mut selectors: Vec<&Value> = webhooks["webhooks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["namespaceSelector"])
        .collect();
    selectors.push(&policy["spec"]["matchConstraints"]["namespaceSelector"]);
    assert_eq!(selectors.len(), 4);
    for selector in selectors {
        let expressions = &selector["matchExpressions"];
        assert_eq!(expressions[0]["key"], "plimsoll.dev/line");
        assert_eq!(expressions[0]["operator"], "In");
        assert_eq!(expressions[1]["values"], json!(["kube-system", "gpu-system"]));
        assert_eq!(expressions[1]["operator"], "NotIn");
    }
}

#[test]
fn only_the_creation_of_pods_with_devices_fails_closed() {
    let [(_, webhooks), ..] = registration().objects();
    let webhooks = webhooks["webhooks"].as_array().expect("a list");
    let closed: Vec<&Value> =
        webhooks.iter().filter(|one| one["failurePolicy"] == "Fail").collect();
    assert_eq!(closed.len(), 1);
    assert_eq!(closed[0]["rules"][0]["resources"], json!(["pods"]));
    assert_eq!(closed[0]["matchConditions"].as_array().map(Vec::len), Some(1));
    assert_eq!(closed[0]["clientConfig"]["url"], "https://127.0.0.1:9443/admission/pods");
}

#[test]
fn every_object_carries_the_term_of_its_leader() {
    for (_, object) in registration().objects() {
        assert_eq!(term_of(&object), Some(7), "{object}");
    }
    assert_eq!(term_of(&json!({"metadata": {"name": "of an earlier version"}})), None);
}

#[test]
fn defaults_that_the_api_server_adds_are_no_difference() {
    let wanted = json!({"a": {"b": [1, 2]}, "c": null});
    assert!(is_as(&json!({"a": {"b": [1, 2], "more": 3}, "status": {}}), &wanted));
    assert!(!is_as(&json!({"a": {"b": [1]}}), &wanted));
    assert!(!is_as(&json!({"a": {"b": [1, 3]}}), &wanted));
    assert!(!is_as(&json!({}), &wanted));
}
