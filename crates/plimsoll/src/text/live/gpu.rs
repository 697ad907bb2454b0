//! One GPU: its account, its measurements and its holders.

use plimsoll_api::device::TenantStage;
use plimsoll_api::rows::{GpuRow, RunnerRow, SlotStage, Telemetry, Time};
use plimsoll_core::units::{Bytes, SizeFormat};

use crate::text::age::ago;
use crate::text::live::slots::stage_style;
use crate::text::load::is_starting;
use crate::text::page::{BAD, FAINT, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};
use crate::text::{or_else, row_format, simulate};

/// Prints everything that is known about a GPU.
pub(crate) fn gpu(page: &mut Page, runner: &RunnerRow, gpu: Option<&GpuRow>, now: Time) {
    if let Some(since) = runner.silent_since {
        let silent = ago(since, now);
        page.styled(1, BAD, &format!("runner silent for {silent}; its slots stay charged"));
    }
    let Some(gpu) = gpu else { return page.styled(1, FAINT, "not loaded yet") };
    let device = &gpu.device;
    let model = device.model.as_deref().map_or(String::new(), |model| format!(", {model}"));
    page.pieces(1, &[(PLAIN, &device.uuid), (PLAIN, &model), (ODD, &remarks(gpu))]);
    let parts = [
        ("foreign", Some(device.foreign)),
        ("releasing", device.releasing),
        ("reserved by the driver", Some(device.reserve)),
        ("measured in use", gpu.used.map(Bytes::new)),
    ];
    let known = parts.iter().filter_map(|(_, size)| *size);
    let known: Vec<Bytes> = known.chain(device.free).collect();
    let format = row_format(device.usable, &known);
    let show = |size: Option<Bytes>| or_else(size.map(|size| format.show(size)), "unknown");
    let mut sizes = format!("usable {}, free {}", show(device.usable), show(device.free));
    for (name, size) in parts {
        if size.is_some_and(|size| !size.is_zero()) {
            sizes.push_str(&format!(", {name} {}", show(size)));
        }
    }
    page.line(1, &sizes);
    if device.is_over() {
        page.styled(1, BAD, &format!("OVER its line by {}", show(device.over_by)));
    }
    tenants(page, gpu, format);
}

/// Formats the state of a GPU: `, faulty, stale metrics`; empty if it is in order.
pub(crate) fn remarks(gpu: &GpuRow) -> String {
    let stale = if gpu.telemetry == Telemetry::Stale { ", stale metrics" } else { "" };
    format!("{}{stale}", simulate::remarks(&gpu.device))
}

fn tenants(page: &mut Page, gpu: &GpuRow, format: SizeFormat) {
    if gpu.device.tenants.is_empty() {
        return page.styled(1, FAINT, "no holders");
    }
    let mut table = Table::new(&[
        ("HELD BY", Align::Left),
        ("MODEL", Align::Left),
        ("STAGE", Align::Left),
        ("MEMORY", Align::Right),
    ]);
    for tenant in &gpu.device.tenants {
        let stage = match tenant.stage {
            _ if is_starting(tenant) => SlotStage::Starting,
            TenantStage::Releasing => SlotStage::Releasing,
            _ => SlotStage::Running,
        };
        table.styled_row([
            (PLAIN, tenant.pod.to_string()),
            (PLAIN, tenant.namespace.to_string()),
            (stage_style(stage), stage.to_string()),
            (PLAIN, or_else(tenant.bytes.map(|bytes| format.show(bytes)), "undeclared")),
        ]);
    }
    table.print(page, 1);
}

/// Prints the recent past as sparklines, the newest at the right.
pub(crate) fn history(page: &mut Page, busy: &str, memory: &str) {
    page.verbatim(1, &format!("busy    {busy}"));
    page.verbatim(1, &format!("memory  {memory}"));
}
