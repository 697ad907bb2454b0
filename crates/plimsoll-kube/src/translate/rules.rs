//! The nodes that a pod can run on: selectors, node affinity, tolerations, and KAI's node pools.

use plimsoll_core::request::Misuse;
use plimsoll_core::rules::{Effect, NodeRules, Operator, Requirement, Subject, Term, Toleration};
use plimsoll_core::units::Name;

use crate::cluster::Reading;
use crate::kai;
use crate::object::{NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod};
use crate::quantity::quoted;

use super::misuse::misuse_of;

/// The only field of a node that Kubernetes selects by.
const NAME_FIELD: &str = "metadata.name";

/// The label that tells whether cards are cut into MIG instances under their own names.
const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// Translates the scheduling rules of a pod.
pub(super) fn rules(pod: &Pod, reading: &Reading) -> Result<NodeRules, Misuse> {
    let spec = &pod.spec;
    let selected = spec.node_selector.iter().map(|(key, value)| Requirement::label_is(key, value));
    let key = &reading.node_pool_key;
    let pool = match kai::node_pool(&pod.metadata.labels, key) {
        Some(pool) => Some(Requirement::label_is(key.clone(), pool)),
        None if kai::is_scheduled_by_kai(pod) => Some(Requirement {
            subject: Subject::Label(key.clone()),
            operator: Operator::DoesNotExist,
        }),
        None => None,
    };
    // KAI shares no card of a node whose cards can be cut into instances.
    let shares = [kai::GPU_MEMORY, kai::GPU_FRACTION];
    let shares = shares.iter().any(|key| pod.metadata.annotations.contains_key(key));
    let not_mixed = shares.then(|| Requirement {
        subject: Subject::Label(MIG_STRATEGY.into()),
        operator: Operator::NotIn(vec!["mixed".into()]),
    });
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    // kube-scheduler tries this node first.
    let nominated = pod.nominated_node().map(|node| {
        let operator = Operator::In(vec![node.into()]);
        (u8::MAX, Term(vec![Requirement { subject: Subject::NodeName, operator }]))
    });
    let tolerations = spec.tolerations.iter().enumerate();
    let tolerations = tolerations.filter(|(_, one)| unknown_toleration(one).is_none());
    Ok(NodeRules {
        named: pod.node_name().map(Name::from),
        all: selected.chain(pool).chain(not_mixed).collect(),
        any: affinity.map_or(Ok(Vec::new()), required)?,
        preferred: affinity
            .map_or(Ok(Vec::new()), preferred)?
            .into_iter()
            .chain(nominated)
            .collect(),
        tolerations: tolerations.map(|(at, one)| toleration(at, one)).collect::<Result<_, _>>()?,
        files: Vec::new(),
    })
}

/// Restricts the rules to the nodes of an allocation.
pub(super) fn restrict(rules: &mut NodeRules, selector: &NodeSelector) -> Result<(), Misuse> {
    let field = "status.allocation.nodeSelector.nodeSelectorTerms";
    let terms = selector.node_selector_terms.iter().enumerate();
    let terms: Vec<Term> =
        terms.map(|(at, one)| term(&format!("{field}[{at}]"), one)).collect::<Result<_, _>>()?;
    rules.any = if rules.any.is_empty() {
        terms
    } else {
        let both = |one: &Term, other: &Term| Term(one.0.iter().chain(&other.0).cloned().collect());
        let pairs =
            rules.any.iter().flat_map(|one| terms.iter().map(move |other| both(one, other)));
        pairs.collect()
    };
    Ok(())
}

fn required(affinity: &NodeAffinity) -> Result<Vec<Term>, Misuse> {
    let Some(selector) = &affinity.required else {
        return Ok(Vec::new());
    };
    let field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    if selector.node_selector_terms.is_empty() {
        return Err(misuse_of(
            field,
            "the list is empty, so that no node will do; write a term, or leave it out",
        ));
    }
    let terms = selector.node_selector_terms.iter().enumerate();
    terms.map(|(at, one)| term(&format!("{field}[{at}]"), one)).collect()
}

fn preferred(affinity: &NodeAffinity) -> Result<Vec<(u8, Term)>, Misuse> {
    let field = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";
    let weighted = affinity.preferred.iter().enumerate().map(|(at, one)| {
        let field = format!("{field}[{at}]");
        let weight = u8::try_from(one.weight).ok().filter(|weight| (1..=100).contains(weight));
        let weight = weight.ok_or_else(|| {
            misuse_of(
                &format!("{field}.weight"),
                format_args!("{} is not a weight of 1 to 100", one.weight),
            )
        })?;
        Ok((weight, term(&format!("{field}.preference"), &one.preference)?))
    });
    weighted.collect()
}

