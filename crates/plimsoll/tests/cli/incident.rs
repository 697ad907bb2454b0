//! Acceptance A1 as a user meets it: the incident that this project exists for.

use serde_json::{Value, json};

use crate::tool::{piped, plimsoll, root, rows};

const MIB: u64 = 1 << 20;

fn example() -> String {
    std::fs::read_to_string(root().join("examples/kai-time-slicing.yaml")).expect("an example")
}

fn simulated(input: &str, arguments: &str) -> Value {
    let run = piped(&format!("simulate -f - -o json {arguments}"), input);
    assert!(matches!(run.code, Some(0 | 1)), "{}", run.err);
    let sheet: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(run.code, Some(i32::from(!rows(&sheet, "unplaced").is_empty())));
    sheet
}

fn counts(sheet: &Value) -> (usize, usize) {
    (rows(sheet, "placements").len(), rows(sheet, "unplaced").len())
}

/// A node with time-sliced cards of 32,607 MiB.
fn node(cards: u32, annotation: &str) -> String {
    let tokens = cards * 100;
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: gpu-node\n  annotations: {{{annotation}}}\n  labels:\n    \
         nvidia.com/gpu.count: \"{cards}\"\n    nvidia.com/gpu.replicas: \"100\"\n    nvidia.com/gpu.memory: \"32607\"\n    \
         nvidia.com/gpu.product: X-SHARED\n    nvidia.com/gpu.sharing-strategy: time-slicing\nstatus:\n  \
         capacity: {{nvidia.com/gpu: \"{tokens}\"}}\n  allocatable: {{nvidia.com/gpu: \"{tokens}\"}}\n"
    )
}

fn share(name: &str, node: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: d, annotations: {{gpu-memory: \"8000\"}}}}\n\
         spec: {{{node}containers: [{{name: c, image: i}}]}}\n"
    )
}

fn plain(name: &str, node: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: d}}\nspec: {{{node}containers: \
         [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}\n"
    )
}

fn pods(number: usize, pod: impl Fn(&str) -> String) -> String {
    (0..number).map(|i| pod(&format!("p-{i}"))).collect()
}

#[test]
fn four_of_five_are_placed_and_the_fifth_has_its_shortfall() {
    let sheet = plimsoll("simulate -f examples/kai-time-slicing.yaml -o json").json(1);
    assert_eq!(sheet["schema_version"], 2);
    assert_eq!(counts(&sheet), (4, 1));
    let node = &sheet["nodes"][0];
    assert_eq!(
        (&node["physical"], &node["advertised"], &node["replicas"]),
        (&json!(1), &json!(100), &json!(100))
    );
    assert_eq!(
        (&node["sharing"], &node["device_choice"]),
        (&json!("time-slicing"), &json!("plugin"))
    );
    let unplaced = &sheet["unplaced"][0];
    let device = &unplaced["candidates"][0]["containers"][0]["devices"][0];
    assert_eq!(device["reason"], "CardInsufficientMemory");
    assert_eq!(device["need"], json!(8000 * MIB));
    assert_eq!(device["free"], json!(607 * MIB));
    assert_eq!(device["short_by"], json!(7393 * MIB));
    assert_eq!(sheet["devices"][0]["held"], json!(32_000 * MIB));
}

#[test]
fn four_hundred_pods_are_still_four() {
    let many = example().replace("replicas: 5", "replicas: 400");
    assert_eq!(counts(&simulated(&many, "")), (4, 396));
}

#[test]
fn the_number_of_tokens_does_not_change_capacity() {
    let reported = example()
        .replace("\"32607\"", "\"32600\"")
        .replace("gpu.replicas: \"100\"", "gpu.replicas: \"99\"");
    let sheet = simulated(&reported, "");
    assert_eq!(counts(&sheet), (4, 1));
    assert_eq!(
        sheet["unplaced"][0]["candidates"][0]["containers"][0]["devices"][0]["free"],
        json!(600 * MIB)
    );
    assert_eq!(piped("audit -f -", &reported).code, Some(1), "the contradiction is a finding");
}

#[test]
fn two_cards_hold_eight_only_where_the_choice_is_owned() {
    let twelve = pods(12, |name| share(name, ""));
    assert_eq!(counts(&simulated(&format!("{}{twelve}", node(2, "")), "")).0, 4);
    let owned = node(2, "plimsoll.dev/device-choice: owned");
    assert_eq!(counts(&simulated(&format!("{owned}{twelve}"), "")).0, 8);
}

