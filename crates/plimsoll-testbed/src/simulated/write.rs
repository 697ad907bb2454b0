//! The effect of a write on one object, as a real API server has it: preconditions, the parts of
//! an object that a subresource may write, and deletions that wait for a kubelet.

use serde_json::{Value, json};

use super::path::Path;

/// A write that is not possible, with the reason of its `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    AlreadyExists,
    Conflict(String),
    Invalid(String),
}

/// The effect of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deletion {
    /// The object stays until its kubelet deletes it.
    Terminating(Value),
    /// It goes, after this last change.
    Removed(Option<Value>),
}

/// Resources whose status is written apart from the rest.
const WITH_STATUS: [&str; 2] = ["pods", "nodes"];

/// Returns a new object with what the API server adds.
pub(super) fn created(path: &Path, mut object: Value) -> Result<Value, Refusal> {
    if !object["metadata"]["name"].is_string() {
        return Err(Refusal::Invalid("name is required".to_owned()));
    }
    object["metadata"]["resourceVersion"] = Value::Null;
    object["metadata"]["uid"] = Value::Null;
    if path.plural() == "pods" {
        object["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
        let grace = &mut object["spec"]["terminationGracePeriodSeconds"];
        if grace.is_null() {
            *grace = json!(30);
        }
    }
    Ok(object)
}

/// Applies a JSON merge patch to an object or its status.
pub(super) fn patched(path: &Path, known: &Value, patch: &Value) -> Result<Value, Refusal> {
    ensure_current(path, known, &patch["metadata"])?;
    let mut changed = known.clone();
    merge(&mut changed, patch);
    Ok(within(path, known, changed))
}

/// Replaces an object or its status.
pub(super) fn replaced(path: &Path, known: &Value, mut object: Value) -> Result<Value, Refusal> {
    ensure_current(path, known, &object["metadata"])?;
    for field in ["uid", "creationTimestamp"] {
        object["metadata"][field] = known["metadata"][field].clone();
    }
    Ok(within(path, known, object))
}

/// Binds a pod: its node and the annotations of the Binding, together.
pub(super) fn bound(known: &Value, binding: &Value) -> Result<Value, Refusal> {
    let metadata = &binding["metadata"];
    for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, found) = (&metadata[field], &known["metadata"][field]);
        if wanted.as_str().is_some_and(|wanted| !wanted.is_empty()) && wanted != found {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(Refusal::Conflict(format!(
                "Precondition failed: {name} in precondition: {}, {name} in object meta: {}",
                text(wanted),
                text(found)
            )));
        }
    }
    let pod = known["metadata"]["name"].as_str().unwrap_or_default();
    if let Some(node) = known["spec"]["nodeName"].as_str() {
        return Err(Refusal::Conflict(format!("pod {pod} is already assigned to node \"{node}\"")));
    }
    let mut changed = known.clone();
    changed["spec"]["nodeName"] = binding["target"]["name"].clone();
    if metadata["annotations"].is_object() {
        merge(&mut changed["metadata"]["annotations"], &metadata["annotations"]);
    }
    changed["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
    Ok(changed)
}

/// Deletes an object. A pod with a node and a grace period waits for its kubelet.
pub(super) fn deleted(path: &Path, known: &Value, options: &Value) -> Deletion {
    if path.plural() != "pods" {
        return Deletion::Removed(None);
    }
    let spec = &known["spec"];
    let wanted = options["gracePeriodSeconds"].as_u64();
    let grace = wanted.or(spec["terminationGracePeriodSeconds"].as_u64()).unwrap_or(30);
    let grace = if spec["nodeName"].is_string() { grace } else { 0 };
    let mut changed = known.clone();
    let metadata = &mut changed["metadata"];
    metadata["deletionGracePeriodSeconds"] = json!(grace);
    if !metadata["deletionTimestamp"].is_string() {
        metadata["deletionTimestamp"] = json!(format!("{:.0}", jiff::Timestamp::now()));
    }
    if grace > 0 { Deletion::Terminating(changed) } else { Deletion::Removed(Some(changed)) }
}

/// Checks the preconditions that a patch or a replacement names.
fn ensure_current(path: &Path, known: &Value, metadata: &Value) -> Result<(), Refusal> {
    let stale = ["uid", "resourceVersion"].into_iter().any(|field| {
        metadata[field].as_str().is_some_and(|wanted| known["metadata"][field] != wanted)
    });
    if !stale {
        return Ok(());
    }
    let (plural, name) = (path.plural(), path.name.as_deref().unwrap_or_default());
    Err(Refusal::Conflict(format!(
        "Operation cannot be fulfilled on {plural} \"{name}\": the object has been modified; \
         please apply your changes to the latest version and try again"
    )))
}

/// Limits a change to the part that this path may write.
fn within(path: &Path, known: &Value, mut changed: Value) -> Value {
    if !WITH_STATUS.contains(&path.plural()) {
        return changed;
    }
    if path.subresource.as_deref() == Some("status") {
        changed["spec"] = known["spec"].clone();
    } else {
        changed["status"] = known["status"].clone();
    }
    changed
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else { return *value = patch.clone() };
    if !value.is_object() {
        *value = json!({});
    }
    for (name, field) in fields {
        if field.is_null() {
            value.as_object_mut().expect("an object").remove(name);
        } else {
            merge(&mut value[name.as_str()], field);
        }
    }
}
