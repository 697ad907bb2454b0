//! The installation: `plimsoll kube manifests`, the kustomize bases and the chart are the same
//! objects.

mod chart;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use plimsoll_testbed::programs;
use serde_json::Value;

use crate::tool::{plimsoll, root};

/// Objects by API group, kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(yaml: &str) -> Objects {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        let (kind, name) = (text(&object["kind"]), text(&metadata["name"]));
        format!("{} {kind} {}/{name}", text(&object["apiVersion"]), text(&metadata["namespace"]))
    };
    documents.into_iter().filter(|one| !one.is_null()).map(|one| (key(&one), one)).collect()
}

pub(crate) fn printed(options: &str) -> String {
    let run = plimsoll(&format!("kube manifests {options}"));
    assert_eq!(run.code, Some(0), "{}", run.err);
    run.out
}

fn deploy(path: &str) -> PathBuf {
    root().join("deploy").join(path)
}

/// Compares a file with what it must have; `UPDATE_GOLDEN=1` rewrites it.
fn assert_is(path: &str, wanted: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(deploy(path), wanted).expect("the file can be written");
    }
    let found = fs::read_to_string(deploy(path)).unwrap_or_default();
    assert_eq!(found, wanted, "deploy/{path} is out of date: run this test with UPDATE_GOLDEN=1");
}

#[test]
fn the_kustomize_bases_are_the_printed_objects() {
    assert_is("kustomize/watch/plimsoll.yaml", &printed(""));
    assert_is("kustomize/guard/plimsoll.yaml", &printed("--guard"));
    let Some(programs) = programs::find_or_skip("the kustomize bases in kubectl") else { return };
    for (base, options) in [("watch", ""), ("guard", "--guard")] {
        let folder = deploy("kustomize").join(base);
        let output = Command::new(programs.path("kubectl")).arg("kustomize").arg(folder).output();
        let output = output.expect("kubectl runs");
        let built = String::from_utf8(output.stdout).expect("YAML is UTF-8");
        assert_eq!(objects(&built), objects(&printed(options)), "{base}");
    }
}

#[test]
fn the_chart_installs_the_printed_objects() {
    let template = "{{.Release.Namespace}}";
    let (generated, guarded) = chart::generated(template);
    assert_is("chart/templates/objects.yaml", &generated);
    assert_is("chart/templates/guard.yaml", &guarded);
    for (guard, options) in [(chart::Guard::Off, ""), (chart::Guard::On, "--guard")] {
        let mut wanted = objects(&printed(&format!("{options} --namespace gpu-system")));
        // Helm makes the namespace of a release itself.
        wanted.retain(|_, object| object["kind"] != "Namespace");
        assert_eq!(objects(&chart::render(guard, "gpu-system")), wanted, "{options}");
        let Some(helm) = std::env::var_os("HELM") else { continue };
        let rendered = chart::render_with_helm(&helm, guard, "gpu-system");
        assert_eq!(objects(&rendered), wanted, "helm, {options}");
    }
}

#[test]
fn every_value_of_the_chart_has_a_schema() {
    let read = |path: &str| fs::read_to_string(deploy(path)).expect("a file of the chart");
    let schema: Value = serde_json::from_str(&read("chart/values.schema.json")).expect("JSON");
    let values: Value = serde_saphyr::from_str(&read("chart/values.yaml")).expect("YAML");
    let mut declared: Vec<&String> =
        schema["properties"].as_object().expect("properties").keys().collect();
    declared.retain(|name| *name != "global");
    let stated: Vec<&String> = values.as_object().expect("values").keys().collect();
    assert_eq!(declared, stated);
    let chart: Value = serde_saphyr::from_str(&read("chart/Chart.yaml")).expect("YAML");
    let image = format!("plimsoll:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(values["image"], image.as_str());
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn an_unusable_namespace_or_image_is_named() {
    for (line, part) in [
        ("--namespace Team_A", "lower-case letters"),
        ("--namespace kube-system", "choose another namespace"),
        ("--namespace a-", "begins and ends"),
        ("--image=", "an image has a name"),
        ("--listen 127.0.0.1:1", "--listen"),
    ] {
        plimsoll(&format!("kube manifests {line}")).fails_with(&[part]);
    }
}
