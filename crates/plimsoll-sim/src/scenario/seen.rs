//! Parses observed holdings: charges with their devices, stage and activity.

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Part, Slice, Stage};
use plimsoll_core::device::Span;
use plimsoll_core::request::{NodeNeed, PlainRule, RequestId, Role};
use plimsoll_core::units::{Bytes, Cores, Millis};

use super::ask::{Asking, name, some_bytes};
use super::fleet::{change_resource, cpu};
use super::words::{Problem, Word, Words, bad, number, one_of, size, time, unknown};

/// Parses an observed holding: charges, then optionally `asks` and the original request.
pub(crate) fn holding(
    id: RequestId,
    node: &str,
    now: Millis,
    plain: PlainRule,
    mut words: Words,
) -> Result<Holding, Problem> {
    let mut charges: Vec<Charge> = Vec::new();
    let mut stage = Stage::Running { since: now };
    let mut activity = Activity::Unknown;
    let mut asking = Asking::new(id, plain);
    let mut asked = false;
    let mut resources: Option<NodeNeed> = None;
    while let Some(word) = words.next() {
        match &word {
            Word::Plain(word) if word == "asks" => asked = true,
            Word::Plain(word)
                if !asked && !matches!(word.as_str(), "pinned" | "speculative" | "waits") =>
            {
                charges.push(charge(word)?);
            }
            Word::Pair(key, value) if key == "stage" => stage = stage_of(value, now)?,
            Word::Pair(key, value) if key == "activity" => activity = activity_of(value, now)?,
            Word::Pair(key, value) if !asked && CHARGE_FIELDS.contains(&key.as_str()) => {
                let last = charges
                    .last_mut()
                    .ok_or_else(|| bad(key, "write it after the charge that it belongs to"))?;
                change_charge(last, key, value)?;
            }
            Word::Pair(key, value) if !asked && RESOURCES.contains(&key.as_str()) => {
                change_resources(resources.get_or_insert_default(), key, value)?;
            }
            _ => asking.take(word)?,
        }
    }
    let with_spec = asking.asks_something();
    let request = asking.done().request;
    Ok(Holding {
        request: request.id,
        node: node.into(),
        stage,
        charges,
        resources: resources.unwrap_or_else(|| request.spec.resources.clone()),
        terms: request.terms,
        activity,
        spec: with_spec.then_some(request.spec),
    })
}

const CHARGE_FIELDS: [&str; 4] = ["cores", "slots", "slice", "part"];

const RESOURCES: [&str; 4] = ["cpu", "memory", "pods", "resource"];

fn change_resources(need: &mut NodeNeed, key: &str, value: &str) -> Result<(), Problem> {
    match key {
        "cpu" => need.cpu = cpu(value)?,
        "memory" => need.memory = size(value)?,
        "pods" => need.pods = number(value)?,
        _ => change_resource(&mut need.extended, value)?,
    }
    Ok(())
}

/// Parses a charge: `0:8000MiB`, `0,1:8000MiB` if the card is one of those, `0:whole`,
/// `0:undeclared`.
fn charge(word: &str) -> Result<Charge, Problem> {
    let (on, amount) =
        word.split_once(':').ok_or_else(|| bad(word, "write a charge as ORDINAL:AMOUNT"))?;
    let on = on.split(',').map(number).collect::<Result<Vec<u16>, _>>()?;
    let amount = match amount {
        "whole" => Booked::Whole { bytes: None },
        "undeclared" => Booked::Undeclared,
        size => Booked::share(some_bytes(size)?),
    };
    Ok(Charge { on, amount, cores: Cores(0), slots: 1, slice: None, parts: Vec::new() })
}

fn change_charge(charge: &mut Charge, key: &str, value: &str) -> Result<(), Problem> {
    match key {
        "cores" => charge.cores = Cores(number(value)?),
        "slots" => charge.slots = number(value)?,
        "slice" => charge.slice = Some(slice(value)?),
        _ => charge.parts.push(part(value)?),
    }
    Ok(())
}

/// Parses a slice, `1g.5gb@6+1`: profile, start and size.
fn slice(text: &str) -> Result<Slice, Problem> {
    let wrong = || bad(text, "write PROFILE@START+SIZE");
    let (profile, span) = text.split_once('@').ok_or_else(wrong)?;
    let (start, size) = span.split_once('+').ok_or_else(wrong)?;
    Ok(Slice { profile: profile.into(), span: Span { start: number(start)?, size: number(size)? } })
}

/// Parses a container's part, `main:app:8000MiB:30`; the last number is its compute.
fn part(text: &str) -> Result<Part, Problem> {
    let [container, role, bytes, cores] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err(bad(text, "write CONTAINER:ROLE:SIZE:CORES"));
    };
    let role = one_of(
        role,
        "role",
        &[("init", Role::Init), ("sidecar", Role::Sidecar), ("app", Role::App)],
    )?;
    let bytes: Option<Bytes> = if bytes == "undeclared" { None } else { Some(size(bytes)?) };
    Ok(Part { container: name(container), role, bytes, cores: Cores(number(cores)?) })
}

/// Parses a stage: `sent`, `running`, `running@5s`, `releasing@5s`, `offered@30s`.
fn stage_of(text: &str, now: Millis) -> Result<Stage, Problem> {
    let (stage, since) = with_time(text, now)?;
    match stage {
        "offered" => Ok(Stage::Offered { until: since }),
        "queued" => Ok(Stage::Queued),
        "sent" => Ok(Stage::Sent),
        "running" => Ok(Stage::Running { since }),
        "releasing" => Ok(Stage::Releasing { since }),
        _ => Err(unknown("stage", stage, &["offered", "queued", "sent", "running", "releasing"])),
    }
}

/// Parses an activity: `unknown`, `active:3`, `idle`, `idle@5s`.
pub(crate) fn activity_of(text: &str, now: Millis) -> Result<Activity, Problem> {
    if let Some(requests) = text.strip_prefix("active:") {
        return Ok(Activity::Active { requests: number(requests)? });
    }
    match with_time(text, now)? {
        ("unknown", _) => Ok(Activity::Unknown),
        ("idle", since) => Ok(Activity::Idle { since }),
        (other, _) => Err(unknown("activity", other, &["unknown", "active:REQUESTS", "idle"])),
    }
}

/// Splits a word and the time after its `@`; without one the time is now.
pub(crate) fn with_time(text: &str, now: Millis) -> Result<(&str, Millis), Problem> {
    match text.split_once('@') {
        Some((word, at)) => Ok((word, time(at)?)),
        None => Ok((text, now)),
    }
}
