//! The runners of a server, and the load of each of their GPUs as a bar with its line.

use plimsoll_core::units::Bytes;

use super::{ago, or_none};
use crate::client::rows::{GpuRow, Moment, RunnerRow};
use crate::text::load;
use crate::text::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// The table of runners, and the bars of their GPUs.
pub(crate) fn runners(page: &mut Page, rows: &[RunnerRow], now: Moment) {
    if rows.is_empty() {
        return page.styled(0, FAINT, "there are no runners; start one with plimsoll runner");
    }
    table(page, rows, now);
    bars(page, rows);
}

fn table(page: &mut Page, rows: &[RunnerRow], now: Moment) {
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
    for row in rows {
        let labels: Vec<String> =
            row.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let status = match (row.status.as_deref(), row.silent_since) {
            (Some("online"), _) => (GOOD, "online".to_string()),
            (Some("silent"), Some(since)) => (BAD, format!("silent for {}", since.ago(now))),
            (status, _) => (ODD, status.unwrap_or("?").to_string()),
        };
        let size = |bytes: Option<Bytes>| (PLAIN, super::or_unknown(bytes));
        table.styled_row([
            (PLAIN, row.runner_id.clone()),
            status,
            (PLAIN, row.last_seen.map_or("never".to_string(), |seen| ago(Some(seen), now))),
            (PLAIN, row.gpu_count.max(row.gpus.len()).to_string()),
            size(row.usable),
            size(row.free),
            (PLAIN, super::or_unknown(row.slots)),
            (PLAIN, or_none(Some(&labels.join(",")))),
        ]);
    }
    table.print(page, 0);
}

/// One bar a GPU, under the name of its runner.
fn bars(page: &mut Page, rows: &[RunnerRow]) {
    let all = || rows.iter().flat_map(|row| row.gpus.iter().map(move |gpu| (row, gpu)));
    if all().next().is_none() {
        return;
    }
    page.heading("Load");
    let several = rows.len() > 1;
    let place = |row: &RunnerRow, gpu: &GpuRow| {
        let index = gpu.index.map_or("?".to_string(), |index| index.to_string());
        if several { format!("{} {index}", row.runner_id) } else { index }
    };
    let longest =
        |names: &mut dyn Iterator<Item = String>| names.map(|name| name.chars().count()).max();
    let wide = longest(&mut all().map(|(row, gpu)| place(row, gpu))).unwrap_or(0);
    let long = longest(&mut all().map(|(_, gpu)| short(&gpu.name()).to_string())).unwrap_or(0);
    let mut shown = Vec::new();
    for (row, gpu) in all() {
        let name = format!("{:wide$}  {:long$}  ", place(row, gpu), short(&gpu.name()));
        load::bar(page, &name, &gpu.load(), &remarks(gpu), &mut shown);
    }
    load::legend(page, &shown);
}

/// What is measured, and what is odd.
fn remarks(gpu: &GpuRow) -> String {
    let busy = gpu.utilisation.map_or(String::new(), |percent| format!(", {percent}% busy"));
    format!("{busy}{}", gpu.remarks())
}

/// The beginning of a UUID, which is enough for an eye; names that are none are shown whole.
pub(crate) fn short(uuid: &str) -> &str {
    const SHOWN: usize = "GPU-00000000".len();
    match uuid.char_indices().nth(SHOWN) {
        Some((at, '-')) if uuid.starts_with("GPU-") => &uuid[..at],
        _ => uuid,
    }
}
