//! The deployment and the service in front of it.

use serde_json::{Value, json};

use super::{API_PORT, GUARD, Installation, LEADER, Manifest, NAME, Part, WEBHOOK_PORT, labels};

pub(super) fn manifests(installation: &Installation) -> Vec<Manifest> {
    let mut manifests = vec![
        Manifest {
            why: "The program. It keeps no state: the API server is the only source of truth.",
            object: deployment(installation),
        },
        Manifest {
            why: "Its HTTP API, for callers with a token of the cluster.",
            object: service(installation, NAME, API_PORT, "api", &labels()),
        },
    ];
    if installation.part == Part::Guard {
        manifests.push(Manifest {
            why: "Its webhooks, for the API server: the replica that decides labels its pod.",
            object: service(installation, GUARD, WEBHOOK_PORT, "webhook", &leader()),
        });
    }
    manifests
}

fn deployment(installation: &Installation) -> Value {
    let mut spec = pod_spec(installation);
    let replicas = match installation.part {
        Part::Watch => 1,
        Part::Guard => {
            spec["priorityClassName"] = json!(GUARD);
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels()},
            }]);
            2
        }
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": installation.namespaced(NAME),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels()},
            "template": {"metadata": {"labels": labels()}, "spec": spec},
        },
    })
}

fn pod_spec(installation: &Installation) -> Value {
    json!({
        "serviceAccountName": NAME,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container(installation)],
    })
}

fn container(installation: &Installation) -> Value {
    let mut args = vec!["kube".to_owned(), format!("--listen=0.0.0.0:{API_PORT}")];
    args.push("--log=json".to_owned());
    let mut ports = vec![json!({"name": "api", "containerPort": API_PORT})];
    if installation.part == Part::Guard {
        args.push("--guard".to_owned());
        ports.push(json!({"name": "webhook", "containerPort": WEBHOOK_PORT}));
    }
    let probe = |path: &str, failures: u32| {
        json!({
            "httpGet": {"path": path, "port": "api", "scheme": "HTTPS"},
            "periodSeconds": 5,
            "failureThreshold": failures,
        })
    };
    json!({
        "name": NAME,
        "image": installation.image,
        "args": args,
        "ports": ports,
        "livenessProbe": probe("/livez", 6),
        "readinessProbe": probe("/readyz", 1),
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}

/// Returns the labels of the pod that decides.
fn leader() -> Value {
    let mut labels = labels();
    labels[LEADER.0] = json!(LEADER.1);
    labels
}

fn service(
    installation: &Installation,
    name: &str,
    target: u16,
    port: &str,
    selector: &Value,
) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": installation.namespaced(name),
        "spec": {
            "selector": selector,
            "ports": [{"name": port, "port": 443, "targetPort": target}],
        },
    })
}
