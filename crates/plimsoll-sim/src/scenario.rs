//! Scenarios: a text with one command per line, and below each command its expected output.
//!
//! ```text
//! # One card of 10 GiB takes one tenant of 8 GiB, not two.
//! node n1
//! device n1 0 memory=10GiB
//! submit a/p1 8GiB
//! > a/p1 placed on n1/gpu-0 with 8 GiB
//! submit a/p2 8GiB
//! >
//! ```
//!
//! A line that starts with `#` is a comment. A line that starts with `>` is expected output of the
//! command above it. A command without such lines is run and not checked; a single bare `>` is
//! filled in by [`Report::updated`]. The rest of a line is words: plain ones, and `key=value`
//! pairs. A word with spaces is in double quotes. `a/p{1..400}` runs the command once for each
//! number and prints the number of equal answers.
//!
//! ```text
//! policy NAME, settings offer=30s residency=0s …,
//! account NAME guaranteed=SIZE maximum=SIZE …,
//! plain RULE, at 5s                                  set the configuration and the time
//! node NAME …                                        declare a node, or declare it again
//! update NAME …, device NODE ORDINAL …, gone NODE    change a node or a device, remove a node
//! submit ID ASK…, ask ID ASK…, take ID, withdraw ID  request placements
//! member ID ASK… then gang NAME min=N                request placements together
//! started ID, failed ID, freed ID [device=0]         report evidence
//! observed ID NODE CHARGE…, grew ID 0 SIZE,
//! measured NODE 0 foreign=SIZE, acted ID idle, tick  report observations and time
//! devices, queue, slots, evictable, promises,
//! breaches, accounts                                 print the state
//! explain ID, remedies ID                            print reasons; with an ASK, as a what-if
//! restart, replay, again N                           check recovery and repeatability
//! ```
//!
//! An ASK is `[COUNTx]AMOUNT`, with an amount of `8000MiB`, `0.5`, `50%`, `whole`, `plain`,
//! `slice:1g.5gb`, `unknown:WHAT` or `none`. `init:NAME`, `sidecar:NAME` and `app:NAME` begin a
//! container, and `|` begins an alternative.

mod words;

mod fleet;

mod ask;

mod rules;

mod seen;

mod presets;

mod output;

mod world;

mod command;

mod show;

mod explain;

mod report;

mod state;

mod anonymise;

pub use anonymise::anonymise;
pub use report::{Mismatch, Report};
pub use state::{State, from_state};
pub use words::{Error, Problem};

/// Runs a scenario. Fails if a line cannot be parsed.
pub fn run(text: &str) -> Result<Report, Error> {
    play(text).map(|(report, _)| report)
}

/// Runs a scenario as [`run`] does, and returns the scheduler in its final state too.
pub fn play(text: &str) -> Result<(Report, plimsoll_core::scheduler::Scheduler), Error> {
    let lines = words::read(text)?;
    let mut world = world::World::default();
    let mut results = Vec::new();
    for line in &lines {
        results.push(match &line.content {
            words::Content::Command(words) => Some(
                command::run(&mut world, words)
                    .map_err(|problem| Error { line: line.number, problem })?,
            ),
            _ => None,
        });
    }
    world.report_nodes();
    Ok((report::Report::new(lines, results), world.into_scheduler()))
}
