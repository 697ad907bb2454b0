//! `plimsoll chaos --cluster`: simulated days of a guarded cluster, one per seed.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use plimsoll_api::offline::{ChaosFindingRow, ChaosOutput, SCHEMA_VERSION, digest};
use plimsoll_sim::guarded::{self, GuardedCounts, GuardedFinding, GuardedOptions, GuardedReport};

use crate::cli::{ChaosArgs, Format};
use crate::output::{self, Outcome, Verbosity};
use crate::text::{self, Page};

pub(super) fn run(args: &ChaosArgs, verbosity: Verbosity) -> Result<Outcome> {
    let began = Instant::now();
    let days = simulate_days(args);
    let output = chaos_output(args.seed, &days);
    match args.output {
        Format::Json => output::json(&output)?,
        Format::Yaml => output::yaml(&output)?,
        Format::Table => {
            let mut page = Page::default();
            text::chaos::cluster(&mut page, &output, &days.counts);
            output::text(page.text())?;
        }
    }
    if verbosity.is_normal() {
        let seconds = began.elapsed().as_secs_f64();
        let rate = days.counts.events as f64 / seconds.max(0.1);
        output::note(&format!("{seconds:.1} s, {rate:.0} events per second"));
    }
    Ok(Outcome::with_open(&output.findings))
}

/// The results of all days.
#[derive(Default)]
struct Days {
    counts: GuardedCounts,
    fingerprint: u64,
    findings: Vec<ChaosFindingRow>,
}

/// Simulates the days, as many at a time as there are threads, until a limit or a violation is
/// reached. Results are added up in the order of the seeds.
fn simulate_days(args: &ChaosArgs) -> Days {
    let threads =
        args.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let end = args.most_days().map_or(u64::MAX, |days| args.seed.saturating_add(days.get()));
    let mut days = Days::default();
    let mut next = args.seed;
    while next < end && days.findings.is_empty() {
        let until = end.min(next.saturating_add(threads as u64));
        for report in simulate_together(next..until) {
            days.counts.merge(&report.counts);
            days.fingerprint = days.fingerprint.wrapping_add(report.fingerprint);
            days.findings.extend(report.finding.as_ref().map(finding_row));
        }
        next = until;
        if args.events.is_some_and(|most| days.counts.events >= most.get()) {
            break;
        }
    }
    days
}

fn simulate_together(seeds: std::ops::Range<u64>) -> Vec<GuardedReport> {
    thread::scope(|scope| {
        let running: Vec<_> = seeds
            .map(|seed| scope.spawn(move || guarded::day(GuardedOptions::new(seed))))
            .collect();
        running.into_iter().map(|day| day.join().expect("a day does not panic")).collect()
    })
}

fn chaos_output(first_seed: u64, days: &Days) -> ChaosOutput {
    let GuardedCounts { answers_lost, pauses, watches_lost, forced_deletions, reboots, .. } =
        days.counts;
    ChaosOutput {
        schema_version: SCHEMA_VERSION,
        first_seed,
        crashes: days.counts.crashes,
        faults: answers_lost + pauses + watches_lost + forced_deletions + reboots,
        counts: days.counts.named().map(|(name, count)| (name.to_owned(), count)).collect(),
        fingerprint: digest(days.fingerprint),
        findings: days.findings.clone(),
    }
}

fn finding_row(finding: &GuardedFinding) -> ChaosFindingRow {
    ChaosFindingRow {
        seed: finding.seed,
        event: finding.event,
        at_ms: finding.at.0,
        what: vec![finding.violation.clone()],
        again: format!("plimsoll chaos --cluster --seed {} --days 1", finding.seed),
        last_events: Vec::new(),
    }
}
