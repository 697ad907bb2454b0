//! `plimsoll chaos`: days of trouble from seeds, on as many threads as there are, with the same answer on any number of them.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use plimsoll_sim::chaos::{self, Count, DayReport, Finding, Options, Tally};

use crate::cli::{ChaosArgs, Format};
use crate::json;
use crate::output::{self, Outcome};
use crate::text::{self, Page};

/// Findings after which there is enough to do.
const ENOUGH: usize = 10;

pub(super) fn run(args: &ChaosArgs, quiet: bool) -> Result<Outcome> {
    let began = Instant::now();
    let lived = live(args, &Progress::new(args, quiet));
    match args.output {
        Format::Json => output::json(&json::chaos(args.seed, &lived))?,
        Format::Table => {
            let mut page = Page::default();
            text::chaos::chaos(&mut page, &lived);
            output::text(page.text())?;
        }
    }
    if !quiet {
        let seconds = began.elapsed().as_secs_f64();
        // A tenth of a second is as long as a look takes.
        let rate = lived.tally.of(Count::Events) as f64 / seconds.max(0.1);
        output::note(&format!("{seconds:.1} s, {rate:.0} events a second"));
    }
    Ok(Outcome::wanting(!lived.findings.is_empty()))
}

/// What came of all days together.
#[derive(Default)]
pub(crate) struct Lived {
    /// What happened.
    pub(crate) tally: Tally,
    /// A number for all that was recorded, whatever the order.
    pub(crate) fingerprint: u64,
    /// What was wrong, each with the events before it.
    pub(crate) findings: Vec<(Finding, Vec<String>)>,
}

/// Lives through the days. They are taken in the order of their seeds, so that the answer is the same on any number of threads.
fn live(args: &ChaosArgs, progress: &Progress) -> Lived {
    let next = AtomicU64::new(args.seed);
    let enough = AtomicBool::new(false);
    let threads =
        args.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let end = args.seed.saturating_add(args.most_days());
    let (reports, inbox) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (next, enough, reports) = (&next, &enough, reports.clone());
            scope.spawn(move || work(next, end, enough, &reports));
        }
        drop(reports);
        let lived = gather(args, &inbox, progress);
        enough.store(true, Ordering::Relaxed);
        lived
    })
}

fn work(next: &AtomicU64, end: u64, enough: &AtomicBool, reports: &Sender<DayReport>) {
    while !enough.load(Ordering::Relaxed) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end || reports.send(chaos::day(Options { seed, ..Options::default() })).is_err()
        {
            return;
        }
    }
}

/// Adds up the days in the order of their seeds, until it is enough.
fn gather(args: &ChaosArgs, inbox: &Receiver<DayReport>, progress: &Progress) -> Lived {
    let mut lived = Lived::default();
    let mut early: BTreeMap<u64, DayReport> = BTreeMap::new();
    let mut due = args.seed;
    for report in inbox {
        early.insert(report.seed, report);
        while let Some(report) = early.remove(&due) {
            due += 1;
            lived.tally.add(&report.tally);
            lived.fingerprint = lived.fingerprint.wrapping_add(report.fingerprint);
            if let Some(finding) = report.finding {
                let last = last_events(report.seed, args.last);
                lived.findings.push((finding, last));
            }
            progress.at(&lived.tally);
            if lived.tally.of(Count::Events) >= args.most_events() || lived.findings.len() >= ENOUGH
            {
                progress.end();
                return lived;
            }
        }
    }
    progress.end();
    lived
}

/// The last events of a day, which is lived through again for it: to write every day down would be dear.
fn last_events(seed: u64, count: usize) -> Vec<String> {
    let mut log = chaos::day(Options { seed, log: true, sabotage: None }).log;
    log.split_off(log.len().saturating_sub(count))
}

/// A bar on standard error, on a terminal only.
struct Progress {
    bar: Option<ProgressBar>,
    by_events: bool,
}

impl Progress {
    fn new(args: &ChaosArgs, quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let by_events = args.events.is_some();
        let unit = if by_events { "events" } else { "days" };
        let template =
            format!("[{{bar:32}}] {{human_pos}} of {{human_len}} {unit}, {{msg}}, {{eta}} left");
        let style = ProgressStyle::with_template(&template).expect("the template is a constant");
        let length = if by_events { args.most_events() } else { args.most_days() };
        let bar = || ProgressBar::new(length).with_style(style.progress_chars("##-"));
        Progress { bar: shown.then(bar), by_events }
    }

    fn at(&self, tally: &Tally) {
        if let Some(bar) = &self.bar {
            let done = if self.by_events { Count::Events } else { Count::Days };
            bar.set_message(format!(
                "{} crashes, {} breaches",
                tally.crashes(),
                tally.of(Count::Objections)
            ));
            bar.set_position(tally.of(done));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
