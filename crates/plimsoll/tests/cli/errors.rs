//! Errors end with 2 and say what to do.

use std::fs;

use crate::tool::{piped, plimsoll, scratch};

#[test]
fn without_files_the_pipe_is_printed() {
    for command in ["simulate", "audit", "explain", "devices"] {
        let pipe = format!("kubectl get nodes,pods -A -o json | plimsoll {command} -f -");
        plimsoll(command).fails_with(&[&pipe]);
    }
}

#[test]
fn an_unreadable_file_is_named_with_its_cause() {
    plimsoll("audit -f no/such/file.yaml").fails_with(&["no/such/file.yaml", "No such file"]);
    let empty = scratch("empty-directory");
    plimsoll(&format!("audit -f {}", empty.display())).fails_with(&["no manifests in", "*.yaml"]);
    piped("audit -f -", "").fails_with(&["standard input", "empty"]);
    piped("audit -f - -", "").fails_with(&["only once"]);
    let broken = empty.join("broken.yaml");
    fs::write(&broken, "kind: Pod\nmetadata: [").expect("a file");
    plimsoll(&format!("simulate -f {}", broken.display()))
        .fails_with(&["broken.yaml", "document 1"]);
}

#[test]
fn an_invalid_field_is_named_with_file_document_and_object() {
    let pods = "kind: Node\napiVersion: v1\nmetadata: {name: n}\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: p, namespace: d}\nspec: {containers: 5}\n";
    piped("simulate -f -", pods).fails_with(&[
        "standard input, document 2",
        "Pod d/p",
        "spec.containers",
    ]);
}

#[test]
fn a_cluster_without_devices_is_an_error_that_names_their_sources() {
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"cpu-only"},"status":{"capacity":{"cpu":"8"}}}"#;
    for command in ["simulate -f -", "audit -f -", "explain d/p -f -"] {
        piped(command, node).fails_with(&[
            "no device",
            "plimsoll.dev/devices",
            "nvidia.com/gpu.memory",
        ]);
    }
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}}"#;
    piped("audit -f -", service).fails_with(&["no Node"]);
}

#[test]
fn an_unknown_pod_is_answered_with_similar_names() {
    let run = plimsoll("explain -f examples/kai-time-slicing.yaml default/ubuntu-tset-4");
    run.fails_with(&[
        "there is no pod default/ubuntu-tset-4",
        "did you mean",
        "default/ubuntu-test-4",
    ]);
    plimsoll("explain -f examples/kai-time-slicing.yaml").fails_with(&["which pod?"]);
}

#[test]
fn an_unknown_policy_is_answered_with_the_known_ones() {
    let run = plimsoll("simulate -f examples/gang.yaml --policy best");
    run.fails_with(&["pack", "spread", "pack-nodes", "spread-nodes"]);
}
