//! A whole node: translation never panics and is deterministic, and unknown capacity has a finding.
//!
//! Each line of the input is one fact: `l` (label), `a` (annotation), `c` (capacity) or `m`
//! (allocatable), then a key, a space and a value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_kube::labels::FeatureLabels;
use plimsoll_kube::object::{Metadata, Node, NodeStatus};
use plimsoll_kube::translate::{Translation, node};

fuzz_target!(|text: &str| {
    let object = object(text);
    let _ = FeatureLabels::read(&object.metadata.labels);
    let translation = node(&object);
    assert_eq!(translation, node(&object));
    let Translation { value: facts, findings } = translation;
    assert!(facts.node.unknown.is_none() || !findings.is_empty());
});

fn object(text: &str) -> Node {
    let facts = |tag: char| {
        let lines = text.lines().filter_map(move |line| line.strip_prefix(tag)?.split_once(' '));
        lines.map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    Node {
        metadata: Metadata {
            name: "node".to_owned(),
            labels: facts('l').collect(),
            annotations: facts('a').collect(),
            ..Metadata::default()
        },
        status: NodeStatus {
            capacity: facts('c').collect(),
            allocatable: facts('m').collect(),
            ..NodeStatus::default()
        },
        ..Node::default()
    }
}
