//! The objects of the registration.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll_kube::booking::TERM;
use plimsoll_kube::line::LINE_LABEL;
use plimsoll_server::pods::{BINDINGS, PODS, REVIEWED};
use serde_json::{Value, json};

use super::devices::may_need_devices;
use crate::manifests::GUARD;

/// The name of the policy, which differs from that of the policy for annotations.
const POLICY: &str = "plimsoll-guard-bindings";

/// The annotation with the namespace of the installation.
pub(super) const INSTALLED_IN: &str = "plimsoll.dev/namespace";

/// The objects as collection and name, in the order in which they are applied: the webhooks first,
/// because the policy rejects what they do not mark.
pub(crate) const REGISTRATION: [(&str, &str); 3] = [
    ("mutatingwebhookconfigurations", GUARD),
    ("validatingadmissionpolicies", POLICY),
    ("validatingadmissionpolicybindings", POLICY),
];

/// The time that the API server waits for an answer.
const TIMEOUT_SECONDS: u32 = 5;

/// The message for a pod with devices while Plimsoll does not answer.
const WAITING: &str = "Plimsoll does not answer, and pods with devices in this namespace wait for it \
    (label plimsoll.dev/line=enforce)";

/// The address of the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Service of the cluster, on port 443.
    Service { namespace: String, name: String },
    /// A URL without path, outside the cluster.
    Url(String),
}

/// The registration of one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub endpoint: Endpoint,
    /// The certificates to trust, in PEM.
    pub trusted: String,
    /// Plimsoll's own namespace, which cannot be guarded.
    pub namespace: String,
    /// The uid of the ClusterRole of the installation: the cluster deletes the registration with
    /// it. `None` where the guard was not installed by its manifests.
    pub owner: Option<String>,
    /// The term of the leader that registers. It is written on each object, so that a leader of an
    /// earlier term, which was stopped in between, does not overwrite it.
    pub term: u64,
}

impl Registration {
    /// Returns the objects with their collections, in the order in which they are applied.
    pub(super) fn objects(&self) -> [(&'static str, Value); 3] {
        let [webhooks, policy, binding] = REGISTRATION.map(|(collection, _)| collection);
        [(webhooks, self.webhooks()), (policy, self.policy()), (binding, self.policy_binding())]
    }

    fn webhooks(&self) -> Value {
        let bindings = rule(&["pods/binding", "bindings"]);
        let asks = condition("asks-for-devices", &may_need_devices("object"));
        let pods = rule(&["pods"]);
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": self.metadata(GUARD),
            "webhooks": [
                self.webhook("bindings", BINDINGS, &["enforce", "warn"], "Ignore", &bindings, &[]),
                // Closed, because the policy sees a pod only some milliseconds after its creation:
                // a scheduler can be faster. The condition names the pods that it is about.
                self.webhook("pods", PODS, &["enforce"], "Fail", &pods, &[&asks]),
                self.webhook("warned-pods", PODS, &["warn"], "Ignore", &pods, &[&asks]),
            ],
        })
    }

    fn webhook(
        &self,
        name: &str,
        path: &str,
        lines: &[&str],
        on_failure: &str,
        rule: &Value,
        conditions: &[&Value],
    ) -> Value {
        let authority = STANDARD.encode(&self.trusted);
        let client = match &self.endpoint {
            Endpoint::Service { namespace, name } => json!({
                "caBundle": authority,
                "service": {"namespace": namespace, "name": name, "path": path, "port": 443},
            }),
            Endpoint::Url(url) => json!({
                "caBundle": authority,
                "url": format!("{}{path}", url.trim_end_matches('/')),
            }),
        };
        json!({
            "name": format!("{name}.guard.plimsoll.dev"),
            "clientConfig": client,
            "rules": [rule],
            "namespaceSelector": self.namespaces(lines),
            "failurePolicy": on_failure,
            "matchPolicy": "Equivalent",
            "matchConditions": conditions,
            // A dry run books nothing.
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": TIMEOUT_SECONDS,
        })
    }

    /// Rejects a Binding without the mark if its pod could need devices. The pods of the namespace
    /// are the parameters: the policy is evaluated for each of them.
    fn policy(&self) -> Value {
        let is_marked = format!(
            "(has(object.metadata.finalizers) && object.metadata.finalizers.exists(f, f == '{REVIEWED}'))"
        );
        let needs_devices = may_need_devices("params");
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": self.metadata(POLICY),
            "spec": {
                "failurePolicy": "Fail",
                "paramKind": {"apiVersion": "v1", "kind": "Pod"},
                "matchConstraints": {
                    "namespaceSelector": self.namespaces(&["enforce"]),
                    "resourceRules": [rule(&["pods/binding", "bindings"])],
                },
                "validations": [{
                    "expression": format!(
                        "params == null || params.metadata.name != object.metadata.name \
                         || {is_marked} || !({needs_devices})"
                    ),
                    "message": WAITING,
                    "reason": "Forbidden",
                }],
            },
        })
    }

    fn policy_binding(&self) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": self.metadata(POLICY),
            "spec": {
                "policyName": POLICY,
                "validationActions": ["Deny"],
                // All pods of the namespace of the Binding.
                "paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"},
            },
        })
    }

    fn metadata(&self, name: &str) -> Value {
        let owner = self.owner.as_ref().map(|uid| {
            json!([{
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "name": GUARD,
                "uid": uid,
            }])
        });
        json!({
            "name": name,
            "labels": {"app.kubernetes.io/name": "plimsoll"},
            "annotations": {INSTALLED_IN: self.namespace, TERM: self.term.to_string()},
            "ownerReferences": owner,
        })
    }

    /// Selects guarded namespaces. The cluster's own and Plimsoll's can never be guarded: Plimsoll
    /// must be able to start without itself.
    fn namespaces(&self, lines: &[&str]) -> Value {
        json!({"matchExpressions": [
            {"key": LINE_LABEL, "operator": "In", "values": lines},
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", self.namespace],
            },
        ]})
    }
}

fn rule(resources: &[&str]) -> Value {
    json!({
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": resources,
        "scope": "Namespaced",
    })
}

fn condition(name: &str, expression: &str) -> Value {
    json!({"name": name, "expression": expression})
}
