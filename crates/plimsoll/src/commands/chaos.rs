//! `plimsoll chaos`: fault-injection simulations, one per seed, on all processors.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_api::offline::{ChaosFindingRow, ChaosOutput, SCHEMA_VERSION, digest};
use plimsoll_sim::chaos::{self, Counter, Counters, DayReport, Finding, Log, Options};

use crate::cli::{ChaosArgs, Format};
use crate::output::{self, Outcome, Verbosity};
use crate::text;

/// The number of findings to stop after.
const ENOUGH: usize = 10;

pub(super) fn run(args: &ChaosArgs, verbosity: Verbosity) -> Result<Outcome> {
    let began = Instant::now();
    let days = simulate_days(args, &Progress::new(args, verbosity));
    let output = chaos_output(args.seed, &days);
    match args.output {
        Format::Json => output::json(&output)?,
        Format::Yaml => output::yaml(&output)?,
        Format::Table => {
            let mut page = output::page();
            text::chaos::chaos(&mut page, &output);
            output::text(page.text())?;
        }
    }
    if verbosity.is_normal() {
        let seconds = began.elapsed().as_secs_f64();
        let rate = days.counters.get(Counter::Events) as f64 / seconds.max(0.1);
        output::note(&format!("{seconds:.1} s, {rate:.0} events per second"));
    }
    Ok(Outcome::with_open(&output.findings))
}

/// The results of all days.
#[derive(Default)]
struct Days {
    counters: Counters,
    /// A digest of all recorded events, independent of their order.
    fingerprint: u64,
    findings: Vec<ChaosFindingRow>,
}

fn chaos_output(first_seed: u64, days: &Days) -> ChaosOutput {
    let counts = Counter::ALL.iter();
    ChaosOutput {
        schema_version: SCHEMA_VERSION,
        first_seed,
        crashes: days.counters.crashes(),
        faults: days.counters.faults(),
        counts: counts
            .map(|(counter, name, _)| ((*name).to_string(), days.counters.get(*counter)))
            .collect(),
        fingerprint: digest(days.fingerprint),
        findings: days.findings.clone(),
    }
}

/// Simulates the days. Results are added up in the order of the seeds, so that they are the same on
/// any number of threads.
fn simulate_days(args: &ChaosArgs, progress: &Progress) -> Days {
    let next = AtomicU64::new(args.seed);
    let enough = AtomicBool::new(false);
    let threads =
        args.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let end = args.most_days().map(|days| args.seed.saturating_add(days.get()));
    let (reports, inbox) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (next, enough, reports) = (&next, &enough, reports.clone());
            scope.spawn(move || work(next, end, enough, &reports));
        }
        drop(reports);
        let days = gather(args, &inbox, progress);
        enough.store(true, Ordering::Relaxed);
        days
    })
}

fn work(next: &AtomicU64, end: Option<u64>, enough: &AtomicBool, reports: &Sender<DayReport>) {
    while !enough.load(Ordering::Relaxed) {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        let is_over = end.is_some_and(|end| seed >= end);
        if is_over || reports.send(chaos::day(Options { seed, ..Options::default() })).is_err() {
            return;
        }
    }
}

/// Adds up the days in the order of their seeds, until the limit is reached.
fn gather(args: &ChaosArgs, inbox: &Receiver<DayReport>, progress: &Progress) -> Days {
    let mut days = Days::default();
    let mut early: BTreeMap<u64, DayReport> = BTreeMap::new();
    let mut due = args.seed;
    for report in inbox {
        early.insert(report.seed, report);
        while let Some(report) = early.remove(&due) {
            due += 1;
            days.counters.merge(&report.counters);
            days.fingerprint = days.fingerprint.wrapping_add(report.fingerprint);
            if let Some(finding) = report.finding {
                days.findings.push(finding_row(&finding, args.last));
            }
            progress.at(&days.counters);
            let events = days.counters.get(Counter::Events);
            if args.events.is_some_and(|most| events >= most.get()) || days.findings.len() >= ENOUGH
            {
                progress.end();
                return days;
            }
        }
    }
    progress.end();
    days
}

fn finding_row(finding: &Finding, last_events: usize) -> ChaosFindingRow {
    ChaosFindingRow {
        seed: finding.seed,
        event: finding.event,
        at_ms: finding.at.0,
        what: finding.violations.clone(),
        again: finding.command(),
        last_events: self::last_events(finding.seed, last_events),
    }
}

/// Returns the last events of a day. The day is simulated again: logging every day is expensive.
fn last_events(seed: u64, count: usize) -> Vec<String> {
    let mut log = chaos::day(Options { seed, log: Log::Events, sabotage: None }).log;
    log.split_off(log.len().saturating_sub(count))
}

/// A progress bar on a terminal.
struct Progress {
    bar: Option<ProgressBar>,
    by_events: bool,
}

impl Progress {
    fn new(args: &ChaosArgs, verbosity: Verbosity) -> Self {
        let shown = verbosity.is_normal() && std::io::stderr().is_terminal();
        let by_events = args.events.is_some();
        let unit = if by_events { "events" } else { "days" };
        let template =
            format!("[{{bar:32}}] {{human_pos}} of {{human_len}} {unit}, {{msg}}, {{eta}} left");
        let style = ProgressStyle::with_template(&template).expect("the template is a constant");
        let length = args.events.or(args.most_days()).map(NonZeroU64::get);
        let bar = || ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        let bar = || bar().with_style(style.progress_chars("##-"));
        Progress { bar: shown.then(bar), by_events }
    }

    fn at(&self, counters: &Counters) {
        if let Some(bar) = &self.bar {
            let done = if self.by_events { Counter::Events } else { Counter::Days };
            bar.set_message(format!(
                "{} crashes, {} violations",
                counters.crashes(),
                counters.get(Counter::Violations)
            ));
            bar.set_position(counters.get(done));
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
