//! Parses requests: shapes, containers, needs and terms.

use std::num::NonZeroU16;
use std::sync::Arc;

use plimsoll_core::request::{
    Amount, Asks, Compute, Container, Eviction, Misuse, Need, Order, PlacementHints, PlainRule,
    Request, RequestId, Role, Shape, Spec, Terms, Weights,
};
use plimsoll_core::units::{Bytes, Cores, Millis, Name, Portion};

use super::fleet::{change_resource, cpu};
use super::rules;
use super::words::{Problem, Word, Words, bad, names, number, one_of, size, span, time, unknown};

const FIELDS: [&str; 34] = [
    "kind",
    "cores",
    "slots",
    "type",
    "not-type",
    "uuid",
    "not-uuid",
    "mode",
    "numa",
    "alone",
    "linked",
    "cpu",
    "memory",
    "pods",
    "resource",
    "node",
    "select",
    "file",
    "any",
    "prefer",
    "tolerate",
    "nodes",
    "devices",
    "weights",
    "priority",
    "pinned",
    "speculative",
    "evicts",
    "model",
    "idle",
    "stop",
    "reload",
    "deadline",
    "uid",
];
pub(crate) const PLAIN_RULES: [(&str, PlainRule); 3] = [
    ("whole", PlainRule::Whole),
    ("equal-share", PlainRule::EqualShare),
    ("refuse", PlainRule::Refuse),
];
const ORDERS: [(&str, Order); 2] = [("pack", Order::Pack), ("spread", Order::Spread)];
pub(crate) const EVICTIONS: [(&str, Eviction); 3] =
    [("never", Eviction::Never), ("idle", Eviction::Idle), ("lower", Eviction::LowerPriority)];

/// A request with what only some commands look at.
pub(crate) struct Ask {
    pub request: Request,
    pub deadline: Option<Millis>,
}

/// `account/name` as an id; without an account it is in `default`.
pub(crate) fn id(text: &str) -> RequestId {
    let (account, name) = text.split_once('/').unwrap_or(("default", text));
    RequestId::new(account, name)
}

/// Reads an id and all that is asked.
pub(crate) fn ask(words: &mut Words, plain: PlainRule) -> Result<Ask, Problem> {
    let mut asking = Asking::new(id(&words.plain("the request's ID, as account/name")?), plain);
    while let Some(word) = words.next() {
        asking.take(word)?;
    }
    Ok(asking.done())
}

/// A request that is being read.
pub(crate) struct Asking {
    id: RequestId,
    plain: PlainRule,
    shapes: Vec<Shape>,
    /// Set if the request has no shapes that can be judged.
    unjudged: Option<Asks>,
    spec: Spec,
    terms: Terms,
    deadline: Option<Millis>,
}

impl Asking {
    /// Nothing read yet.
    pub(crate) fn new(id: RequestId, plain: PlainRule) -> Self {
        let shapes = vec![Shape { containers: Vec::new() }];
        Asking {
            id,
            plain,
            shapes,
            unjudged: None,
            spec: Spec::from_shapes(Vec::new()),
            terms: Terms::default(),
            deadline: None,
        }
    }

    /// Returns true if the request has a device need.
    pub(crate) fn asks_something(&self) -> bool {
        self.unjudged.is_some() || self.shapes.iter().any(|shape| !shape.containers.is_empty())
    }

    /// Reads the next word.
    pub(crate) fn take(&mut self, word: Word) -> Result<(), Problem> {
        match word {
            Word::Plain(word) => self.take_plain(&word),
            Word::Pair(key, value) if key == "problem" => self.take_problem(&value),
            Word::Pair(key, value) => {
                if !(self.take_need_field(&key, &value)? || self.take_spec_field(&key, &value)?) {
                    self.take_term(&key, &value)?;
                }
                Ok(())
            }
        }
    }

    /// The request that was read.
    pub(crate) fn done(mut self) -> Ask {
        self.spec.asks = self.unjudged.unwrap_or(Asks::Shapes(self.shapes));
        let request = Request { id: self.id, spec: Arc::new(self.spec), terms: self.terms };
        Ask { request, deadline: self.deadline }
    }

    fn shape(&mut self) -> &mut Shape {
        self.shapes.last_mut().expect("there is always a shape")
    }

