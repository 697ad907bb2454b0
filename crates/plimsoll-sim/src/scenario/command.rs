//! Runs commands and renders their output.

use std::collections::BTreeMap;

use plimsoll_core::account::{Share, Shares};
use plimsoll_core::device::Telemetry;
use plimsoll_core::event::{Event, Outcome};
use plimsoll_core::policy::Policy;
use plimsoll_core::request::RequestId;
use plimsoll_core::room::Measured;
use plimsoll_core::units::{Bytes, Name};

use super::output::OutputLine;
use super::words::{Problem, Word, Words, bad, number, one_of, size, span, switch, time, unknown};
use super::world::World;
use super::{ask, explain, fleet, output, seen, show};
use crate::witness::Objection;

const COMMANDS: [&str; 36] = [
    "policy",
    "settings",
    "account",
    "plain",
    "at",
    "node",
    "update",
    "device",
    "gone",
    "submit",
    "ask",
    "take",
    "withdraw",
    "member",
    "gang",
    "started",
    "failed",
    "freed",
    "observed",
    "measured",
    "grew",
    "acted",
    "tick",
    "devices",
    "queue",
    "slots",
    "evictable",
    "promises",
    "breaches",
    "accounts",
    "forecasts",
    "explain",
    "remedies",
    "restart",
    "replay",
    "again",
];

/// Runs a command; with a range in it, once for each number.
pub(crate) fn run(world: &mut World, words: &Words) -> Result<Vec<OutputLine>, Problem> {
    let Some(each) = words.each() else { return run_one(world, words.clone()) };
    let mut said = Vec::new();
    for words in each {
        said.extend(run_one(world, words)?);
    }
    Ok(output::summarize(said))
}

fn run_one(world: &mut World, mut words: Words) -> Result<Vec<OutputLine>, Problem> {
    let command = words.plain("a command")?;
    match command.as_str() {
        "node" | "update" | "device" => {
            return fleet_command(world, &command, words).map(|()| Vec::new());
        }
        "policy" | "settings" | "account" | "plain" | "at" => {
            return setting(world, &command, words).map(|()| Vec::new());
        }
        _ => {}
    }
    let mut said: Vec<OutputLine> =
        world.report_nodes().into_iter().flat_map(|(o, w)| show::news(world, &o, &w)).collect();
    let event = match command.as_str() {
        "submit" | "ask" | "member" => asking(world, &command, &mut words)?,
        "gang" => Some(gang(world, &mut words)?),
        "observed" => Some(observed(world, &mut words)?),
        "gone" | "take" | "withdraw" | "started" | "failed" | "freed" | "measured" | "grew"
        | "acted" | "tick" => Some(evidence(world, &command, &mut words)?),
        "explain" | "remedies" => {
            said.extend(question(world, &command, &mut words)?.into_iter().map(OutputLine::from));
            None
        }
        _ => {
            said.extend(view(world, &command, &mut words)?.into_iter().map(OutputLine::from));
            None
        }
    };
    words.end()?;
    if let Some(event) = event {
        let (outcome, objections): (Outcome, Vec<Objection>) = world.step(&event);
        said.extend(show::step(world, &outcome, &objections));
    }
    Ok(said)
}

fn fleet_command(world: &mut World, command: &str, mut words: Words) -> Result<(), Problem> {
    let name = words.plain("the node's name")?;
    match command {
        "node" => fleet::change_node(world.declare_node(&name), words),
        "update" => fleet::change_node(world.declared_node(&name)?, words),
        _ => fleet::change_devices(world.declared_node(&name)?, words),
    }
}

fn setting(world: &mut World, command: &str, mut words: Words) -> Result<(), Problem> {
    match command {
        "policy" => {
            let name = words.plain("the policy's name")?;
            let known: Vec<&'static str> = vec!["pack", "spread", "pack-nodes", "spread-nodes"];
            let policy = Policy::called(&name).ok_or_else(|| unknown("policy", &name, &known))?;
            world.report_nodes();
            world.set(|settings| settings.policy = policy);
        }
        "plain" => world.plain = one_of(&words.plain("the rule")?, "rule", &ask::PLAIN_RULES)?,
        "at" => {
            let at = time(&words.plain("the time")?)?;
            if at < world.now {
                return Err(bad("at", "time does not go back"));
            }
            world.report_nodes();
            world.now = at;
        }
        "account" => return account(world, words),
        _ => return settings(world, words),
    }
    words.end()
}

