//! Parses rules that select nodes (`zone=a,b`, `!zone`, `zone!=a`, `gen>3`), taints and
//! tolerations.

use plimsoll_core::rules::{Effect, Operator, Requirement, Subject, Taint, Term, Toleration};
use plimsoll_core::units::Name;

use super::words::{Problem, bad, names, number, one_of};

const NODE_NAME: &str = "metadata.name";
const EFFECTS: [(&str, Effect); 3] = [
    ("NoSchedule", Effect::NoSchedule),
    ("NoExecute", Effect::NoExecute),
    ("PreferNoSchedule", Effect::PreferNoSchedule),
];

/// One requirement.
pub(crate) fn requirement(text: &str) -> Result<Requirement, Problem> {
    let of = |subject: &str, operator| Requirement { subject: subject_of(subject), operator };
    if let Some(key) = text.strip_prefix('!') {
        return Ok(of(key, Operator::DoesNotExist));
    }
    if let Some((key, values)) = text.split_once("!=") {
        return Ok(of(key, Operator::NotIn(names(values))));
    }
    if let Some((key, values)) = text.split_once('=') {
        return Ok(of(key, Operator::In(names(values))));
    }
    if let Some((key, bound)) = text.split_once('>') {
        return Ok(of(key, Operator::Gt(number(bound)?)));
    }
    if let Some((key, bound)) = text.split_once('<') {
        return Ok(of(key, Operator::Lt(number(bound)?)));
    }
    Ok(of(text, Operator::Exists))
}

fn subject_of(key: &str) -> Subject {
    if key == NODE_NAME { Subject::NodeName } else { Subject::Label(key.into()) }
}

/// A requirement as it is written.
pub(crate) fn requirement_text(requirement: &Requirement) -> String {
    let key = match &requirement.subject {
        Subject::Label(key) => key,
        Subject::NodeName => NODE_NAME,
    };
    match &requirement.operator {
        Operator::In(values) => format!("{key}={}", values.join(",")),
        Operator::NotIn(values) => format!("{key}!={}", values.join(",")),
        Operator::Exists => key.to_string(),
        Operator::DoesNotExist => format!("!{key}"),
        Operator::Gt(bound) => format!("{key}>{bound}"),
        Operator::Lt(bound) => format!("{key}<{bound}"),
    }
}

/// Requirements that hold together: `zone=a&gen>3`.
pub(crate) fn term(text: &str) -> Result<Term, Problem> {
    text.split('&').map(requirement).collect::<Result<_, _>>().map(Term)
}

/// A term as it is written.
pub(crate) fn term_text(term: &Term) -> String {
    term.0.iter().map(requirement_text).collect::<Vec<_>>().join("&")
}

/// A term with its weight: `50:zone=a`.
pub(crate) fn preferred(text: &str) -> Result<(u8, Term), Problem> {
    let (weight, wanted) =
        text.split_once(':').ok_or_else(|| bad(text, "write WEIGHT:REQUIREMENT"))?;
    Ok((number(weight)?, term(wanted)?))
}

/// A taint: `key=value:NoSchedule` or `key:NoSchedule`.
pub(crate) fn taint(text: &str) -> Result<Taint, Problem> {
    let (rest, effect) =
        text.rsplit_once(':').ok_or_else(|| bad(text, "write KEY=VALUE:EFFECT"))?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Ok(Taint { key: key.into(), value: value.into(), effect: one_of(effect, "effect", &EFFECTS)? })
}

/// A toleration: `*`, `key`, `key=value`, each with `:EFFECT` or without.
pub(crate) fn toleration(text: &str) -> Result<Toleration, Problem> {
    let (rest, effect) = match text.rsplit_once(':') {
        Some((rest, effect)) => (rest, Some(one_of(effect, "effect", &EFFECTS)?)),
        None => (text, None),
    };
    let (key, value) = match rest.split_once('=') {
        Some((key, value)) => (key, Some(Name::from(value))),
        None => (rest, None),
    };
    Ok(Toleration { key: (key != "*").then(|| key.into()), value, effect })
}

/// A toleration as it is written.
pub(crate) fn toleration_text(toleration: &Toleration) -> String {
    let key = toleration.key.as_deref().unwrap_or("*");
    let value = toleration.value.as_ref().map_or(String::new(), |value| format!("={value}"));
    let effect = |wanted: Effect| {
        EFFECTS.iter().find(|(_, effect)| *effect == wanted).map_or("", |(name, _)| name)
    };
    let effect = toleration.effect.map_or(String::new(), |wanted| format!(":{}", effect(wanted)));
    format!("{key}{value}{effect}")
}
