//! The objects that install `plimsoll kube` in a cluster.
//!
//! They are made here and nowhere else: `plimsoll kube manifests` prints them, the kustomize bases
//! in `deploy/kustomize` are that output, and a test compares the chart in `deploy/chart` with it.

mod line;
mod rights;
mod workload;

use serde_json::{Value, json};

/// The name of every object that is not named after something else.
pub const NAME: &str = "plimsoll";

/// The name of the objects that only the guard has.
pub const GUARD: &str = "plimsoll-guard";

/// The namespace label that puts a namespace under the guard, and its values.
pub const LINE: &str = "plimsoll.dev/line";
pub const LINE_ENFORCE: &str = "enforce";
pub const LINE_WARN: &str = "warn";

/// The label of the pod that decides, which the service of the webhooks selects: a replica that
/// does not decide is no endpoint.
pub const LEADER: (&str, &str) = ("plimsoll.dev/role", "leader");

/// The port of the HTTP API, and that of the webhooks.
pub const API_PORT: u16 = 8443;
pub const WEBHOOK_PORT: u16 = 9443;

/// The accounts of HAMi's components, as its chart names them in its default namespace.
pub const HAMI_ACCOUNTS: [&str; 2] = [
    "system:serviceaccount:kube-system:hami-scheduler",
    "system:serviceaccount:kube-system:hami-device-plugin",
];

/// The choices of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    pub namespace: String,
    pub image: String,
    pub part: Part,
}

/// The parts of Plimsoll that are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Watches and explains; writes nothing.
    Watch,
    /// Also rejects bindings that would overcommit a device, in namespaces with the label.
    Guard,
}

/// An object to apply, and why it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub why: &'static str,
    pub object: Value,
}

impl Installation {
    /// Returns the objects in the order in which they are applied.
    pub fn manifests(&self) -> Vec<Manifest> {
        let mut manifests = vec![self.namespace()];
        manifests.extend(rights::manifests(self));
        if self.part == Part::Guard {
            manifests.extend(line::before_the_workload(self));
        }
        manifests.extend(workload::manifests(self));
        if self.part == Part::Guard {
            manifests.extend(line::manifests(self));
        }
        manifests
    }

    /// Returns the account that Plimsoll runs as, as the API server names it.
    pub fn account(&self) -> String {
        format!("system:serviceaccount:{}:{NAME}", self.namespace)
    }

    fn namespace(&self) -> Manifest {
        let labels = json!({
            "app.kubernetes.io/name": NAME,
            "pod-security.kubernetes.io/enforce": "restricted",
        });
        Manifest {
            why: "The namespace of everything below that has one.",
            object: json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": self.namespace, "labels": labels},
            }),
        }
    }

    /// Returns the metadata of an object in Plimsoll's namespace.
    fn namespaced(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": labels()})
    }
}

/// Returns the metadata of an object without a namespace.
fn clustered(name: &str) -> Value {
    json!({"name": name, "labels": labels()})
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": NAME})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(part: Part) -> Vec<String> {
        let installation = Installation { namespace: "n".into(), image: "i".into(), part };
        let named = |one: &Manifest| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {}", text(&one.object["kind"]), text(&one.object["metadata"]["name"]))
        };
        installation.manifests().iter().map(named).collect()
    }

    #[test]
    fn a_watch_may_write_no_object_of_the_cluster() {
        let installation =
            Installation { namespace: "n".into(), image: "i".into(), part: Part::Watch };
        let mut rules = 0;
        for Manifest { object, .. } in installation.manifests() {
            for rule in object["rules"].as_array().into_iter().flatten() {
                rules += 1;
                let is_review = rule["resources"].as_array().is_some_and(|resources| {
                    resources
                        .iter()
                        .all(|one| one.as_str().is_some_and(|one| one.ends_with("reviews")))
                });
                let reads = rule["verbs"] == json!(["list", "watch"]);
                // A review is a question: the API server stores nothing.
                assert!(reads || is_review && rule["verbs"] == json!(["create"]), "{rule}");
            }
        }
        assert!(rules > 4, "{rules}");
    }

    #[test]
    fn the_guard_adds_objects_and_changes_only_the_deployment() {
        let (watch, guard) = (kinds(Part::Watch), kinds(Part::Guard));
        for name in &watch {
            assert!(guard.contains(name), "{name} is missing");
        }
        for name in ["ValidatingAdmissionPolicy", "PodDisruptionBudget", "PriorityClass"] {
            assert!(guard.iter().any(|one| one.starts_with(name)), "{name} is missing");
            assert!(!watch.iter().any(|one| one.starts_with(name)), "{name}");
        }
    }
}