fn settings(world: &mut World, mut words: Words) -> Result<(), Problem> {
    const FIELDS: [&str; 5] = ["offer", "telemetry", "residency", "serial-starts", "steps"];
    let mut settings = world.scheduler().settings().clone();
    while let Some(word) = words.next() {
        let Word::Pair(key, value) = &word else {
            return Err(unknown("setting", &word.to_string(), &FIELDS));
        };
        match key.as_str() {
            "offer" => settings.offer_for = span(value)?,
            "telemetry" if value == "never" => settings.telemetry_for = None,
            "telemetry" => settings.telemetry_for = Some(span(value)?),
            "residency" => settings.residency = span(value)?,
            "serial-starts" => settings.serial_starts = switch(value)?,
            "steps" => settings.policy.search_steps = number(value)?,
            _ => return Err(unknown("setting", key, &FIELDS)),
        }
    }
    world.report_nodes();
    world.set(|now| *now = settings);
    Ok(())
}

/// Declares the share of an account, or declares it again.
fn account(world: &mut World, mut words: Words) -> Result<(), Problem> {
    const FIELDS: [&str; 7] = [
        "parent",
        "members",
        "guaranteed",
        "guaranteed-devices",
        "maximum",
        "maximum-devices",
        "weight",
    ];
    let name = words.plain("the account's name")?;
    let mut share = Share::default();
    while let Some(word) = words.next() {
        let Word::Pair(key, value) = &word else {
            return Err(unknown("word of an account", &word.to_string(), &FIELDS));
        };
        match key.as_str() {
            "parent" => share.parent = Some(value.as_str().into()),
            "members" => share.members = super::words::names(value),
            "guaranteed" => share.guaranteed.memory = Some(size(value)?),
            "guaranteed-devices" => share.guaranteed.devices = Some(number(value)?),
            "maximum" => share.maximum.memory = Some(size(value)?),
            "maximum-devices" => share.maximum.devices = Some(number(value)?),
            "weight" => share.weight = number(value)?,
            _ => return Err(unknown("word of an account", key, &FIELDS)),
        }
    }
    let mut shares: BTreeMap<Name, Share> = world.scheduler().settings().accounts.clone().into();
    shares.insert(name.as_str().into(), share);
    let shares = Shares::try_from(shares).map_err(|problem| bad("account", problem.to_string()))?;
    world.report_nodes();
    world.set(|settings| settings.accounts = shares);
    Ok(())
}

fn asking(world: &mut World, command: &str, words: &mut Words) -> Result<Option<Event>, Problem> {
    let ask = ask::ask(words, world.plain)?;
    let request = ask.request;
    world.remember(&request);
    Ok(match command {
        "submit" => Some(Event::Submit { request, deadline: ask.deadline }),
        "ask" => Some(Event::Ask { request }),
        _ => {
            world.members.push(request);
            None
        }
    })
}

fn gang(world: &mut World, words: &mut Words) -> Result<Event, Problem> {
    let name = words.plain("the gang's name")?;
    let members = std::mem::take(&mut world.members);
    let mut minimum = u32::try_from(members.len()).unwrap_or(u32::MAX);
    while let Some(word) = words.next() {
        match &word {
            Word::Pair(key, value) if key == "min" => minimum = number(value)?,
            _ => return Err(unknown("word of a gang", &word.to_string(), &["min"])),
        }
    }
    Ok(Event::SubmitGang { name: name.into(), minimum, members })
}

fn observed(world: &mut World, words: &mut Words) -> Result<Event, Problem> {
    let id = world.id(&words.plain("the holder's ID")?);
    let node = words.plain("the node's name")?;
    let rest = words.clone();
    while words.next().is_some() {}
    let holding = seen::holding(id, &node, world.now, world.plain, rest)?;
    Ok(Event::Observed { holding: Box::new(holding) })
}

fn evidence(world: &mut World, command: &str, words: &mut Words) -> Result<Event, Problem> {
    match command {
        "tick" => return Ok(Event::Tick),
        "gone" => {
            let name = words.plain("the node's name")?;
            world.forget_node(&name);
            return Ok(Event::NodeGone { name: name.into() });
        }
        "measured" => return measured(world, words),
        _ => {}
    }
    let request = world.id(&words.plain("the request's ID")?);
    let held = world.scheduler().ledger().of_request(&request);
    let current = held.map_or(0, |(generation, _)| generation.0);
    let node = held.map(|(_, holding)| holding.node.clone());
    Ok(match command {
        "take" => Event::Take { request, node: field(words, "node")?.map(Into::into) },
        "withdraw" => Event::Withdraw { request },
        "started" | "failed" => {
            let generation =
                field(words, "generation")?.map_or(Ok(current), |value| number(&value))?;
            if command == "started" {
                Event::Started { request, generation, activity: None }
            } else {
                Event::Failed { request, generation }
            }
        }
        "freed" => freed(world, request, node.as_deref(), words)?,
        "grew" => {
            let ordinal = device(world, node.as_deref(), &words.plain("the device")?)?;
            Event::Grew { request, ordinal, bytes: size(&words.plain("what it uses")?)? }
        }
        _ => Event::Acted {
            request,
            activity: seen::activity_of(&words.plain("what it does")?, world.now)?,
        },
    })
}

