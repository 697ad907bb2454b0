//! What the server says on standard error: its own doings, what is wrong with a device, and, where wanted, every step of a decision.

use std::io::{self, Write};

use jiff::Timestamp;
use plimsoll_core::front::Front;
use plimsoll_core::steps::{self, Fact, Step, Vocabulary};
use plimsoll_core::units::Millis;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::breaches::{Changed, Watch};
use plimsoll_api::breach::sentence;
use plimsoll_engine::engine::{Decided, Durable, Observer};
use plimsoll_engine::store::DecisionId;

/// The format of the log on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Says when something is wrong with a device, and when it is over.
#[derive(Debug, Default)]
pub(crate) struct BreachLog {
    watch: Watch,
    changed: Changed,
    /// What was found, in words.
    words: Vec<String>,
}

impl<F: Front> Observer<F> for BreachLog {
    fn decided(&mut self, decided: &Decided<'_, F>) {
        self.changed = self.watch.look(decided);
        let words = |breach| sentence(decided.scheduler.ledger(), breach);
        self.words = self.changed.found.iter().map(words).collect();
    }

    fn durable(&mut self, _: &Durable<'_, F>) {
        let Changed { found, over } = std::mem::take(&mut self.changed);
        for (breach, words) in found.iter().zip(self.words.drain(..)) {
            tracing::error!(breach = super::breaches::kind(breach), "{words}");
        }
        for breach in &over {
            let node: &str = breach.node();
            tracing::info!(breach = super::breaches::kind(breach), node, "a breach is over");
        }
    }
}

/// Writes every step of every decision, a line each. The engine waits for the writing.
#[derive(Debug)]
pub(crate) struct DecisionLog<W> {
    format: LogFormat,
    out: W,
}

impl DecisionLog<io::Stderr> {
    /// One that writes to standard error.
    pub(crate) fn to_stderr(format: LogFormat) -> Self {
        DecisionLog::new(format, io::stderr())
    }
}

impl<W> DecisionLog<W> {
    /// One that writes there.
    pub(crate) fn new(format: LogFormat, out: W) -> Self {
        DecisionLog { format, out }
    }
}

impl<F: Front, W: Write + Send> Observer<F> for DecisionLog<W> {
    fn durable(&mut self, durable: &Durable<'_, F>) {
        let mut lines = String::new();
        for (record, output) in durable.records.iter().zip(durable.outputs) {
            for (index, decision) in (0..).zip(&output.outcome.decisions) {
                let id = DecisionId { seq: record.seq, index };
                for step in steps::steps(decision, &id.to_string(), Vocabulary::Slots) {
                    lines += &line(self.format, record.now, &step);
                    lines.push('\n');
                }
            }
        }
        // Nobody reading it is no reason to stop deciding.
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
            fields.insert("message".to_string(), "OVERSCHEDULING_DEBUG".into());
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
        Fact::Sizes(sizes) => {
            sizes.iter().map(|(device, bytes)| (device.clone(), Value::from(*bytes))).collect()
        }
        other => serde_json::to_value(other).expect("facts are plain data"),
    }
}

#[cfg(test)]
mod tests;
