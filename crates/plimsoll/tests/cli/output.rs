//! JSON contracts, exit codes, colour, logs and pipes.

use std::process::Stdio;

use crate::tool::{command, piped, plimsoll, rows};

#[test]
fn exit_codes_tell_the_outcome() {
    for (line, code) in [
        ("simulate -f examples/helix-two-gpus.yaml", 0),
        ("simulate -f examples/gang.yaml", 1),
        ("explain -f examples/hami-demo-pods.yaml default/gpu-pod", 0),
        ("explain -f examples/hami-demo-pods.yaml default/gpu-pod-default", 1),
        ("explain -f examples/gang.yaml default/busy", 0),
        ("audit -f examples/helix-two-gpus.yaml", 0),
        ("audit -f examples/helix-overcommitted.yaml", 1),
        ("simulate --help", 0),
        ("simulate --no-such-flag", 2),
    ] {
        let run = plimsoll(line);
        assert_eq!(run.code, Some(code), "{line}\n{}{}", run.err, run.out);
    }
}

#[test]
fn an_explanation_is_one_object_for_placed_pending_and_running_pods() {
    let placed = plimsoll("explain -f examples/hami-pending.yaml default/sample -o json").json(0);
    assert_eq!((&placed["schema_version"], &placed["status"]), (&2.into(), &"placed".into()));
    assert_eq!(placed["node"], "node3");
    assert_eq!(rows(&placed, "candidates").len(), 3);
    let pending =
        plimsoll("explain -f examples/hami-demo-pods.yaml default/gpu-pod-default -o json").json(1);
    assert_eq!(
        (&pending["status"], &pending["chosen"]),
        (&"pending".into(), &serde_json::Value::Null)
    );
    let running = plimsoll("explain -f examples/gang.yaml default/busy -o json").json(0);
    assert_eq!((&running["status"], &running["node"]), (&"running".into(), &"node-a".into()));
    let keys = |sheet: &serde_json::Value| -> Vec<String> {
        sheet.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(keys(&placed), keys(&pending));
    assert_eq!(keys(&placed), keys(&running));
}

#[test]
fn the_sample_answer_of_the_schedulerlog_proposal_comes_out() {
    let sheet = plimsoll("explain -f examples/hami-pending.yaml default/sample -o json").json(0);
    let first = reason(&sheet, "node1", 0).expect("container1 fails on node1");
    for part in [
        "3/8 CardInsufficientMemory",
        "2/8 CardInsufficientCore",
        "1/8 ExclusiveDeviceAllocateConflict",
    ] {
        assert!(first.contains(part), "{first}");
    }
    assert_eq!(reason(&sheet, "node2", 0), None);
    let second = "3/8 CardUuidMismatch, 4/8 CardInsufficientMemory, 1/8 CardInsufficientCore";
    assert_eq!(reason(&sheet, "node2", 1).as_deref(), Some(second));
    assert_eq!(reason(&sheet, "node3", 0), None);
}

#[test]
fn two_fitting_cards_of_a_numa_node_where_three_are_wanted_do_not_fit_numa() {
    let sheet = plimsoll("explain -f examples/hami-pending.yaml default/sample -o json").json(0);
    let first = "2/8 NumaNotFit, 3/8 CardInsufficientMemory, 2/8 CardInsufficientCore, 1/8 ExclusiveDeviceAllocateConflict";
    assert_eq!(reason(&sheet, "node1", 0).as_deref(), Some(first));
}

fn reason(sheet: &serde_json::Value, node: &str, container: usize) -> Option<String> {
    let row = rows(sheet, "candidates").iter().find(|row| row["name"] == node).expect("the node");
    row["containers"][container]
        .get("reason")
        .map(|reason| reason.as_str().expect("text").to_string())
}

#[test]
fn a_pod_is_found_by_its_name_alone_anywhere_on_the_command_line() {
    assert_eq!(plimsoll("explain -f examples/hami-pending.yaml sample").code, Some(0));
    assert_eq!(plimsoll("explain sample -f examples/hami-pending.yaml").code, Some(0));
    assert_eq!(plimsoll("explain -f examples/hami-pending.yaml -- default/sample").code, Some(0));
}

#[test]
fn sarif_is_complete() {
    let log = plimsoll("audit -f examples/helix-overcommitted.yaml -o sarif").json(1);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "plimsoll");
    let rules = rows(&run["tool"]["driver"], "rules");
    for result in rows(run, "results") {
        let index =
            usize::try_from(result["ruleIndex"].as_u64().expect("an index")).expect("small");
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().expect("a level")));
        assert!(result["message"]["text"].is_string());
        let location = &result["locations"][0];
        assert_eq!(
            location["physicalLocation"]["artifactLocation"]["uri"],
            "examples/helix-overcommitted.yaml"
        );
    }
    assert!(!rows(run, "results").is_empty());
}