#[test]
fn a_plain_request_beside_a_share_is_rejected_and_the_holder_is_named() {
    let sheet =
        simulated(&format!("{}{}{}", node(1, ""), share("first", ""), plain("second", "")), "");
    assert_eq!(counts(&sheet), (1, 1));
    let summary = sheet["unplaced"][0]["summary"].as_str().expect("a sentence");
    assert!(summary.contains("d/first"), "{summary}");
}

#[test]
fn cards_that_plain_pods_run_on_take_no_shares() {
    let running = pods(3, |name| plain(&format!("run-{name}"), "nodeName: gpu-node, "));
    let sheet =
        simulated(&format!("{}{running}{}", node(1, ""), pods(5, |name| share(name, ""))), "");
    assert_eq!(counts(&sheet), (0, 5));
    assert_eq!(
        sheet["devices"][0]["free"],
        Value::Null,
        "what they use is unknown, so what is free is too"
    );
}

#[test]
fn the_rule_for_plain_requests_is_applied_said_and_proposed() {
    let five = format!("{}{}", node(1, ""), pods(5, |name| plain(name, "")));
    for (rule, placed) in [("whole", 1), ("equal-share", 5), ("refuse", 0)] {
        assert_eq!(counts(&simulated(&five, &format!("--plain {rule}"))).0, placed, "{rule}");
        let text = piped(&format!("simulate -f - --plain {rule}"), &five).out;
        assert!(text.contains(&format!("--plain {rule}")), "{text}");
    }
    let sheet = simulated(&five, "");
    let proposed = rows(&sheet["unplaced"][0], "would_fit_if");
    assert!(
        proposed.iter().any(|remedy| remedy["kind"] == "plain_rule" && remedy["verified"] == true),
        "{sheet}"
    );
}

#[test]
fn what_was_seen_too_late_is_found_with_its_numbers_and_names() {
    let sheet = plimsoll("audit -f examples/kai-time-slicing-too-late.yaml -o json").json(1);
    let findings = rows(&sheet, "findings");
    let over = findings
        .iter()
        .find(|finding| finding["severity"] == "error")
        .expect("a device over its line");
    let message = over["message"].as_str().expect("a sentence");
    for text in ["40000 MiB", "32607 MiB", "7393 MiB"] {
        assert!(message.contains(text), "{message}");
    }
    for pod in 0..5 {
        assert!(message.contains(&format!("ubuntu-test-{pod}")), "{message}");
    }
    assert!(
        over["numbers"]
            .as_object()
            .expect("numbers")
            .values()
            .any(|number| *number == json!(7393 * MIB))
    );
}

/// Four cards of 16 GiB with four tokens each, and six pods of 4 GiB that hold tokens of them.
#[test]
fn the_numbers_of_a_card_that_the_plugin_picks_are_those_of_the_verdict() {
    let pod = |name: &str, node: &str, mib: u64| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: d}}\nspec: {{{node}containers: \
             [{{name: c, resources: {{limits: {{nvidia.com/gpu: 1, nvidia.com/gpumem: {mib}}}}}}}]}}\n"
        )
    };
    let holders: String = (0..6).map(|at| pod(&format!("r{at}"), "nodeName: n, ", 4096)).collect();
    let node = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels:\n    nvidia.com/gpu.count: \"4\"\n    \
                nvidia.com/gpu.replicas: \"4\"\n    nvidia.com/gpu.memory: \"16384\"\n    \
                nvidia.com/gpu.sharing-strategy: mps\nstatus: {capacity: {nvidia.com/gpu: 16}, allocatable: {nvidia.com/gpu: 16}}\n";
    // The first takes the place of one of the four largest that can meet; the second is larger.
    for (mib, code, short_by) in [(4096, 0, 0), (5000, 1, 904)] {
        let run =
            piped("explain d/p -f - -o json", &(node.to_owned() + &holders + &pod("p", "", mib)));
        let sheet = run.json(code);
        let device = &sheet["candidates"][0]["containers"][0]["devices"][0];
        let numbers = ["need", "free", "short_by"].map(|name| device[name].as_u64());
        assert_eq!(numbers, [mib, 4096, short_by].map(|size| Some(size * MIB)), "{device}");
    }
}
