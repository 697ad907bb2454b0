//! Node selection: label requirements, taints and tolerations, with the semantics of Kubernetes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Name;

/// The nodes that a request accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeRules {
    /// The name of the only accepted node.
    pub named: Option<Name>,
    /// Requirements that must all hold (`nodeSelector`).
    pub all: Vec<Requirement>,
    /// Terms of which at least one must hold, unless the list is empty (required node affinity).
    pub any: Vec<Term>,
    /// Preferred terms, each with a weight of 1 to 100. They change the score, never the fit.
    pub preferred: Vec<(u8, Term)>,
    pub tolerations: Vec<Toleration>,
    /// Paths of files that the node must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Name>,
}

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub Vec<Requirement>);

impl Term {
    /// Returns true if the node meets every requirement. An empty term selects no node, as in
    /// Kubernetes.
    pub fn holds(&self, name: &Name, labels: &BTreeMap<Name, Name>) -> bool {
        !self.0.is_empty() && self.0.iter().all(|requirement| requirement.holds(name, labels))
    }
}

/// One condition on a label or on the node's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Requirement {
    pub subject: Subject,
    pub operator: Operator,
}

/// The value that a requirement compares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Label(Name),
    NodeName,
}

/// The comparison of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    In(Vec<Name>),
    /// Also holds if the label is absent.
    NotIn(Vec<Name>),
    Exists,
    DoesNotExist,
    /// Fails if the value is not an integer.
    Gt(i64),
    /// Fails if the value is not an integer.
    Lt(i64),
}

impl Requirement {
    /// Creates the requirement that a label has exactly this value.
    pub fn label_is(key: impl Into<Name>, value: impl Into<Name>) -> Self {
        Requirement {
            subject: Subject::Label(key.into()),
            operator: Operator::In(vec![value.into()]),
        }
    }

    /// Returns true if the requirement holds for a node with this name and these labels.
    pub fn holds(&self, name: &Name, labels: &BTreeMap<Name, Name>) -> bool {
        let value = match &self.subject {
            Subject::Label(key) => labels.get(key),
            Subject::NodeName => Some(name),
        };
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt(bound) => number().is_some_and(|n| n > *bound),
            Operator::Lt(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = match &self.subject {
            Subject::Label(key) => key,
            Subject::NodeName => "metadata.name",
        };
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{subject}={}", values[0]),
            Operator::In(values) => write!(f, "{subject} in ({})", values.join(", ")),
            Operator::NotIn(values) => write!(f, "{subject} not in ({})", values.join(", ")),
            Operator::Exists => write!(f, "{subject}"),
            Operator::DoesNotExist => write!(f, "no {subject}"),
            Operator::Gt(bound) => write!(f, "{subject} > {bound}"),
            Operator::Lt(bound) => write!(f, "{subject} < {bound}"),
        }
    }
}

/// A mark on a node that repels requests without a matching toleration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    pub key: Name,
    /// Empty if the taint has no value.
    pub value: Name,
    pub effect: Effect,
}

impl Taint {
    /// Returns the taint of a cordoned node. Kubernetes applies it whether or not the node lists
    /// it.
    pub(crate) fn unschedulable() -> Self {
        Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        }
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::NoSchedule => "NoSchedule",
            Effect::NoExecute => "NoExecute",
            Effect::PreferNoSchedule => "PreferNoSchedule",
        };
        if self.value.is_empty() {
            write!(f, "{}:{effect}", self.key)
        } else {
            write!(f, "{}={}:{effect}", self.key, self.value)
        }
    }
}

/// The effect of a taint on requests that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    NoSchedule,
    /// Also evicts running pods. Kubernetes does that; Plimsoll only stops placing.
    NoExecute,
    /// Lowers the score.
    PreferNoSchedule,
}

/// The taints that a request accepts. `None` in a field matches every value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    pub key: Option<Name>,
    pub value: Option<Name>,
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Returns a toleration that matches every taint.
    pub(crate) fn everything() -> Self {
        Toleration { key: None, value: None, effect: None }
    }

    /// Returns true if this toleration matches the taint.
    pub fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

impl NodeRules {
    /// Returns the first taint that excludes the request.
    pub fn barred_by<'a>(&self, taints: &'a [Taint]) -> Option<&'a Taint> {
        taints
            .iter()
            .filter(|taint| taint.effect != Effect::PreferNoSchedule)
            .find(|taint| !self.tolerates(taint))
    }

    /// Returns true if any toleration matches the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.covers(taint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<Name, Name> {
        pairs.iter().map(|(k, v)| (Name::from(*k), Name::from(*v))).collect()
    }

    #[test]
    fn requirements_compare_as_in_kubernetes() {
        let node = Name::from("n1");
        let has = labels(&[("zone", "a"), ("gen", "7")]);
        let on =
            |key: &str, operator| Requirement { subject: Subject::Label(key.into()), operator };
        assert!(on("zone", Operator::In(vec!["a".into(), "b".into()])).holds(&node, &has));
        assert!(!on("zone", Operator::NotIn(vec!["a".into()])).holds(&node, &has));
        assert!(on("absent", Operator::NotIn(vec!["a".into()])).holds(&node, &has));
        assert!(on("zone", Operator::Exists).holds(&node, &has));
        assert!(on("absent", Operator::DoesNotExist).holds(&node, &has));
        assert!(on("gen", Operator::Gt(6)).holds(&node, &has));
        assert!(!on("gen", Operator::Lt(7)).holds(&node, &has));
        assert!(
            !on("zone", Operator::Gt(1)).holds(&node, &has),
            "a value that is not an integer fails Gt"
        );
        assert!(!Term::default().holds(&node, &has), "an empty term selects nothing");
    }

    #[test]
    fn a_taint_excludes_requests_without_a_matching_toleration() {
        let taint = |effect| Taint { key: "gpu".into(), value: "yes".into(), effect };
        let taints = [taint(Effect::PreferNoSchedule), taint(Effect::NoSchedule)];
        let mut rules = NodeRules::default();
        assert_eq!(rules.barred_by(&taints), Some(&taints[1]));
        rules.tolerations.push(Toleration {
            key: Some("gpu".into()),
            value: None,
            effect: Some(Effect::NoExecute),
        });
        assert!(rules.barred_by(&taints).is_some());
        rules.tolerations.push(Toleration {
            key: Some("gpu".into()),
            value: Some("yes".into()),
            effect: None,
        });
        assert!(rules.barred_by(&taints).is_none());
    }
}
