//! Command lines and configuration of the components.

use std::path::Path;

use serde_json::json;

use super::{Component, ControlPlane, Durability};

/// Returns the flags of a component.
pub(super) fn command_line(plane: &ControlPlane, component: Component) -> Vec<String> {
    match component {
        Component::Etcd => etcd(plane),
        Component::ApiServer => api_server(plane),
        Component::Scheduler => {
            vec![flag("config", plane.file("scheduler.json").display())]
        }
    }
}

fn etcd(plane: &ControlPlane) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", plane.ports.etcd);
    let peer = format!("http://127.0.0.1:{}", plane.ports.etcd_peer);
    let mut flags = vec![
        flag("data-dir", plane.file("etcd").display()),
        flag("listen-client-urls", &client),
        flag("advertise-client-urls", &client),
        flag("listen-peer-urls", &peer),
        flag("initial-advertise-peer-urls", &peer),
        flag("initial-cluster", format!("default={peer}")),
    ];
    if plane.settings.durability == Durability::Buffered {
        flags.push("--unsafe-no-fsync".to_owned());
    }
    flags
}

fn api_server(plane: &ControlPlane) -> Vec<String> {
    let file = |name: &str| plane.file(name).display().to_string();
    let mut flags = vec![
        flag("etcd-servers", format!("http://127.0.0.1:{}", plane.ports.etcd)),
        flag("bind-address", "127.0.0.1"),
        flag("secure-port", plane.ports.api_server),
        flag("tls-cert-file", file("server.crt")),
        flag("tls-private-key-file", file("server.key")),
        flag("client-ca-file", file("ca.crt")),
        flag("token-auth-file", file("tokens.csv")),
        flag("authorization-mode", "RBAC"),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag("service-account-key-file", file("service-accounts.pub")),
        flag("service-account-signing-key-file", file("service-accounts.key")),
        flag("service-cluster-ip-range", "10.0.0.0/24"),
        // Without a controller manager, service accounts are not created in new namespaces.
        flag("disable-admission-plugins", "ServiceAccount"),
        // There is no address that pods could reach, and the reconciler rejects loopback.
        flag("endpoint-reconciler-type", "none"),
        // `ControlPlane::compact` alone decides when history is discarded.
        flag("etcd-compaction-interval", "0"),
    ];
    flags.extend(plane.settings.api_server_flags.iter().cloned());
    flags
}

/// Returns the configuration of kube-scheduler: stock profiles, no leader election.
pub(super) fn scheduler_config(kubeconfig: &Path) -> String {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "leaderElection": {"leaderElect": false},
    })
    .to_string()
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}
