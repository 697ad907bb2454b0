//! Roles of tokens, and the rules that routes declare.

use std::fmt;

use super::reviews::{Right, Target};

/// The role that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Operate,
    /// Reports of the runner that the path parameter `id` names.
    Runner,
}

impl Access {
    /// Returns the name of the role in the configuration and in the OpenAPI document.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Operate => "operate",
            Access::Runner => "runner",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role())
    }
}

/// The part of a request that states how long its answer may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitSource {
    /// In the parameter `wait`.
    Query,
    /// In the body. The guard does not read bodies, and allows the longest wait.
    Body,
}

/// The changes through a route that are logged with their caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeLog {
    Each,
    /// None: clients call the route with every request that a model serves.
    Routine,
}

/// The rights in a cluster that a route requires of a caller with a token of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterRights {
    /// None: every caller that the cluster knows.
    Known,
    /// To list all nodes and pods: the answer is about all of them.
    ListNodesAndPods,
    /// To get the pod that the path parameters `namespace` and `name` name.
    GetPod,
    /// To patch the status of nodes: who may claim that a node has booted can free its holders.
    PatchNodeStatus,
    /// To get `/metrics`, as for the components of Kubernetes.
    Metrics,
    /// The route has no meaning in a cluster.
    Never,
}

impl ClusterRights {
    /// Returns the rights that a request needs; `None` if none suffices. `parameter` finds a
    /// parameter of its path.
    pub(crate) fn needed<'a>(
        self,
        parameter: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Vec<Right>> {
        let all = |verb, resource, subresource| Right {
            verb,
            target: Target::All { resource, subresource },
        };
        match self {
            ClusterRights::Known => Some(Vec::new()),
            ClusterRights::ListNodesAndPods => {
                Some(vec![all("list", "nodes", None), all("list", "pods", None)])
            }
            ClusterRights::GetPod => {
                let namespace = parameter("namespace")?.to_owned();
                let name = parameter("name")?.to_owned();
                let target = Target::Object { resource: "pods", namespace, name };
                Some(vec![Right { verb: "get", target }])
            }
            ClusterRights::PatchNodeStatus => Some(vec![all("patch", "nodes", Some("status"))]),
            ClusterRights::Metrics => {
                Some(vec![Right { verb: "get", target: Target::Path("/metrics") }])
            }
            ClusterRights::Never => None,
        }
    }
}

/// The rules of a route: the required role, and how its requests are limited and logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) access: Access,
    pub(crate) cluster: ClusterRights,
    pub(crate) wait: WaitSource,
    pub(crate) log: ChangeLog,
}

impl Rules {
    pub(crate) const READ: Rules = Rules::of(Access::Read, ClusterRights::ListNodesAndPods);
    pub(crate) const OPERATE: Rules = Rules::of(Access::Operate, ClusterRights::PatchNodeStatus);
    pub(crate) const RUNNER: Rules = Rules::of(Access::Runner, ClusterRights::Never);

    const fn of(access: Access, cluster: ClusterRights) -> Rules {
        Rules { access, cluster, wait: WaitSource::Query, log: ChangeLog::Each }
    }

    /// Returns the same rules, with other rights for callers of a cluster.
    pub(crate) const fn in_cluster(self, cluster: ClusterRights) -> Rules {
        Rules { cluster, ..self }
    }

    /// Returns the same rules for a route whose body has the time to wait.
    pub(crate) const fn waiting_by_body(self) -> Rules {
        Rules { wait: WaitSource::Body, ..self }
    }

    /// Returns the same rules for a route that is called too often to be logged.
    pub(crate) const fn routine(self) -> Rules {
        Rules { log: ChangeLog::Routine, ..self }
    }
}

/// The role of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    /// Includes `Read`, but not reports of runners.
    Operate,
    /// Reports of the runners with these names, and nothing else.
    Runner(NamePattern),
    All,
}

impl Role {
    /// Returns whether the role is sufficient for a route; `runner` is the runner that its path
    /// names.
    pub(crate) fn allows(&self, access: Access, runner: Option<&str>) -> bool {
        match (self, access) {
            (Role::All, _)
            | (Role::Read | Role::Operate, Access::Read)
            | (Role::Operate, Access::Operate) => true,
            (Role::Runner(names), Access::Runner) => runner.is_some_and(|name| names.matches(name)),
            _ => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Runner(_) => "runner",
            Role::All => "all",
        })
    }
}

/// One name, or all names with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamePattern {
    Exact(String),
    Prefix(String),
}

impl NamePattern {
    /// Parses a name, or a prefix that ends with `*`.
    pub(crate) fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => NamePattern::Prefix(prefix.to_string()),
            None => NamePattern::Exact(text.to_string()),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            NamePattern::Exact(exact) => name == exact,
            NamePattern::Prefix(prefix) => name.starts_with(prefix),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamePattern::Exact(exact) => f.write_str(exact),
            NamePattern::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_allows_its_routes_and_no_others() {
        let roles =
            [Role::Read, Role::Operate, Role::Runner(NamePattern::parse("gpu-1")), Role::All];
        for (access, runner, allowed) in [
            (Access::Read, None, [true, true, false, true]),
            (Access::Operate, None, [false, true, false, true]),
            (Access::Runner, Some("gpu-1"), [false, false, true, true]),
            (Access::Runner, Some("gpu-10"), [false, false, false, true]),
            (Access::Runner, None, [false, false, false, true]),
        ] {
            let found: Vec<bool> = roles.iter().map(|role| role.allows(access, runner)).collect();
            assert_eq!(found, allowed, "{access} {runner:?}");
        }
    }

    #[test]
    fn a_trailing_star_matches_the_rest_of_a_name() {
        for (pattern, name, matches) in [
            ("gpu-*", "gpu-1", true),
            ("gpu-*", "gpu-", true),
            ("gpu-*", "cpu-1", false),
            ("*", "anything", true),
            ("g*-1", "gpu-1", false),
            ("gpu-1", "GPU-1", false),
        ] {
            assert_eq!(NamePattern::parse(pattern).matches(name), matches, "{pattern} {name}");
        }
    }
}
