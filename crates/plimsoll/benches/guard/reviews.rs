//! Reviews as an API server sends them, over HTTPS.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The answer to a review.
pub(crate) enum Outcome {
    /// The annotations that are written on the pod with its node.
    Admitted(Value),
    Denied(String),
}

pub(crate) struct Reviews {
    agent: Agent,
    url: String,
}

impl Reviews {
    /// Makes a client of the webhooks at this URL, which trusts an authority (PEM).
    pub(crate) fn new(url: &str, authority: &str) -> Reviews {
        let authority = Certificate::from_pem(authority.as_bytes()).expect("a certificate in PEM");
        let roots = RootCerts::new_with_certs(&[authority]);
        let config =
            Agent::config_builder().tls_config(TlsConfig::builder().root_certs(roots).build());
        Reviews { agent: config.build().new_agent(), url: url.to_owned() }
    }

    /// Asks about the binding of a pod to a node.
    pub(crate) fn bind(&self, (pod, node): &(String, String)) -> Outcome {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": pod, "namespace": "team-a", "operation": "CREATE", "dryRun": false,
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "subResource": "binding", "name": pod,
                "object": {
                    "apiVersion": "v1", "kind": "Binding",
                    "metadata": {"name": pod, "namespace": "team-a", "uid": format!("uid-of-{pod}")},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": node},
                },
            },
        });
        let sent = self.agent.post(&self.url).send_json(review);
        let mut answer = sent.unwrap_or_else(|error| panic!("{}: {error}", self.url));
        let answer: Value = answer.body_mut().read_json().expect("an AdmissionReview");
        let response = &answer["response"];
        if response["allowed"] != json!(true) {
            return Outcome::Denied(response["status"]["message"].to_string());
        }
        Outcome::Admitted(annotations(response))
    }
}

/// Applies the part of the patch that is about annotations.
fn annotations(response: &Value) -> Value {
    let patch = STANDARD.decode(response["patch"].as_str().unwrap_or_default()).expect("base64");
    let changes: Vec<Value> = serde_json::from_slice(&patch).expect("a JSON patch");
    let mut annotations = json!({});
    for change in &changes {
        let path = change["path"].as_str().unwrap_or_default();
        if let Some(key) = path.strip_prefix("/metadata/annotations/") {
            annotations[key.replace("~1", "/")] = change["value"].clone();
        }
    }
    annotations
}
