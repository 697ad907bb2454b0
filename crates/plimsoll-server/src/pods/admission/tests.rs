//! Answers as an API server reads them.

use super::*;

fn question(object: &Value) -> BindingQuestion {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u-1", "namespace": "team-a", "dryRun": false, "object": object},
    });
    binding_question(review.to_string().as_bytes()).expect("a question")
}

fn patch(answer: &ReviewAnswer) -> Vec<Value> {
    let text = answer.response.patch.as_ref().expect("a patch");
    serde_json::from_slice(&STANDARD.decode(text).expect("base64")).expect("JSON")
}

fn admitted() -> BindingVerdict {
    BindingVerdict::Admitted(Admission {
        uid: "pod-uid".into(),
        resource_version: Some("77".to_owned()),
        annotations: BTreeMap::from([(ALLOCATED.to_owned(), "{}".to_owned())]),
    })
}

#[test]
fn an_admitted_binding_carries_preconditions_annotations_and_the_mark() {
    let question = question(&json!({
        "metadata": {"name": "web-1", "uid": "pod-uid"},
        "target": {"kind": "Node", "name": "gpu-node"},
    }));
    assert_eq!((&*question.review.pod, &*question.review.node), ("web-1", "gpu-node"));
    assert_eq!(question.review.resource_version, None);
    let answer = question.answer(admitted());
    assert!(answer.response.allowed);
    let expected = json!([
        {"op": "add", "path": "/metadata/finalizers", "value": ["plimsoll.dev/reviewed"]},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/plimsoll.dev~1allocated", "value": "{}"},
        {"op": "add", "path": "/metadata/uid", "value": "pod-uid"},
        {"op": "add", "path": "/metadata/resourceVersion", "value": "77"},
    ]);
    assert_eq!(Value::Array(patch(&answer)), expected);
}

#[test]
fn annotations_of_a_binding_stay_except_those_that_only_the_guard_writes() {
    let question = question(&json!({
        "metadata": {"name": "web-1", "annotations": {"mine": "1", "plimsoll.dev/allocated": "forged"}},
        "target": {"name": "gpu-node"},
    }));
    let paths = |answer: &ReviewAnswer| -> Vec<String> {
        patch(answer).iter().map(|one| format!("{} {}", one["op"], one["path"])).collect()
    };
    let ignored = question.answer(BindingVerdict::Ignored);
    let removed = "\"remove\" \"/metadata/annotations/plimsoll.dev~1allocated\"";
    assert_eq!(paths(&ignored)[1..], [removed.to_owned()]);
    let all = paths(&question.answer(admitted()));
    assert!(!all.iter().any(|one| one == "\"add\" \"/metadata/annotations\""), "{all:?}");
}

#[test]
fn rejections_have_the_code_that_the_client_expects() {
    let plain = question(&json!({"metadata": {"name": "a"}, "target": {"name": "n"}}));
    let versioned = question(
        &json!({"metadata": {"name": "a", "resourceVersion": "5"}, "target": {"name": "n"}}),
    );
    let code = |answer: ReviewAnswer| {
        assert!(!answer.response.allowed && answer.response.patch.is_none());
        answer.response.status.expect("a status")["code"].clone()
    };
    let message = || "needs 8000 MiB".to_owned();
    assert_eq!(code(plain.answer(BindingVerdict::Rejected { message: message() })), 403);
    assert_eq!(code(plain.answer(BindingVerdict::Unavailable { message: message() })), 503);
    assert_eq!(code(versioned.answer(BindingVerdict::Unavailable { message: message() })), 409);
}

#[test]
fn no_input_panics() {
    let valid = json!({
        "request": {"uid": "u", "namespace": "n", "object": {"metadata": {"name": "a"}, "target": {}}},
    })
    .to_string();
    for end in 0..valid.len() {
        let _ = binding_question(&valid.as_bytes()[..end]);
        let _ = creation_question(&valid.as_bytes()[..end]);
    }
    for text in
        ["", "null", "[]", "{}", r#"{"request":null}"#, r#"{"request":{"uid":"u"}}"#, "\u{0}"]
    {
        assert!(binding_question(text.as_bytes()).is_err(), "{text}");
        assert!(creation_question(text.as_bytes()).is_err(), "{text}");
    }
    assert!(binding_question(valid.as_bytes()).is_ok());
}