#[test]
fn colour_is_for_terminals_and_on_request() {
    let line = "simulate -f examples/gang.yaml";
    assert!(!plimsoll(line).out.contains('\u{1b}'));
    assert!(plimsoll(&format!("{line} --color always")).out.contains('\u{1b}'));
}

#[test]
fn quiet_omits_the_summary_of_the_input() {
    assert!(plimsoll("audit -f examples/helix-two-gpus.yaml").out.starts_with("Input\n"));
    assert!(!plimsoll("audit -q -f examples/helix-two-gpus.yaml").out.contains("Input"));
}

#[test]
fn decisions_are_logged_beside_the_answer() {
    let run = plimsoll("simulate -f examples/kai-time-slicing.yaml -o json --log-decisions");
    let sheet = run.json(1);
    assert_eq!(rows(&sheet, "unplaced").len(), 1);
    for step in ["[GPU_FILTER] ", "[GPU_FIT_CHECK] ", "[GPU_SELECT] "] {
        assert!(run.err.contains(step), "{step}: {}", run.err);
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let line = "simulate -f examples/hami-demo-pods.yaml -o json --full";
    let first = plimsoll(line).out;
    assert!(first.contains("placements"));
    assert_eq!(first, plimsoll(line).out);
}

#[test]
fn a_list_from_kubectl_works_as_it_is() {
    let list = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n",
        "annotations":{"plimsoll.dev/devices":"[{\"uuid\":\"GPU-1\",\"memory\":\"80GiB\"}]"}},"status":{}}]}"#;
    let run = piped("simulate -f - -o json", list);
    assert_eq!(run.json(0)["devices"][0]["uuid"], "GPU-1");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = command("simulate -f examples/hami-pending.yaml -o json --full");
    child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("the binary");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
}

#[test]
fn completions_and_man_pages_come_from_the_definitions() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(plimsoll(&format!("completions {shell}")).out.contains("simulate"), "{shell}");
    }
    assert!(plimsoll("man").out.contains(".TH plimsoll"));
    let out = crate::tool::scratch("man");
    assert_eq!(plimsoll(&format!("man --out {}", out.display())).code, Some(0));
    for page in ["plimsoll.1", "plimsoll-simulate.1", "plimsoll-explain.1", "plimsoll-audit.1"] {
        assert!(out.join(page).exists(), "{page}");
    }
}

#[test]
fn zsh_adds_live_names_to_the_words_of_the_definitions() {
    let script = plimsoll("completions zsh").out;
    let at =
        |part: &str| script.find(part).unwrap_or_else(|| panic!("{part} is not in the script"));
    // zsh calls the function with the name of the file, and the last lines register it.
    assert_eq!(script.matches("\n_plimsoll() {").count(), 1);
    assert!(at("\n_plimsoll_words() {") < at("\n_plimsoll() {"));
    assert!(at("plimsoll $list -o name") < at("_plimsoll_words \"$@\""));
    assert!(at("_plimsoll_words \"$@\"") < at("compdef _plimsoll plimsoll"));
}

#[test]
fn yaml_has_the_names_and_values_of_json() {
    for line in [
        "simulate -f examples/kai-time-slicing.yaml",
        "audit -f examples/helix-overcommitted.yaml",
        "explain -f examples/hami-pending.yaml default/sample",
        "estimate examples/models/qwen3-8b",
    ] {
        let (json, yaml) =
            (plimsoll(&format!("{line} -o json")), plimsoll(&format!("{line} -o yaml")));
        assert_eq!(json.code, yaml.code, "{line}");
        let read: serde_json::Value = serde_saphyr::from_str(&yaml.out).expect("YAML");
        assert_eq!(read, json.json(json.code.expect("a code")), "{line}");
    }
}

#[test]
fn a_directory_may_have_files_without_kubernetes_objects() {
    let folder = crate::tool::scratch("mixed");
    for file in ["kai-time-slicing.yaml", "models-vllm.yaml"] {
        std::fs::copy(crate::tool::root().join("examples").join(file), folder.join(file))
            .expect("a copy");
    }
    let run = plimsoll(&format!("simulate -f {} -o json", folder.display()));
    assert_eq!(rows(&run.json(1), "placements").len(), 4, "{}", run.err);
    assert!(run.err.contains("skipped, no Kubernetes objects: "), "{}", run.err);
    assert!(run.err.contains("models-vllm.yaml") && !run.err.contains("kai"), "{}", run.err);
    plimsoll("simulate -f examples/models-vllm.yaml").fails_with(&["plimsoll plan -f"]);
}

