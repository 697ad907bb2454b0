//! Logs on standard error: breaches, and optionally every step of every decision.

use std::io::{self, Write};

use jiff::Timestamp;
use plimsoll_api::breach::sentence;
use plimsoll_core::front::Front;
use plimsoll_core::steps::{self, Fact, Step};
use plimsoll_core::units::Millis;
use plimsoll_engine::engine::{Decided, Durable, Observer};
use plimsoll_engine::store::DecisionId;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::breaches::{self, Changed, Watch};
use super::served::ServedFront;

/// The format of the log on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Logs when a breach begins and when it is over.
#[derive(Debug, Default)]
pub(crate) struct BreachLog {
    watch: Watch,
    changed: Changed,
    /// The text of each breach that began. It names devices, so it is rendered while the ledger is
    /// available.
    details: Vec<String>,
}

impl<F: Front> Observer<F> for BreachLog {
    fn decided(&mut self, decided: &Decided<'_, F>) {
        self.changed = self.watch.update(decided);
        let ledger = decided.scheduler.ledger();
        self.details = self.changed.found.iter().map(|breach| sentence(ledger, breach)).collect();
    }

    fn durable(&mut self, _: &Durable<'_, F>) {
        let Changed { found, over } = std::mem::take(&mut self.changed);
        for (breach, detail) in found.iter().zip(self.details.drain(..)) {
            let (kind, node) = (breaches::kind(breach), &**breach.node());
            tracing::error!(kind, node, detail, "breach");
        }
        for breach in &over {
            let (kind, node) = (breaches::kind(breach), &**breach.node());
            tracing::info!(kind, node, "breach is over");
        }
    }
}

/// Writes every step of every decision, one line each. The engine waits for the writes.
#[derive(Debug)]
pub(crate) struct DecisionLog<W> {
    format: LogFormat,
    out: W,
}

impl DecisionLog<io::Stderr> {
    pub(crate) fn to_stderr(format: LogFormat) -> Self {
        DecisionLog::new(format, io::stderr())
    }
}

impl<W> DecisionLog<W> {
    pub(crate) fn new(format: LogFormat, out: W) -> Self {
        DecisionLog { format, out }
    }
}

impl<F: ServedFront, W: Write + Send> Observer<F> for DecisionLog<W> {
    fn durable(&mut self, durable: &Durable<'_, F>) {
        let mut lines = String::new();
        for (record, output) in durable.records.iter().zip(durable.outputs) {
            for (index, decision) in (0..).zip(&output.outcome.decisions) {
                let id = DecisionId { seq: record.seq, index };
                for step in steps::steps(decision, &id.to_string(), F::VOCABULARY) {
                    lines += &line(self.format, record.now, &step);
                    lines.push('\n');
                }
            }
        }
        // A closed standard error must not stop the scheduler.
        let _ = self.out.write_all(lines.as_bytes());
    }
}

fn line(format: LogFormat, now: Millis, step: &Step) -> String {
    let at = i64::try_from(now.0).ok().and_then(|now| Timestamp::from_millisecond(now).ok());
    let at = at.map_or(String::new(), |at| format!("{at:.3}"));
    match format {
        LogFormat::Text => format!("{at}  INFO {step}"),
        LogFormat::Json => {
            let mut fields = Map::new();
            fields.insert("timestamp".to_string(), at.into());
            fields.insert("level".to_string(), "INFO".into());
            fields.insert("message".to_string(), step.tag().into());
            fields.insert("code".to_string(), step.code.into());
            for (name, fact) in &step.facts {
                fields.insert((*name).to_string(), value(fact));
            }
            Value::Object(fields).to_string()
        }
    }
}

fn value(fact: &Fact) -> Value {
    match fact {
        Fact::Number(number) => (*number).into(),
        Fact::Flag(flag) => (*flag).into(),
        Fact::Text(text) => text.as_str().into(),
        Fact::List(names) => names.iter().map(String::as_str).collect(),
        Fact::Sizes(sizes) => {
            sizes.iter().map(|(device, bytes)| (device.clone(), Value::from(*bytes))).collect()
        }
    }
}

#[cfg(test)]
mod tests;