    fn take_plain(&mut self, word: &str) -> Result<(), Problem> {
        match word {
            "|" => self.shapes.push(Shape { containers: Vec::new() }),
            "pinned" => self.terms.pinned = true,
            "speculative" => self.terms.speculative = true,
            "waits" => self.terms.waits = true,
            "alone" => self.last_need("alone")?.selector.alone = true,
            "linked" => self.last_need("linked")?.selector.linked = true,
            "none" => drop(self.container()),
            _ => return self.take_container_or_need(word),
        }
        Ok(())
    }

    fn take_container_or_need(&mut self, word: &str) -> Result<(), Problem> {
        let role = |role| match role {
            "init" => Some(Role::Init),
            "sidecar" => Some(Role::Sidecar),
            "app" => Some(Role::App),
            _ => None,
        };
        if let Some((kind, name)) = word.split_once(':') {
            if let Some(role) = role(kind) {
                self.shape().containers.push(Container {
                    name: name.into(),
                    role,
                    needs: Vec::new(),
                });
                return Ok(());
            }
            let misuse = |problem: &str| Misuse { fields: names(name), problem: problem.into() };
            let unjudged = match kind {
                "malformed" => Some(Asks::Malformed(misuse("it contradicts itself"))),
                "waiting" => Some(Asks::Waiting(misuse("it waits for something outside of it"))),
                _ => None,
            };
            if unjudged.is_some() {
                self.unjudged = unjudged;
                return Ok(());
            }
        }
        let need = self.need(word)?;
        self.container().needs.push(need);
        Ok(())
    }

    fn take_problem(&mut self, problem: &str) -> Result<(), Problem> {
        let Some(Asks::Malformed(misuse) | Asks::Waiting(misuse)) = &mut self.unjudged else {
            let what = "malformed:FIELDS or waiting:FIELDS before the problem";
            return Err(Problem::Missing { what });
        };
        misuse.problem = problem.into();
        Ok(())
    }

    /// The container that needs are read into.
    fn container(&mut self) -> &mut Container {
        let containers = &mut self.shape().containers;
        if containers.is_empty() {
            containers.push(Container { name: "main".into(), role: Role::App, needs: Vec::new() });
        }
        containers.last_mut().expect("just made where there was none")
    }

    fn need(&self, word: &str) -> Result<Need, Problem> {
        let (count, amount) = match word.split_once('x') {
            Some((count, amount))
                if !count.is_empty() && count.chars().all(|c| c.is_ascii_digit()) =>
            {
                (number::<NonZeroU16>(count)?, amount)
            }
            _ => (NonZeroU16::MIN, word),
        };
        Ok(Need { count, ..Need::one("NVIDIA", self.amount(amount)?) })
    }

    fn amount(&self, text: &str) -> Result<Amount, Problem> {
        if let Some((kind, value)) = text.split_once(':') {
            return match kind {
                "slice" => Ok(Amount::Profile(value.into())),
                "unknown" => Ok(Amount::Unknown(value.into())),
                "plain" => one_of(value, "rule", &PLAIN_RULES).map(Amount::Plain),
                _ => Err(unknown("amount", text, &["slice:PROFILE", "unknown:WHAT", "plain:RULE"])),
            };
        }
        match text {
            "whole" => Ok(Amount::Whole),
            "plain" => Ok(Amount::Plain(self.plain)),
            _ => match portion(text)? {
                Some(portion) => Ok(Amount::Portion(portion)),
                None => size(text).map(Amount::bytes).map_err(|_| {
                    let known =
                        ["whole", "plain", "none", "alone", "linked", "pinned", "speculative"];
                    match unknown("amount", text, &known) {
                        Problem::Unknown { near, .. } if near.is_empty() => bad(text, AMOUNTS),
                        problem => problem,
                    }
                }),
            },
        }
    }

    fn last_need(&mut self, key: &str) -> Result<&mut Need, Problem> {
        let needs = self.shape().containers.last_mut().map(|container| &mut container.needs);
        needs
            .and_then(|needs| needs.last_mut())
            .ok_or_else(|| bad(key, "write it after the amount that it belongs to"))
    }

    fn take_need_field(&mut self, key: &str, value: &str) -> Result<bool, Problem> {
        if !FIELDS[..9].contains(&key) {
            return Ok(false);
        }
        let need = self.last_need(key)?;
        match key {
            "kind" => need.kind = value.into(),
            "cores" => need.compute = compute(value)?,
            "slots" => need.slots = number(value)?,
            "type" => need.selector.models = names(value),
            "not-type" => need.selector.not_models = names(value),
            "uuid" => need.selector.uuids = names(value),
            "not-uuid" => need.selector.not_uuids = names(value),
            "mode" => need.selector.modes = names(value),
            _ => {
                need.selector.one_numa =
                    one_of(value, "NUMA wish", &[("one", true), ("any", false)])?;
            }
        }
        Ok(true)
    }

