//! Golden cases as text: each line a command, and below it what it should say.
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
//! A line that starts with `#` is a comment, one that starts with `>` is what the command above it should say. A command
//! without such lines is run and not checked; a single bare `>` is filled in by [`Report::updated`]. The rest of a
//! line is words: plain ones, and `key=value` pairs. A word with spaces stands in double quotes. `a/p{1..400}`
//! runs the command once for each number and says how often each answer was given.
//!
//! | command | does |
//! | --- | --- |
//! | `policy NAME` · `settings offer=30s residency=0s …` · `plain RULE` · `at 5s` | how the machine behaves, and when it is |
//! | `node NAME …` · `update NAME …` · `device NODE ORDINAL …` · `gone NODE` | a node said anew; its facts changed; a device added or changed; a node gone |
//! | `submit ID ASK…` · `ask ID ASK…` · `take ID` · `withdraw ID` | asking for places |
//! | `member ID ASK…` then `gang NAME min=N` | asking for places together |
//! | `started ID` · `failed ID` · `freed ID [device=0]` | evidence |
//! | `observed ID NODE CHARGE…` · `measured NODE 0 foreign=SIZE` · `grew ID 0 SIZE` · `acted ID idle` · `tick` | reality |
//! | `devices` · `queue` · `slots` · `evictable` · `promises` · `breaches` · `accounts` | what is there |
//! | `explain ID` · `remedies ID` (or with an ASK, as a what-if) | why |
//! | `restart` · `replay` · `again N` | state survives, decisions repeat |
//!
//! An ASK is `[COUNTx]AMOUNT` with an amount of `8000MiB`, `0.5`, `50%`, `whole`, `plain`, `slice:1g.5gb`, `unknown:WHAT`
//! or `none`; `init:NAME`, `sidecar:NAME` and `app:NAME` begin a container, and `|` begins an alternative.

mod words;

mod fleet;

mod ask;

mod rules;

mod seen;

mod presets;

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

/// Runs a scenario and reports what happened. An error is a line that cannot be understood.
pub fn run(text: &str) -> Result<Report, Error> {
    play(text).map(|(report, _)| report)
}

/// Runs a scenario as [`run`] does, and hands out the machine as it stands at the end.
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