fn freed(
    world: &World,
    request: RequestId,
    node: Option<&str>,
    words: &mut Words,
) -> Result<Event, Problem> {
    let (mut generation, mut ordinal) = (None, None);
    while let Some(word) = words.next() {
        match &word {
            Word::Pair(key, value) if key == "generation" => generation = Some(number(value)?),
            Word::Pair(key, value) if key == "device" => {
                ordinal = Some(device(world, node, value)?);
            }
            _ => {
                return Err(unknown(
                    "word that belongs here",
                    &word.to_string(),
                    &["generation", "device"],
                ));
            }
        }
    }
    Ok(Event::Freed { request, generation, ordinal })
}

/// The only pair that a command knows.
fn field(words: &mut Words, key: &'static str) -> Result<Option<String>, Problem> {
    match words.next() {
        None => Ok(None),
        Some(Word::Pair(found, value)) if found == key => Ok(Some(value)),
        Some(word) => Err(unknown("word that belongs here", &word.to_string(), &[key])),
    }
}

/// A device by its ordinal, or by what it is called.
fn device(world: &World, node: Option<&str>, named: &str) -> Result<u16, Problem> {
    if let Ok(ordinal) = named.parse() {
        return Ok(ordinal);
    }
    let ledger = world.scheduler().ledger();
    let view = node.and_then(|node| ledger.view_of(node));
    let ordinal =
        view.and_then(|view| view.node.device_called(named)).and_then(|at| u16::try_from(at).ok());
    ordinal.ok_or_else(|| Problem::NoSuch { what: "device", name: named.to_string() })
}

fn measured(world: &World, words: &mut Words) -> Result<Event, Problem> {
    const FIELDS: [&str; 3] = ["foreign", "telemetry", "closed"];
    let node = words.plain("the node's name")?;
    let ordinal = device(world, Some(&node), &words.plain("the device")?)?;
    let mut measured = Measured {
        foreign: Bytes::ZERO,
        telemetry: Telemetry::Fresh { at: world.now },
        closed: false,
    };
    while let Some(word) = words.next() {
        let Word::Pair(key, value) = &word else {
            return Err(unknown("measure", &word.to_string(), &FIELDS));
        };
        match key.as_str() {
            "foreign" => measured.foreign = size(value)?,
            "closed" => measured.closed = switch(value)?,
            "telemetry" => {
                measured.telemetry = match seen::with_time(value, world.now)? {
                    ("none", _) => Telemetry::None,
                    ("fresh", at) => Telemetry::Fresh { at },
                    ("stale", since) => Telemetry::Stale { since },
                    (other, _) => {
                        return Err(unknown(
                            "kind of telemetry",
                            other,
                            &["none", "fresh", "stale"],
                        ));
                    }
                }
            }
            _ => return Err(unknown("measure", key, &FIELDS)),
        }
    }
    Ok(Event::Measured { node: node.into(), ordinal, measured })
}

/// A question about a request that was made before, or about one that is asked here and now.
fn question(world: &mut World, command: &str, words: &mut Words) -> Result<Vec<String>, Problem> {
    let mut rest = words.clone();
    let id = words.plain("the request's ID")?;
    let request = if words.is_empty() {
        world.request(&id)?
    } else {
        ask::ask(&mut rest, world.plain)?.request
    };
    while words.next().is_some() {}
    world.last = Some(request.clone());
    Ok(if command == "explain" {
        explain::explain(world, &request)
    } else {
        explain::remedies(world, &request)
    })
}

fn view(world: &mut World, command: &str, words: &mut Words) -> Result<Vec<String>, Problem> {
    Ok(match command {
        "devices" => show::devices(world, words.next().map(|word| word.to_string()).as_deref()),
        "queue" => show::queue(world),
        "slots" => show::slots(world),
        "evictable" => show::evictable(world),
        "promises" => show::promises(world),
        "breaches" => show::breaches(world),
        "accounts" => show::accounts(world),
        "forecasts" => show::forecasts(world),
        "restart" => world.restart(),
        "replay" => world.replay(),
        "again" => explain::again(world, number(&words.plain("how often")?)?)?,
        _ => return Err(unknown("command", command, &COMMANDS)),
    })
}
