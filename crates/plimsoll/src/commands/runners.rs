//! `plimsoll runners`: lists runners and the load of their GPUs, and maintains them.

use std::time::Duration;

use anyhow::Result;
use plimsoll_api::rows::{DrainBody, RunnerRow, RunnerState, RunnerStatus, SlotRow};
use serde_json::json;

use super::look::{self, View};
use crate::cli::{
    ChangeArgs, DrainArgs, RunnerListArgs, RunnersAction, RunnersArgs, ServerArgs, ShowArgs,
};
use crate::client::{Client, ClientError, Kind, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::text::age::{ahead, now};
use crate::text::count;
use crate::text::live::{gpu, runners};

pub(super) fn run(args: &RunnersArgs, verbosity: Verbosity) -> Result<Outcome> {
    match &args.action {
        None => list(args.name.as_deref(), &args.list, verbosity),
        Some(RunnersAction::List(list_args)) => list(None, list_args, verbosity),
        Some(RunnersAction::Show(named)) => {
            show_one(&named.name, &named.show, &named.server, verbosity)
        }
        Some(RunnersAction::Cordon(change)) => cordon(change, "cordon"),
        Some(RunnersAction::Uncordon(change)) => cordon(change, "uncordon"),
        Some(RunnersAction::Drain(drain_args)) => drain(drain_args),
        Some(RunnersAction::Delete(change)) => delete(change),
    }
}

fn list(name: Option<&str>, args: &RunnerListArgs, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let selector = args.selector.as_deref();
    let view = View {
        rows: &|| match name {
            Some(name) => Ok(vec![client.named(Kind::Runner, name)?]),
            None => Ok(all(&client, selector)?),
        },
        print: &|page, rows| runners::runners(page, rows, now()),
        name: &|row: &RunnerStatus| row.runner.runner_id.clone(),
        outcome: &outcome,
    };
    look::show(&client, &args.show, verbosity, &view)
}

fn show_one(
    name: &str,
    show: &ShowArgs,
    server: &ServerArgs,
    verbosity: Verbosity,
) -> Result<Outcome> {
    let client = Client::new(server)?;
    let view = View {
        rows: &|| Ok(vec![client.named::<RunnerStatus>(Kind::Runner, name)?]),
        print: &|page, rows| {
            runners::runners(page, rows, now());
            for gpu in rows.iter().flat_map(|row| &row.gpus) {
                page.heading(&format!("GPU {}", gpu.index));
                gpu::gpu(page, &rows[0].runner, Some(gpu), now());
            }
        },
        name: &|row: &RunnerStatus| row.runner.runner_id.clone(),
        outcome: &outcome,
    };
    look::show_one(&client, show, verbosity, &view)
}

fn outcome(rows: &[RunnerStatus]) -> Outcome {
    let gpus = rows.iter().flat_map(|row| &row.gpus);
    Outcome::with_open(gpus.filter(|gpu| gpu.device.is_over()))
}

/// Returns the path of one runner with its GPUs.
fn status_path(name: &str) -> String {
    format!("/api/v1/runners/{}/status", segment(name))
}

/// Reads the list of runners, and then the GPUs of each that has the labels. A runner that is
/// removed in between is left out.
fn all(client: &Client, selector: Option<&str>) -> Result<Vec<RunnerStatus>, ClientError> {
    let runners: Vec<RunnerRow> = client.list("/api/v1/runners", None)?;
    let mut rows = Vec::new();
    for runner in runners.iter().filter(|runner| has_labels(runner, selector)) {
        rows.extend(client.find(&status_path(&runner.runner_id))?);
    }
    Ok(rows)
}

/// Returns whether a runner has all labels of a selector such as `pool=text,zone=a`.
pub(super) fn has_labels(runner: &RunnerRow, selector: Option<&str>) -> bool {
    let mut wanted = selector.into_iter().flat_map(|text| text.split(','));
    wanted.all(|term| match term.split_once('=') {
        Some((key, value)) => {
            let key = key.trim_end_matches(['=', '!']);
            let is_equal =
                runner.labels.get(key).is_some_and(|is| is == value.trim_start_matches('='));
            is_equal != term.contains("!=")
        }
        None => runner.labels.contains_key(term),
    })
}

/// Sends a change of a runner.
fn change(client: &Client, name: &str, verb: &str, body: &DrainBody) -> Result<RunnerRow> {
    let path = format!("/api/v1/runners/{}/{verb}", segment(name));
    let changed = match verb {
        "drain" => client.post(&path, body, Duration::ZERO),
        _ => client.post(&path, &json!({}), Duration::ZERO),
    };
    changed.map_err(|error| client.with_suggestion(error, Kind::Runner, name))
}

fn cordon(args: &ChangeArgs, verb: &str) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let row = change(&client, &args.name, verb, &DrainBody::default())?;
    let slots = count(row.slots, "slot");
    output::text(&format!("{verb}ed runner {}; it has {slots}\n", args.name))?;
    Ok(Outcome::Fine)
}

/// The interval at which the progress of a drain is shown.
const EVERY: Duration = Duration::from_secs(1);

/// Starts a drain, and prints its progress until no slot is left.
fn drain(args: &DrainArgs) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let body = DrainBody { deadline: args.deadline };
    let row = change(&client, &args.name, "drain", &body)?;
    output::text(&format!("draining runner {}: {} left\n", args.name, count(row.slots, "slot")))?;
    if args.no_wait {
        return Ok(Outcome::Fine);
    }
    let mut last = None;
    loop {
        let row: RunnerStatus = client.named(Kind::Runner, &args.name)?;
        if row.runner.slots == 0 {
            let name = &args.name;
            output::text(&format!(
                "drained runner {name}; it stays closed until `plimsoll runners uncordon {name}`\n"
            ))?;
            return Ok(Outcome::Fine);
        }
        let progress = progress(&client, &row.runner)?;
        if last.as_ref() != Some(&progress) {
            let deadline = row.runner.drain_deadline;
            let deadline =
                deadline.map_or(String::new(), |at| format!("; deadline in {}", ahead(at, now())));
            output::text(&format!("  {progress}{deadline}\n"))?;
            last = Some(progress);
        }
        if row.runner.status == RunnerState::Silent {
            output::note("the runner is silent; its slots stay charged until it reports again");
            return Ok(Outcome::Wanting);
        }
        std::thread::sleep(EVERY);
    }
}

/// Formats what is left on a runner: `slot-3 busy (2 reservations), slot-4 releasing`.
fn progress(client: &Client, runner: &RunnerRow) -> Result<String> {
    let path = format!("/api/v1/scheduler/slots?runner_id={}", segment(&runner.runner_id));
    let slots: Vec<SlotRow> = client.list(&path, None)?;
    let left = slots.iter().map(|slot| match slot.active_requests {
        0 => format!("{} {}", slot.id, slot.stage),
        active => {
            let active = usize::try_from(active).unwrap_or(usize::MAX);
            format!("{} busy ({})", slot.id, count(active, "reservation"))
        }
    });
    Ok(left.collect::<Vec<_>>().join(", "))
}

fn delete(args: &ChangeArgs) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let path = format!("/api/v1/runners/{}", segment(&args.name));
    let deleted = client.delete(&path);
    deleted.map_err(|error| client.with_suggestion(error, Kind::Runner, &args.name))?;
    output::text(&format!("deleted runner {}\n", args.name))?;
    Ok(Outcome::Fine)
}
