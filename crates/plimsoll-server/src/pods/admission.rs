//! The wire format of admission: questions of an API server, and the answers.
//!
//! An admitted Binding is changed by the answer: annotations that are written on the pod with its
//! node, the preconditions on the pod's uid and version, and the mark that the guard decided it.
//! The mark is a finalizer, because of what a Binding can carry only labels and annotations are
//! stored with the pod.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plimsoll_core::units::Name;
use plimsoll_kube::booking::{ALLOCATED, DECISION, TERM};
use plimsoll_kube::live::{
    Admission, BindingReview, BindingVerdict, CreationReview, CreationVerdict, Run,
};
use plimsoll_kube::object::Pod;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The mark of a Binding that the guard decided.
pub const REVIEWED: &str = "plimsoll.dev/reviewed";

/// A question about a binding.
#[derive(Debug)]
pub(super) struct BindingQuestion {
    pub(super) uid: String,
    pub(super) review: BindingReview,
    binding: Carried,
}

/// A question about a pod that is to be created.
#[derive(Debug)]
pub(super) struct CreationQuestion {
    pub(super) uid: String,
    pub(super) review: CreationReview,
    has_annotations: Presence,
}

/// An answer, ready to be sent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReviewAnswer {
    api_version: &'static str,
    kind: &'static str,
    response: AdmissionResponse,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionResponse {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    request: Option<AdmissionRequest<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionRequest<'a> {
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Binding {
    #[serde(default)]
    metadata: Option<BindingMetadata>,
    #[serde(default)]
    target: Target,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BindingMetadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct Target {
    name: Option<String>,
}

/// The fields of a Binding that a patch must know.
#[derive(Debug)]
struct Carried {
    annotations: Option<BTreeMap<String, String>>,
}

/// The presence of a field that a patch adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Present,
    Missing,
}

/// Reads a question about a binding.
pub(super) fn binding_question(body: &[u8]) -> Result<BindingQuestion, serde_json::Error> {
    let (request, text) = request(body)?;
    let binding: Binding = serde_json::from_str(text)?;
    let metadata = binding.metadata.unwrap_or_default();
    let named = |text: Option<String>| text.filter(|text| !text.is_empty());
    let review = BindingReview {
        namespace: Name::from(request.namespace),
        pod: Name::from(metadata.name.unwrap_or_default()),
        pod_uid: named(metadata.uid).map(Name::from),
        node: Name::from(binding.target.name.unwrap_or_default()),
        resource_version: named(metadata.resource_version),
        run: run(request.dry_run),
    };
    let binding = Carried { annotations: metadata.annotations };
    Ok(BindingQuestion { uid: request.uid, review, binding })
}

/// Reads a question about a pod.
pub(super) fn creation_question(body: &[u8]) -> Result<CreationQuestion, serde_json::Error> {
    let (request, text) = request(body)?;
    let pod: Pod = serde_json::from_str(text)?;
    let plain: Value = serde_json::from_str(text)?;
    let has_annotations = match &plain["metadata"]["annotations"] {
        Value::Object(_) => Presence::Present,
        _ => Presence::Missing,
    };
    let (namespace, run) = (Name::from(request.namespace), run(request.dry_run));
    let review = CreationReview { namespace, pod: Box::new(pod), run };
    Ok(CreationQuestion { uid: request.uid, review, has_annotations })
}

fn request(body: &[u8]) -> Result<(AdmissionRequest<'_>, &str), serde_json::Error> {
    let missing = |what: &str| serde::de::Error::custom(format!("the review has no {what}"));
    let envelope: Envelope<'_> = serde_json::from_slice(body)?;
    let request = envelope.request.ok_or_else(|| missing("request"))?;
    let object = request.object.ok_or_else(|| missing("object"))?;
    Ok((request, object.get()))
}

fn run(dry_run: Option<bool>) -> Run {
    if dry_run == Some(true) { Run::Dry } else { Run::Real }
}

impl BindingQuestion {
    /// Returns the answer to the API server.
    pub(super) fn answer(&self, verdict: BindingVerdict) -> ReviewAnswer {
        let uid = self.uid.clone();
        match verdict {
            BindingVerdict::Ignored => allowed(uid, self.reviewed(None), Vec::new()),
            BindingVerdict::Warned { message } => allowed(uid, self.reviewed(None), vec![message]),
            BindingVerdict::Admitted(admission) => {
                allowed(uid, self.reviewed(Some(&admission)), Vec::new())
            }
            BindingVerdict::Rejected { message } => denied(uid, 403, "Forbidden", &message),
            // A client that names a version expects the answer of a failed precondition.
            BindingVerdict::Unavailable { message } if self.review.resource_version.is_some() => {
                denied(uid, 409, "Conflict", &message)
            }
            BindingVerdict::Unavailable { message } => {
                denied(uid, 503, "ServiceUnavailable", &message)
            }
        }
    }

    /// Returns the changes of a binding that passes. What only the guard writes is removed where
    /// the guard did not write it.
    fn reviewed(&self, admission: Option<&Admission>) -> Vec<Value> {
        let mut changes = vec![add("/metadata/finalizers", json!([REVIEWED]))];
        let carried = self.binding.annotations.as_ref();
        let Some(admission) = admission else {
            let forged = [ALLOCATED, DECISION, TERM];
            let forged =
                forged.iter().filter(|key| carried.is_some_and(|all| all.contains_key(**key)));
            changes.extend(forged.map(|key| json!({"op": "remove", "path": annotation(key)})));
            return changes;
        };
        if carried.is_none() {
            changes.push(add("/metadata/annotations", json!({})));
        }
        changes.extend(
            admission.annotations.iter().map(|(key, value)| add(&annotation(key), json!(value))),
        );
        changes.push(add("/metadata/uid", json!(admission.uid.as_str())));
        if let Some(version) = &admission.resource_version {
            changes.push(add("/metadata/resourceVersion", json!(version)));
        }
        changes
    }
}

impl CreationQuestion {
    /// Returns the answer to the API server.
    pub(super) fn answer(&self, verdict: CreationVerdict) -> ReviewAnswer {
        let uid = self.uid.clone();
        match verdict {
            CreationVerdict::Allowed { annotations, warnings } => {
                let mut changes = Vec::new();
                if !annotations.is_empty() && self.has_annotations == Presence::Missing {
                    changes.push(add("/metadata/annotations", json!({})));
                }
                changes.extend(
                    annotations.iter().map(|(key, value)| add(&annotation(key), json!(value))),
                );
                allowed(uid, changes, warnings)
            }
            CreationVerdict::Rejected { message } => denied(uid, 403, "Forbidden", &message),
            CreationVerdict::Unavailable { message } => {
                denied(uid, 503, "ServiceUnavailable", &message)
            }
        }
    }
}

fn add(path: &str, value: impl Into<Value>) -> Value {
    json!({"op": "add", "path": path, "value": value.into()})
}

/// Returns the path of an annotation in a JSON patch (RFC 6901).
fn annotation(key: &str) -> String {
    format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn allowed(uid: String, changes: Vec<Value>, warnings: Vec<String>) -> ReviewAnswer {
    let patch = (!changes.is_empty()).then(|| STANDARD.encode(Value::Array(changes).to_string()));
    let patch_type = patch.is_some().then_some("JSONPatch");
    answer(AdmissionResponse { uid, allowed: true, status: None, patch_type, patch, warnings })
}

fn denied(uid: String, code: u16, reason: &str, message: &str) -> ReviewAnswer {
    let status = json!({"status": "Failure", "code": code, "reason": reason, "message": message});
    answer(AdmissionResponse {
        uid,
        allowed: false,
        status: Some(status),
        patch_type: None,
        patch: None,
        warnings: Vec::new(),
    })
}

fn answer(response: AdmissionResponse) -> ReviewAnswer {
    ReviewAnswer { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response }
}

#[cfg(test)]
mod tests;
