//! The runners of a server, and the load of each of their GPUs as a bar.

use anstyle::Style;
use plimsoll_api::rows::{GpuRow, RunnerRow, RunnerState, RunnerStatus, Time};
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
    ]);
    for RunnerStatus { runner, .. } in rows {
        let labels = runner.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        // Nothing is placed on a runner that is not online, however much memory it has.
        let free = if runner.status == RunnerState::Online { runner.free } else { None };
        let format = row_format(runner.usable, free.as_slice());
        let show = |size: Option<Bytes>| size.map(|size| format.show(size));
        let unknown = if runner.status == RunnerState::Online { "?" } else { "-" };
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
        (RunnerState::Online, _) => (GOOD, "online".to_string()),
        (RunnerState::Silent, Some(since)) => (BAD, format!("silent for {}", ago(since, now))),
        (status, _) => (ODD, status.to_string()),
    }
}

/// Prints one bar per GPU, with the name of its runner if there are several.
fn bars(page: &mut Page, rows: &[RunnerStatus]) {
    let mut bars: Vec<(String, &str, &GpuRow)> = Vec::new();
    for RunnerStatus { runner, gpus, .. } in rows {
        for gpu in gpus {
            let name = match rows.len() {
                1 => gpu.index.to_string(),
                _ => format!("{} {}", runner.runner_id, gpu.index),
            };
            bars.push((name, short(&gpu.device.uuid), gpu));
        }
    }
    if bars.is_empty() {
        return;
    }
    page.heading("Load");
    let names = bars.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let uuids = bars.iter().map(|(_, uuid, _)| uuid.chars().count()).max().unwrap_or(0);
    let mut shown = Vec::new();
    for (name, uuid, gpu) in bars {
        let name = format!("{name:names$}  {uuid:uuids$}  ");
        load::bar(page, &name, &Load::new(&gpu.device), &remarks(gpu), &mut shown);
    }
    load::legend(page, &shown);
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