#[test]
fn the_pods_of_one_namespace_are_shown_and_all_are_counted() {
    let other = pod("big", 61_440, "", "", "").replace("namespace: default", "namespace: team");
    let input = [NODE, &other, &pod("small", 30_720, "", "", "")].concat();
    let names = |sheet: &serde_json::Value, list: &str| -> Vec<String> {
        rows(sheet, list).iter().map(|row| row["pod"].to_string()).collect()
    };
    let team = piped("simulate -f - -n team -o json", &input).json(0);
    assert_eq!(
        (names(&team, "placements"), names(&team, "unplaced").len()),
        (vec!["\"big\"".to_string()], 0)
    );
    let default = piped("simulate -f - -n default -o json", &input).json(1);
    assert_eq!(names(&default, "unplaced"), ["\"small\""], "the other pod holds the memory");
    assert_eq!(names(&default, "placements").len(), 0);
}

/// A node with one declared card of 80 GiB.
const NODE: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: n, annotations: {plimsoll.dev/devices: '[{"uuid": "GPU-1", "memory": "80GiB"}]', plimsoll.dev/device-choice: owned}}
"#;

/// A pod that requests an amount of memory, with parts of its metadata, spec and status.
fn pod(name: &str, mib: u32, metadata: &str, spec: &str, status: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default{metadata}}}\nspec: {{containers: \
         [{{name: main, resources: {{limits: {{nvidia.com/gpu: 1, nvidia.com/gpumem: {mib}}}}}}}]{spec}}}\nstatus: {{{status}}}\n"
    )
}

#[test]
fn the_same_memory_is_not_promised_twice() {
    let old = pod(
        "old",
        61_440,
        ", deletionTimestamp: \"2026-01-01T00:00:00Z\"",
        ", nodeName: n",
        "phase: Running",
    );
    let input = [NODE, &old, &pod("first", 30_720, "", "", ""), &pod("second", 61_440, "", "", "")]
        .concat();
    let sheet = piped("simulate -f - -o json", &input).json(1);
    let unplaced = rows(&sheet, "unplaced");
    assert_eq!(
        (&unplaced[0]["pod"], &unplaced[0]["promised"]["after"][0]),
        (&"first".into(), &"default/old".into())
    );
    assert_eq!(
        (&unplaced[1]["pod"], &unplaced[1]["promised"]),
        (&"second".into(), &serde_json::Value::Null)
    );
    let second = piped("explain second -f - -o json", &input).json(1);
    assert_eq!(second["promised"], serde_json::Value::Null, "explain says what simulate says");
}

#[test]
fn a_gated_or_finished_pod_has_that_status() {
    let gated = pod("later", 1024, "", ", schedulingGates: [{name: wait}]", "");
    let finished = pod("done", 1024, "", ", nodeName: n", "phase: Succeeded");
    let input = [NODE, &gated, &finished].concat();
    for (name, status, why) in [
        ("later", "gated", "held back by scheduling gates"),
        ("done", "finished", "it has finished and holds nothing"),
    ] {
        let run = piped(&format!("explain default/{name} -f -"), &input);
        assert_eq!(run.code, Some(1), "{}", run.err);
        assert!(run.out.contains(&format!("default/{name}\n  {status}: {why}")), "{}", run.out);
        let sheet = piped(&format!("explain {name} -f - -o json"), &input).json(1);
        assert_eq!((&sheet["status"], &sheet["summary"]), (&status.into(), &why.into()));
    }
}

#[test]
fn every_command_prints_what_is_not_counted() {
    let input = [
        NODE,
        &pod("away", 1024, "", ", nodeName: elsewhere", "phase: Running"),
        &pod("p", 1024, "", "", ""),
    ]
    .concat();
    for (command, code) in [("simulate", 0), ("audit", 1), ("explain p", 0)] {
        let text = piped(&format!("{command} -f -"), &input);
        assert!(
            text.out.contains("  not counted: default/away is on node elsewhere"),
            "{}",
            text.out
        );
        let sheet = piped(&format!("{command} -f - -o json"), &input).json(code);
        assert_eq!(rows(&sheet["input"], "findings")[0]["code"], "node-unknown", "{command}");
    }
}

#[test]
fn a_placement_that_was_not_chosen_has_its_deciding_term() {
    let sheet = plimsoll("explain -f examples/hami-demo-pods.yaml default/gpu-pod -o json").json(0);
    let lost = &rows(&sheet, "lost_by")[0];
    assert_eq!((&lost["term"], &lost["points_behind"]), (&"numa".into(), &10_000.into()));
    assert_eq!(lost["total_behind"], 10_884);
}

#[test]
fn a_pod_that_no_empty_card_could_hold_is_impossible() {
    let input = [NODE, &pod("fits", 1024, "", "", ""), &pod("large", 102_400, "", "", "")].concat();
    let sheet = piped("simulate -f - -o json", &input).json(1);
    let unplaced = rows(&sheet, "unplaced");
    assert_eq!(
        (&unplaced[0]["pod"], &unplaced[0]["status"]),
        (&"large".into(), &"impossible".into())
    );
    let large = piped("explain large -f - -o json", &input).json(1);
    assert_eq!(large["status"], "impossible", "explain agrees with simulate");
}
