//! Users of a control plane, with tokens and kubeconfig files.

use std::path::Path;

use serde_json::{Value, json};

/// The member of `system:masters`, which authorization does not restrict.
pub(super) const ADMIN: &str = "admin";

/// A user that authenticates by token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name for tests: of its client and of its kubeconfig file.
    pub name: String,
    pub token: String,
    /// The name that the API server sees.
    pub identity: String,
    pub groups: Vec<String>,
}

impl User {
    /// Makes a user with a token that is derived from its name.
    pub fn new(name: &str, identity: &str, groups: &[&str]) -> Self {
        User {
            name: name.to_owned(),
            token: format!("token-of-{name}"),
            identity: identity.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        }
    }

    /// Makes a user that the API server takes for a service account.
    pub fn service_account(name: &str, namespace: &str, account: &str) -> Self {
        User::new(
            name,
            &format!("system:serviceaccount:{namespace}:{account}"),
            &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")],
        )
    }

    /// Returns the users of every control plane: `admin`, `scheduler`, the service account
    /// `plimsoll` of the namespace `plimsoll`, and `guest`, which has no rights.
    pub fn defaults() -> Vec<Self> {
        vec![
            User::new(ADMIN, "admin", &["system:masters"]),
            User::new("scheduler", "system:kube-scheduler", &[]),
            User::service_account("plimsoll", "plimsoll", "plimsoll"),
            User::new("guest", "guest", &[]),
        ]
    }

    /// Returns the line of this user in a token file.
    pub(super) fn token_line(&self) -> String {
        let User { token, identity, groups, .. } = self;
        format!("{token},{identity},uid-of-{identity},\"{}\"\n", groups.join(","))
    }

    /// Returns the kubeconfig of this user. JSON is YAML.
    pub(super) fn kubeconfig(&self, server: &str, authority: &Path) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testbed",
            "contexts": [
                {"name": "testbed", "context": {"cluster": "testbed", "user": self.name}},
            ],
            "clusters": [{
                "name": "testbed",
                "cluster": {"server": server, "certificate-authority": authority},
            }],
            "users": [{"name": self.name, "user": {"token": self.token}}],
        })
    }
}