fn term(field: &str, term: &NodeSelectorTerm) -> Result<Term, Misuse> {
    let labels = term.match_expressions.iter().enumerate().map(|(at, one)| {
        let subject = Subject::Label(one.key.as_str().into());
        let field = format!("{field}.matchExpressions[{at}]");
        if one.key.is_empty() {
            return Err(misuse_of(&format!("{field}.key"), "the key is empty; name a label"));
        }
        requirement(&field, subject, one)
    });
    let fields = term.match_fields.iter().enumerate().map(|(at, one)| {
        let field = format!("{field}.matchFields[{at}]");
        if one.key != NAME_FIELD {
            let key = quoted(&one.key);
            let problem = format!("\"{key}\" is not a field to select nodes by; use {NAME_FIELD}");
            return Err(misuse_of(&format!("{field}.key"), problem));
        }
        requirement(&field, Subject::NodeName, one)
    });
    labels.chain(fields).collect::<Result<_, _>>().map(Term)
}

fn requirement(
    field: &str,
    subject: Subject,
    one: &NodeSelectorRequirement,
) -> Result<Requirement, Misuse> {
    let values = || -> Vec<Name> { one.values.iter().map(|value| value.as_str().into()).collect() };
    let wrong = |part: &str, problem: String| Err(misuse_of(&format!("{field}.{part}"), problem));
    let count = one.values.len();
    let operator = match (one.operator.as_str(), count) {
        ("In", 1..) => Operator::In(values()),
        ("NotIn", 1..) => Operator::NotIn(values()),
        ("Exists", 0) => Operator::Exists,
        ("DoesNotExist", 0) => Operator::DoesNotExist,
        (word @ ("Gt" | "Lt"), 1) => match one.values[0].parse() {
            Ok(bound) if word == "Gt" => Operator::Gt(bound),
            Ok(bound) => Operator::Lt(bound),
            Err(_) => {
                return wrong(
                    "values",
                    format!("\"{}\" is not a whole number", quoted(&one.values[0])),
                );
            }
        },
        ("In" | "NotIn", _) => return wrong("values", format!("{} needs a value", one.operator)),
        ("Exists" | "DoesNotExist", _) => {
            return wrong("values", format!("{} takes no values, and has {count}", one.operator));
        }
        ("Gt" | "Lt", _) => {
            return wrong(
                "values",
                format!("{} takes one whole number, and has {count} values", one.operator),
            );
        }
        (other, _) => {
            let known = "In, NotIn, Exists, DoesNotExist, Gt or Lt";
            return wrong(
                "operator",
                format!("\"{}\" is not an operator; use {known}", quoted(other)),
            );
        }
    };
    Ok(Requirement { subject, operator })
}

/// Describes a toleration with an unknown operator, which tolerates nothing here.
pub(super) fn unknown_toleration(one: &crate::object::Toleration) -> Option<Name> {
    let operator =
        one.operator.as_deref().filter(|operator| !matches!(*operator, "" | "Equal" | "Exists"))?;
    let key = one.key.as_deref().unwrap_or_default();
    Some(
        format!("the toleration of \"{}\" by operator \"{}\"", quoted(key), quoted(operator))
            .into(),
    )
}

fn toleration(at: usize, one: &crate::object::Toleration) -> Result<Toleration, Misuse> {
    let wrong =
        |part: &str, problem: String| misuse_of(&format!("spec.tolerations[{at}].{part}"), problem);
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let key = given(&one.key).map(Name::from);
    let value = match one.operator.as_deref().unwrap_or_default() {
        "" | "Equal" if key.is_none() => {
            return Err(wrong("operator", "must be Exists where no key is named".to_owned()));
        }
        "Exists" => match given(&one.value) {
            None => None,
            Some(value) => {
                let problem = format!(
                    "is \"{}\", but Exists tolerates every value; leave it out",
                    quoted(&value)
                );
                return Err(wrong("value", problem));
            }
        },
        _ => Some(Name::from(one.value.clone().unwrap_or_default())),
    };
    let effect = match given(&one.effect).as_deref() {
        None => None,
        Some("NoSchedule") => Some(Effect::NoSchedule),
        Some("NoExecute") => Some(Effect::NoExecute),
        Some("PreferNoSchedule") => Some(Effect::PreferNoSchedule),
        Some(other) => {
            let known = "NoSchedule, PreferNoSchedule or NoExecute";
            return Err(wrong(
                "effect",
                format!("\"{}\" is not an effect; use {known}", quoted(other)),
            ));
        }
    };
    Ok(Toleration { key, value, effect })
}
