//! The chart. Its templates use few constructs, and are rendered here without Helm; with
//! `HELM=…/helm` the tests also compare what Helm renders.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{deploy, objects, printed};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    Off,
    On,
}

/// Returns the templates that are the printed objects: those of every installation, and those of
/// the guard alone. The deployment has values, and is written by hand.
pub(super) fn generated(namespace: &str) -> (String, String) {
    let placeholder = "namespace-of-the-release";
    let print = |options: &str| printed(&format!("{options} --namespace {placeholder}"));
    let (watch, guard) = (print(""), print("--guard"));
    let shared: Vec<String> = objects(&watch).into_keys().collect();
    let document = |text: &str| {
        let key = objects(text).into_keys().next().unwrap_or_default();
        let is_made_elsewhere = key.contains(" Namespace ") || key.contains(" Deployment ");
        (!key.is_empty() && !is_made_elsewhere).then_some(key)
    };
    let (mut always, mut guarded) = (String::new(), String::new());
    for text in guard.split("---\n") {
        let Some(key) = document(text) else { continue };
        let part = if shared.contains(&key) { &mut always } else { &mut guarded };
        part.push_str("---\n");
        part.push_str(&text.replace(placeholder, namespace));
    }
    (always, format!("{{{{- if .Values.guard.enabled }}}}\n{guarded}{{{{- end }}}}\n"))
}

/// Renders all templates with the default values.
pub(super) fn render(guard: Guard, namespace: &str) -> String {
    let values = fs::read_to_string(deploy("chart/values.yaml")).expect("values");
    let mut values: Value = serde_saphyr::from_str(&values).expect("YAML");
    values["guard"]["enabled"] = Value::Bool(guard == Guard::On);
    let mut rendered = String::new();
    for name in ["objects", "guard", "deployment"] {
        let template = deploy(&format!("chart/templates/{name}.yaml"));
        let template = fs::read_to_string(template).expect("a template");
        rendered.push_str("---\n");
        rendered.push_str(&render_template(&template, &values, namespace));
    }
    rendered
}

/// Renders the constructs that the templates use, each on a line of its own: `if`, `else`, `with`,
/// `end`, `toYaml … | nindent`, and within a line the namespace and values in quotes.
fn render_template(template: &str, values: &Value, namespace: &str) -> String {
    let value = |path: &str| {
        let path = path.trim_start_matches(".Values.").replace('.', "/");
        values.pointer(&format!("/{path}")).unwrap_or_else(|| panic!("no value {path}")).clone()
    };
    let is_set = |value: &Value| match value {
        Value::Bool(is_set) => *is_set,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        other => panic!("not a condition: {other}"),
    };
    let (mut text, mut shown) = (String::new(), vec![true]);
    for line in template.lines() {
        let action = line.trim().strip_prefix("{{- ").and_then(|line| line.strip_suffix(" }}"));
        let is_shown = shown.iter().all(|shown| *shown);
        match action.map(|action| action.split_once(' ').unwrap_or((action, ""))) {
            Some(("if" | "with", path)) => shown.push(is_set(&value(path))),
            Some(("else", _)) => *shown.last_mut().expect("inside an if") ^= true,
            Some(("end", _)) => drop(shown.pop()),
            Some(("toYaml", rest)) if is_shown => {
                let (path, indent) = rest.split_once(" | nindent ").expect("an indent");
                let indent = " ".repeat(indent.parse().expect("a number"));
                let yaml = serde_saphyr::to_string(&value(path)).expect("YAML");
                yaml.lines().for_each(|line| text.push_str(&format!("{indent}{line}\n")));
            }
            Some(("toYaml", _)) => {}
            Some((other, _)) => panic!("unknown action {other}"),
            None if is_shown => {
                let image = value(".Values.image").to_string();
                let line = line.replace("{{ .Values.image | quote }}", &image);
                let quoted = format!("{namespace:?}");
                let line = line.replace("{{ .Release.Namespace | quote }}", &quoted);
                text.push_str(&line.replace("{{.Release.Namespace}}", namespace));
                text.push('\n');
            }
            None => {}
        }
    }
    assert!(!text.contains("{{"), "not rendered:\n{text}");
    text
}

/// Lints and renders the chart as a user would.
pub(super) fn render_with_helm(helm: &OsStr, guard: Guard, namespace: &str) -> String {
    let run = |arguments: &[&str]| {
        let output = Command::new(helm).args(arguments).arg(deploy("chart")).output();
        let output = output.expect("helm runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("YAML is UTF-8")
    };
    let guard = format!("guard.enabled={}", guard == Guard::On);
    run(&["lint", "--strict", "--set", &guard]);
    run(&[
        "template",
        "plimsoll",
        "--namespace",
        namespace,
        "--kube-version",
        "1.36.0",
        "--set",
        &guard,
    ])
}
