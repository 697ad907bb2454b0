//! The runners of a server, and the load of each of their GPUs as a bar.

use anstyle::Style;
use plimsoll_api::rows::{GpuRow, Intake, RunnerRow, RunnerState, RunnerStatus, Time};
use plimsoll_core::units::Bytes;

use super::gpu;
use crate::text::age::ago;
use crate::text::load::{self, Load};
use crate::text::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};
use crate::text::{or_else, row_format};

/// Prints the runners, and the bars of their GPUs.
pub(crate) fn runners(page: &mut Page, rows: &[RunnerStatus], now: Time) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "no runners; start one with plimsoll runner");
    }
    let mut table = Table::new(&[
        ("RUNNER", Align::Left),
        ("STATUS", Align::Left),
        ("SEEN", Align::Right),
        ("GPUS", Align::Right),
        ("USABLE", Align::Right),
        ("FREE", Align::Right),
        ("SLOTS", Align::Right),
        ("LABELS", Align::Left),
    ])
    .optional(&["SEEN", "LABELS"]);
    for RunnerStatus { runner, .. } in rows {
        let labels = runner.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        // Nothing is placed on a runner that is not online, however much memory it has.
        let is_open = runner.status == RunnerState::Online && runner.intake == Intake::Open;
        let free = if is_open { runner.free } else { None };
        let format = row_format(runner.usable, free.as_slice());
        let show = |size: Option<Bytes>| size.map(|size| format.show(size));
        let unknown = if is_open { "?" } else { "-" };
        table.styled_row([
            (PLAIN, runner.runner_id.clone()),
            status(runner, now),
            (PLAIN, runner.last_seen.map_or("never".to_string(), |seen| ago(seen, now))),
            (PLAIN, runner.gpu_count.to_string()),
            (PLAIN, or_else(show(runner.usable), "?")),
            (PLAIN, or_else(show(free), unknown)),
            (PLAIN, runner.slots.to_string()),
            (PLAIN, if labels.is_empty() { "-".to_string() } else { labels }),
        ]);
    }
    table.print(page, 0);
    bars(page, rows);
}

fn status(runner: &RunnerRow, now: Time) -> (Style, String) {
    match (runner.status, runner.silent_since) {
        (RunnerState::Online, _) => match (runner.intake, runner.slots) {
            (Intake::Open, _) => (GOOD, "online".to_string()),
            (Intake::Cordoned, _) => (ODD, "cordoned".to_string()),
            (Intake::Draining, 0) => (ODD, "drained".to_string()),
            (Intake::Draining, _) => (ODD, "draining".to_string()),
        },
        (RunnerState::Silent, Some(since)) => (BAD, format!("silent for {}", ago(since, now))),
        (status, _) => (ODD, status.to_string()),
    }
}

/// Prints one bar per GPU, with the name of its runner if there are several.
fn bars(page: &mut Page, rows: &[RunnerStatus]) {
    let gpus: Vec<(&RunnerRow, &GpuRow)> =
        rows.iter().flat_map(|row| row.gpus.iter().map(move |gpu| (&row.runner, gpu))).collect();
    let name = |(runner, gpu): (&RunnerRow, &GpuRow)| match rows.len() {
        1 => gpu.index.to_string(),
        _ => format!("{} {}", runner.runner_id, gpu.index),
    };
    let names = gpus.iter().map(|gpu| name(*gpu).chars().count()).max().unwrap_or(0);
    let bar = |(runner, gpu): (&RunnerRow, &GpuRow)| load::Bar {
        name: format!("{:names$}  {}", name((runner, gpu)), short(&gpu.device.uuid)),
        load: Load::new(&gpu.device),
        remarks: remarks(gpu),
    };
    let bars: Vec<load::Bar> = gpus.into_iter().map(bar).collect();
    if !bars.is_empty() {
        page.heading("Load");
        load::bars(page, &bars);
    }
}

fn remarks(gpu: &GpuRow) -> String {
    let busy = gpu.utilisation.map_or(String::new(), |percent| format!(", {percent}% busy"));
    format!("{busy}{}", gpu::remarks(gpu))
}

/// Shortens a UUID to its first part; other names stay whole.
fn short(uuid: &str) -> &str {
    const SHOWN: usize = "GPU-00000000".len();
    match uuid.char_indices().nth(SHOWN) {
        Some((at, '-')) if uuid.starts_with("GPU-") => &uuid[..at],
        _ => uuid,
    }
}
