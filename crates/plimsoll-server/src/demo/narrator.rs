//! What happens, one line each, for somebody who watches the demo in a terminal.

use std::collections::BTreeMap;
use std::io::Write;

use anstyle::AnsiColor;
use plimsoll_core::decide::Decision;
use plimsoll_core::event::{Effect, Event};
use plimsoll_core::front::Front;
use plimsoll_core::request::RequestId;
use plimsoll_core::units::Bytes;

use plimsoll_engine::engine::{Durable, Observer};

/// Tells on standard output what was decided, started, stopped and given back.
#[derive(Default)]
pub(crate) struct Narrator {
    /// Who waits, and by how much the nearest device was short: what is told again only when it changes.
    waiting: BTreeMap<RequestId, Option<Bytes>>,
}

impl Narrator {
    fn tell(&mut self, decision: &Decision) {
        let (who, sentence) = (&decision.request, decision.summary());
        if decision.chosen().is_some() {
            self.waiting.remove(who);
            return line(AnsiColor::Green, "placed", &format!("{who}: {sentence}"));
        }
        let nearest = decision.rejection().and_then(|rejection| rejection.nearest.as_ref());
        let short_by = nearest.map(|nearest| nearest.short_by);
        if self.waiting.insert(who.clone(), short_by) != Some(short_by) {
            line(AnsiColor::Yellow, "refused", &format!("{who}: {sentence}"));
        }
    }
}

impl<F: Front> Observer<F> for Narrator {
    fn durable(&mut self, durable: &Durable<'_, F>) {
        for (record, output) in durable.records.iter().zip(durable.outputs) {
            for decision in &output.outcome.decisions {
                self.tell(decision);
            }
            for effect in &output.outcome.effects {
                if let Effect::Stop { request, node, .. } = effect {
                    line(
                        AnsiColor::Magenta,
                        "evicted",
                        &format!("{request} is asked to leave {node}"),
                    );
                }
            }
            match &record.event {
                Event::Started { request, .. } => {
                    line(AnsiColor::Cyan, "running", &format!("{request} serves"));
                }
                Event::Failed { request, .. } => {
                    line(AnsiColor::Red, "failed", &format!("{request} did not start"));
                }
                Event::Freed { request, .. } => {
                    line(AnsiColor::Blue, "freed", &format!("the memory of {request} is back"));
                }
                _ => {}
            }
        }
    }
}

fn line(color: AnsiColor, what: &str, text: &str) {
    let style = color.on_default();
    // Nobody reading it is no reason to stop.
    let _ = writeln!(anstream::stdout().lock(), "{style}{what:>8}{style:#}  {text}");
}
