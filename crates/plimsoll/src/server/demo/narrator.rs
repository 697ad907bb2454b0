//! What happens, one line each, for somebody who watches the demo in a terminal.

use anstyle::AnsiColor;
use plimsoll_core::event::{Effect, Event};
use plimsoll_core::summary;

use crate::output;
use crate::server::engine::{Observer, Seen};

/// Tells on standard output what was decided, started, stopped and given back.
pub(crate) struct Narrator;

impl Observer for Narrator {
    fn see(&mut self, seen: &Seen<'_>) {
        for (record, output) in seen.records.iter().zip(&seen.told.outputs) {
            for decision in &output.outcome.decisions {
                let color = if decision.place().is_some() { AnsiColor::Green } else { AnsiColor::Yellow };
                line(color, "decided", &summary::sentence(decision));
            }
            for effect in &output.outcome.effects {
                if let Effect::Stop { request, node, .. } = effect {
                    line(AnsiColor::Magenta, "evicted", &format!("{request} is asked to leave {node}"));
                }
            }
            match &record.event {
                Event::Started { request, .. } => {
                    line(AnsiColor::Cyan, "running", &format!("{request} serves"))
                }
                Event::Failed { request, .. } => {
                    line(AnsiColor::Red, "failed", &format!("{request} did not start"))
                }
                Event::Freed { request, .. } => {
                    line(AnsiColor::Blue, "freed", &format!("the memory of {request} is back"));
                }
                _ => {}
            }
            for breach in &output.outcome.breaches {
                line(AnsiColor::Red, "breach", &format!("{breach:?}"));
            }
        }
    }
}

fn line(color: AnsiColor, what: &str, text: &str) {
    let style = color.on_default();
    // Nobody reading it is no reason to stop.
    let _ = output::text(&format!("{style}{what:>8}{style:#}  {text}\n"));
}
