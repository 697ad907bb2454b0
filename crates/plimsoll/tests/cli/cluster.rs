//! Commands on a live cluster: the way there, and its errors.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::tool::{Run, command, finish, plimsoll, scratch};

/// Writes a kubeconfig with one context, `here`, of a server at this port.
fn kubeconfig(name: &str, port: u16) -> PathBuf {
    let path = scratch(name).join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: here, context: {{cluster: c, user: u, namespace: team-a}}}}]\n"
    );
    fs::write(&path, text).expect("a file");
    path
}

/// A port of this machine that accepts no connection.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Runs the binary under the name by which kubectl finds it.
fn as_plugin(directory: &Path, line: &str, kubeconfig: &str) -> Run {
    let link = directory.join("kubectl-plimsoll");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_plimsoll"), &link).expect("a link");
    let mut plugin = std::process::Command::new(&link);
    plugin.args(line.split_whitespace()).env("KUBECONFIG", kubeconfig).env("HOME", directory);
    plugin.env_remove("KUBERNETES_SERVICE_HOST").env_remove("PLIMSOLL_SERVER");
    finish(plugin, "")
}

#[test]
fn an_unusable_kubeconfig_is_named_with_its_cause() {
    for line in ["audit", "simulate", "devices", "top", "explain web"] {
        plimsoll(&format!("{line} --kubeconfig no/such/config"))
            .fails_with(&["could not read the kubeconfig no/such/config", "No such file"]);
    }
    let broken = scratch("kubeconfig-broken").join("config");
    fs::write(&broken, "clusters: 5").expect("a file");
    plimsoll(&format!("audit --kubeconfig {}", broken.display()))
        .fails_with(&["could not read the kubeconfig", "config"]);
}

#[test]
fn an_unknown_context_is_answered_with_the_known_ones() {
    let config = kubeconfig("kubeconfig-context", 1);
    let line = format!("audit --kubeconfig {} --context there", config.display());
    plimsoll(&line).fails_with(&["no context \"there\"", "it has here"]);
}

#[test]
fn an_unreachable_api_server_is_named_with_its_address() {
    let port = closed_port();
    let config = kubeconfig("kubeconfig-closed", port);
    let address = format!("http://127.0.0.1:{port}");
    plimsoll(&format!("audit --kubeconfig {}", config.display()))
        .fails_with(&["cannot reach the API server", &address]);
}

#[test]
fn a_server_and_a_cluster_cannot_both_be_meant() {
    let config = kubeconfig("kubeconfig-both", 1);
    let both = format!("--kubeconfig {} --server http://127.0.0.1:1", config.display());
    plimsoll(&format!("explain a/b {both}")).fails_with(&["both a server and"]);
    plimsoll(&format!("top {both}")).fails_with(&["both a server and a cluster"]);
}

#[test]
fn a_kubectl_plugin_uses_the_cluster_of_kubectl() {
    let directory = scratch("kubeconfig-plugin");
    let (first, second) = (closed_port(), closed_port());
    let one = kubeconfig("kubeconfig-first", first);
    let other = kubeconfig("kubeconfig-second", second);
    // A missing file of the list is skipped, and the first file that has a setting wins.
    let list = format!("/no/such/file:{}:{}", one.display(), other.display());
    let address = format!("http://127.0.0.1:{first}");
    for line in ["audit", "devices", "simulate", "top", "explain web"] {
        as_plugin(&directory, line, &list).fails_with(&["cannot reach", &address]);
    }
    fs::create_dir_all(directory.join(".kube")).expect("a directory");
    fs::copy(&other, directory.join(".kube/config")).expect("a copy");
    let address = format!("http://127.0.0.1:{second}");
    as_plugin(&directory, "audit", "").fails_with(&["cannot reach", &address]);
    fs::remove_file(directory.join(".kube/config")).expect("it is there");
    as_plugin(&directory, "audit", "").fails_with(&["no kubeconfig", ".kube/config"]);
    as_plugin(&directory, "audit -f -", &list).fails_with(&["cannot reach"]);
    as_plugin(&directory, "top --server http://127.0.0.1:1", &list).fails_with(&["127.0.0.1:1"]);
}

#[test]
fn without_a_named_cluster_none_is_read() {
    let mut audit = command("audit");
    audit.env("KUBECONFIG", kubeconfig("kubeconfig-unused", 1));
    finish(audit, "").fails_with(&["no input; give files with -f, a cluster with --kubeconfig"]);
}
