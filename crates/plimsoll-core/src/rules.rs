//! Rules by which work selects nodes: label requirements, taints and tolerations.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Name;

/// Where a request may run, by the node's own facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeRules {
    /// The only node that will do, by name.
    pub named: Option<Name>,
    /// Every one of these must hold.
    pub all: Vec<Requirement>,
    /// At least one of these terms must hold, where there are any.
    pub any: Vec<Term>,
    /// Terms that are liked, each with its weight of 1 to 100.
    pub preferred: Vec<(u8, Term)>,
    /// Taints that are put up with.
    pub tolerations: Vec<Toleration>,
}

/// Requirements that must all hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub Vec<Requirement>);

impl Term {
    /// Whether the node meets every requirement; an empty term selects nothing.
    pub fn holds(&self, name: &Name, labels: &BTreeMap<Name, Name>) -> bool {
        !self.0.is_empty() && self.0.iter().all(|requirement| requirement.holds(name, labels))
    }
}

/// One condition on a label, or on the node's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// What is looked at.
    pub subject: Subject,
    /// How it is compared.
    pub operator: Operator,
}

/// What a requirement looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The value of this label.
    Label(Name),
    /// The node's name.
    NodeName,
}

/// How a value is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// It is one of these.
    In(Vec<Name>),
    /// It is none of these, or absent.
    NotIn(Vec<Name>),
    /// It is there.
    Exists,
    /// It is absent.
    DoesNotExist,
    /// It is a whole number above this.
    Gt(i64),
    /// It is a whole number below this.
    Lt(i64),
}

impl Requirement {
    /// That the label has exactly this value.
    pub fn label_is(key: impl Into<Name>, value: impl Into<Name>) -> Self {
        Requirement {
            subject: Subject::Label(key.into()),
            operator: Operator::In(vec![value.into()]),
        }
    }

    /// Whether it holds for a node of this name with these labels.
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

/// A mark on a node that keeps work away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: Name,
    /// Its value, often empty.
    pub value: Name,
    /// What it does to work that does not tolerate it.
    pub effect: Effect,
}

impl Taint {
    /// The taint that a node closed by its operator carries, whether it is listed or not.
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

/// What a taint does to work that does not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing new is placed.
    NoSchedule,
    /// Nothing new is placed, and what runs is sent away by somebody else.
    NoExecute,
    /// Placed only where there is nothing better.
    PreferNoSchedule,
}

/// A taint that is put up with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The key; `None` tolerates every key.
    pub key: Option<Name>,
    /// The value; `None` tolerates every value.
    pub value: Option<Name>,
    /// The effect; `None` tolerates every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether this taint is put up with.
    pub fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

impl NodeRules {
    /// The first taint that keeps this work away.
    pub fn barred_by<'a>(&self, taints: &'a [Taint]) -> Option<&'a Taint> {
        taints
            .iter()
            .filter(|taint| taint.effect != Effect::PreferNoSchedule)
            .find(|taint| !self.tolerates(taint))
    }

    /// Whether a toleration covers the taint.
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
    fn requirements_compare_as_kubernetes_does() {
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
            "a value that is no number is above nothing"
        );
        assert!(!Term::default().holds(&node, &has), "an empty term selects nothing");
    }

    #[test]
    fn a_taint_bars_what_does_not_tolerate_it() {
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
