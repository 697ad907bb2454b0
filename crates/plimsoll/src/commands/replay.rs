//! `plimsoll replay`: a server's journal decided again and compared, or one decision of it in full.

use std::io::IsTerminal;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{Format, ReplayArgs};
use crate::output::{self, Outcome};
use crate::text::Page;
use crate::{json, text};
use plimsoll_engine::replay::{self, Replayed, Report};
use plimsoll_engine::store::{DecisionId, History};

pub(super) fn run(args: &ReplayArgs, quiet: bool) -> Result<Outcome> {
    let history = History::open(&args.dir)?;
    match args.decision {
        Some(id) => one(&history, id, args.output),
        None => all(&history, args.output, quiet),
    }
}

fn all(history: &History, format: Format, quiet: bool) -> Result<Outcome> {
    let progress = Progress::new(history, quiet)?;
    let report: Report = replay::replay(history, |seq| progress.at(seq))?;
    progress.end();
    match format {
        Format::Json => output::json(&json::replay(&report))?,
        Format::Table => {
            let mut page = Page::default();
            text::replay::report(&mut page, &report);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::wanting(!report.holds()))
}

fn one(history: &History, id: DecisionId, format: Format) -> Result<Outcome> {
    let replayed: Replayed = replay::one(history, id)?;
    match format {
        Format::Json => output::json(&json::replayed(&replayed))?,
        Format::Table => {
            let mut page = Page::default();
            text::replay::one(&mut page, &replayed);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::wanting(!replayed.is_same()))
}

/// How far it is, on a terminal.
struct Progress(Option<(ProgressBar, u64)>);

impl Progress {
    fn new(history: &History, quiet: bool) -> Result<Progress> {
        if quiet || !std::io::stderr().is_terminal() {
            return Ok(Progress(None));
        }
        let (first, last) = history.span()?.unwrap_or((0, 0));
        let style =
            ProgressStyle::with_template("deciding again [{bar:32}] {pos} of {len}, {eta} left");
        let style = style.expect("the template is a constant").progress_chars("##-");
        Ok(Progress(Some((ProgressBar::new(last - first + 1).with_style(style), first))))
    }

    fn at(&self, seq: u64) {
        if let Some((bar, first)) = &self.0 {
            bar.set_position(seq.saturating_sub(*first));
        }
    }

    fn end(&self) {
        if let Some((bar, _)) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
