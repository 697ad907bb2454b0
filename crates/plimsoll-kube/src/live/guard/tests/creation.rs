//! Pods that are created with a node, and warnings at creation.

use super::*;

fn creation(pod: &Value) -> CreationReview {
    CreationReview { namespace: "a".into(), pod: typed_pod(pod), run: Run::Real }
}

#[test]
fn a_pod_created_with_a_node_is_decided_where_its_binding_would_be() {
    let mut rig = Rig::leading(&[card()]);
    let mut allowed = Vec::new();
    for at in 0..5 {
        let mut pod = pod(&format!("p{at}"), "n1", "");
        pod["metadata"].as_object_mut().expect("metadata").remove("uid");
        let verdict = rig.with(|watch, core| watch.review_creation(core, &creation(&pod)));
        match verdict {
            CreationVerdict::Allowed { annotations, .. } => allowed.push(annotations),
            CreationVerdict::Rejected { message } => {
                assert!(message.contains("a/p4: needs 8000 MiB on n1"), "{message}");
            }
            CreationVerdict::Unavailable { message } => panic!("{message}"),
        }
    }
    assert_eq!((allowed.len(), rig.holders().len()), (4, 4));
    // Its own charge replaces the provisional one when it is seen.
    let created = with(
        at(500, pod("p0", "n1", "u0")),
        "/metadata/annotations",
        json!({"gpu-memory": "8000", DECISION: allowed[0][DECISION],
            crate::booking::TERM: allowed[0][crate::booking::TERM]}),
    );
    rig.see(&created);
    assert_eq!(rig.holders()[0], ("a/p0".into(), "running"));
    assert_eq!(rig.holders().len(), 4);
    // The others were never written.
    rig.pass(60);
    assert_eq!(rig.holders().len(), 4);
    rig.pass(60);
    assert_eq!(rig.holders(), [("a/p0".into(), "running")]);
}

#[test]
fn a_share_without_a_token_is_warned_of_unless_kai_serves_it() {
    let mut rig = Rig::leading(&[card()]);
    let warnings = |rig: &mut Rig, pod: &Value| match rig
        .with(|watch, core| watch.review_creation(core, &creation(pod)))
    {
        CreationVerdict::Allowed { warnings, .. } => warnings,
        other => panic!("{other:?}"),
    };
    let share = pod("p", "", "");
    assert!(warnings(&mut rig, &share)[0].contains("add nvidia.com/gpu: 1"));
    let of_kai = with(share.clone(), "/spec/schedulerName", json!("kai-scheduler"));
    assert_eq!(warnings(&mut rig, &of_kai), Vec::<String>::new());
    let with_token =
        with(share, "/spec/containers/0/resources", json!({"limits": {"nvidia.com/gpu": 1}}));
    assert_eq!(warnings(&mut rig, &with_token), Vec::<String>::new());
}