    fn take_spec_field(&mut self, key: &str, value: &str) -> Result<bool, Problem> {
        let spec = &mut self.spec;
        match key {
            "cpu" => spec.resources.cpu = cpu(value)?,
            "memory" => spec.resources.memory = size(value)?,
            "pods" => spec.resources.pods = number(value)?,
            "resource" => change_resource(&mut spec.resources.extended, value)?,
            "node" => spec.rules.named = Some(value.into()),
            "select" => spec.rules.all.push(rules::requirement(value)?),
            "file" => spec.rules.files.push(value.into()),
            "any" => spec.rules.any.push(rules::term(value)?),
            "prefer" => spec.rules.preferred.push(rules::preferred(value)?),
            "tolerate" => spec.rules.tolerations.push(rules::toleration(value)?),
            "nodes" => spec.hints.nodes = Some(one_of(value, "order", &ORDERS)?),
            "devices" => spec.hints.devices = Some(one_of(value, "order", &ORDERS)?),
            "weights" => {
                spec.hints = PlacementHints { weights: Some(weights(value)?), ..spec.hints }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_term(&mut self, key: &str, value: &str) -> Result<(), Problem> {
        let terms = &mut self.terms;
        match key {
            "priority" => terms.priority = number(value)?,
            "evicts" => terms.eviction = one_of(value, "way to evict", &EVICTIONS)?,
            "model" => terms.model = Some(value.into()),
            "idle" => terms.idle_limit = Some(span(value)?),
            "stop" => terms.stop_limit = Some(span(value)?),
            "reload" => terms.reload_cost = span(value)?,
            "deadline" => {
                self.deadline = Some(time(value)?);
                terms.deadline = self.deadline;
            }
            "uid" => self.id = self.id.clone().with_uid(value),
            _ => return Err(unknown("word of a request", key, &FIELDS)),
        }
        Ok(())
    }
}

const AMOUNTS: &str = "write an amount: 8000MiB, 2x40GiB, 0.5, 50%, 1/3, whole, plain, slice:PROFILE, unknown:WHAT or none";

/// A share: `50%`, `1/3`, `0.5`. Other texts are none.
fn portion(text: &str) -> Result<Option<Portion>, Problem> {
    let of = |parts: &str, of| {
        Portion::new(number(parts)?, of)
            .map(Some)
            .ok_or_else(|| bad(text, "a share is more than nothing and at most everything"))
    };
    if let Some(percent) = text.strip_suffix('%') {
        return of(percent, 100);
    }
    if let Some((parts, whole)) = text.split_once('/') {
        return of(parts, number(whole)?);
    }
    match text.split_once('.') {
        Some((whole, places))
            if !places.is_empty()
                && places.len() < 18
                && places.chars().all(|c| c.is_ascii_digit()) =>
        {
            of(&format!("{whole}{places}"), 10_u64.pow(u32::try_from(places.len()).unwrap_or(0)))
        }
        _ => Ok(None),
    }
}

/// Compute: `30` units, `50%`, `all`, `any`.
fn compute(text: &str) -> Result<Compute, Problem> {
    match (text, text.strip_suffix('%')) {
        ("all", _) => Ok(Compute::All),
        ("any", _) => Ok(Compute::Any),
        (_, Some(percent)) => number(percent).map(Compute::Percent),
        (units, None) => number(units).map(|units| Compute::Units(Cores(units))),
    }
}

/// Parses the weights `slots:cores:memory`.
fn weights(text: &str) -> Result<Weights, Problem> {
    let parts = text.split(':').map(number).collect::<Result<Vec<u32>, _>>()?;
    match parts[..] {
        [slots, cores, memory] => Ok(Weights { slots, cores, memory }),
        _ => Err(bad(text, "write SLOTS:CORES:MEMORY")),
    }
}

/// A size that a word gives, at least one byte.
pub(crate) fn some_bytes(text: &str) -> Result<Bytes, Problem> {
    size(text).and_then(|bytes| {
        if bytes.is_zero() { Err(bad(text, "nothing cannot be held")) } else { Ok(bytes) }
    })
}

/// A name, for charges and parts.
pub(crate) fn name(text: &str) -> Name {
    text.into()
}
