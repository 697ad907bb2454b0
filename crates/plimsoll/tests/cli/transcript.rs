//! The transcript of the page about the installation: its commands, on a real API server, print
//! what the page shows. `UPDATE_GOLDEN=1` rewrites it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use plimsoll_testbed::api::Api;
use plimsoll_testbed::client::Client;
use plimsoll_testbed::control_plane::{ControlPlane, Settings};
use plimsoll_testbed::kubelet::Kubelet;
use plimsoll_testbed::objects::{self, GpuNode};
use plimsoll_testbed::programs;
use serde_json::json;

use crate::tool::{root, scratch};

const PAGE: &str = "docs/kubernetes-install.md";

/// The cluster that the page tells of: one card, shared 100 ways, four pods on it, and a fifth.
fn cluster(admin: &Client) {
    let node = GpuNode::new("gpu-node", 1, 32_607).shared(100);
    Kubelet::register(admin, &node, jiff::Timestamp::now()).expect("a node");
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}});
    admin.create("/api/v1/namespaces", namespace).expect("a namespace");
    for at in 1..=5 {
        let mut pod = objects::gpu_pod(&format!("web-{at}"), 8000);
        if at < 5 {
            pod["spec"]["nodeName"] = json!("gpu-node");
        }
        admin.create("/api/v1/namespaces/team-a/pods", pod).expect("a pod");
    }
}

/// Runs a line of a shell with kubectl, plimsoll and its plugin on the path.
fn run(line: &str, folder: &Path, kubeconfig: &Path) -> String {
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let output = Command::new("sh")
        .args(["-c", &format!("{line} 2>&1")])
        .env_clear()
        .envs([("PATH", path.as_str()), ("HOME", &folder.display().to_string())])
        .env("KUBECONFIG", kubeconfig)
        .current_dir(root())
        .output()
        .expect("a shell");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_page_about_the_installation_shows_what_its_commands_print() {
    let Some(programs) = programs::find_or_skip("the transcript of the installation") else {
        return;
    };
    let plane = ControlPlane::start(&programs, &Settings::default()).expect("a control plane");
    cluster(&plane.admin());
    let folder = scratch("transcript");
    let link = |name: &str, target: &Path| {
        let _ = fs::remove_file(folder.join(name));
        symlink(target, folder.join(name)).expect("a link");
    };
    let binary = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
    link("plimsoll", binary);
    link("kubectl-plimsoll", binary);
    link("kubectl", &programs.path("kubectl"));

    let page = fs::read_to_string(root().join(PAGE)).expect("the page");
    let (mut actual, mut blocks) = (String::new(), 0);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        actual.push_str(&format!("{line}\n"));
        if line != "```console" {
            continue;
        }
        let command = lines.next().and_then(|line| line.strip_prefix("$ ")).expect("a command");
        lines.by_ref().find(|line| *line == "```").expect("the end of the block");
        let printed = run(command, &folder, &plane.kubeconfig("admin"));
        actual.push_str(&format!("$ {command}\n{}\n```\n", printed.trim_end()));
        blocks += 1;
    }
    assert!(blocks > 3, "{blocks} commands");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(root().join(PAGE), &actual).expect("the page can be written");
    }
    assert_eq!(page, actual, "run this test with UPDATE_GOLDEN=1");
}
