//! The memory estimate of a model, part by part, and what fits a device.

use plimsoll_api::offline::{DeviceFitRow, EstimateOutput, ModelFileRow};
use plimsoll_core::units::Bytes;
use plimsoll_models::estimate::{Breakdown, Estimate};
use plimsoll_models::settings::Settings;

use super::page::{BAD, FAINT, GOOD, PLAIN, Page, STRONG};
use super::table::{Align, Table};
use super::{count, or_else};

/// Prints the estimate of a model, and what fits a device.
pub(crate) fn estimate(page: &mut Page, output: &EstimateOutput) {
    let EstimateOutput { model, estimate, device, .. } = output;
    page.pieces(0, &[(STRONG, &model_text(model)), (PLAIN, &settings_text(&estimate.settings))]);
    page.line(0, "");
    parts(page, estimate);
    if estimate.gpus.len() > 1 {
        page.line(0, "");
        gpus(page, &estimate.gpus);
    }
    if let Some(host) = estimate.host.bytes.filter(|host| !host.is_zero()) {
        page.line(0, "");
        let text = format!("{host} of weights (token embeddings) stay in host memory");
        page.styled(0, FAINT, &text);
    }
    for remark in &estimate.remarks {
        page.styled(0, FAINT, remark);
    }
    if let Some(device) = device {
        fits(page, device, estimate);
    }
}

fn model_text(model: &ModelFileRow) -> String {
    let experts = model.experts.get().filter(|experts| **experts > 0);
    let experts = experts.map(|experts| format!(", {experts} experts")).unwrap_or_default();
    format!("{}, {}{experts}", model.architecture, count(model.layers.unwrap_or(0), "layer"))
}

fn settings_text(settings: &Settings) -> String {
    let requests = match settings.parallel {
        1 => String::new(),
        parallel => format!("{parallel} x "),
    };
    let gpus = count(usize::try_from(settings.gpus).unwrap_or(usize::MAX), "GPU");
    let Settings { runtime, context, kv, .. } = settings;
    format!(" in {runtime}: {requests}{context} tokens, KV cache in {kv}, {gpus}")
}

fn parts(page: &mut Page, estimate: &Estimate) {
    let mut table =
        Table::new(&[("PART", Align::Left), ("BYTES", Align::Right), ("FROM", Align::Left)]);
    for (name, part) in estimate.all.named() {
        table.row([name.to_string(), size(part.bytes), part.source.to_string()]);
    }
    let total = (STRONG, size(estimate.all.total));
    table.styled_row([(STRONG, "total".to_string()), total, (PLAIN, String::new())]);
    table.print(page, 0);
}

fn gpus(page: &mut Page, gpus: &[Breakdown]) {
    let columns = ["GPU", "WEIGHTS", "KV", "COMPUTE", "FIXED", "RESERVE", "TOTAL"];
    let mut table = Table::new(&columns.map(|name| (name, Align::Right)));
    for (number, parts) in gpus.iter().enumerate() {
        let cells = parts.named().map(|(_, part)| size(part.bytes));
        table.row([number.to_string()].into_iter().chain(cells).chain([size(parts.total)]));
    }
    table.print(page, 0);
}

fn size(bytes: Option<Bytes>) -> String {
    or_else(bytes, "unknown")
}

fn fits(page: &mut Page, device: &DeviceFitRow, estimate: &Estimate) {
    page.line(0, "");
    let Some(largest) = estimate.largest() else { return };
    let memory = device.bytes;
    let verdict = if device.fits {
        (GOOD, format!("fits {memory}, {} left", memory.less(largest)))
    } else {
        (BAD, format!("does not fit {memory}, {} short", largest.less(memory)))
    };
    page.pieces(0, &[(PLAIN, &format!("{largest} on the fullest GPU: ")), (verdict.0, &verdict.1)]);
    page.line(0, "with all other settings as given:");
    let context = device.longest_context.map(|tokens| format!("{tokens} tokens"));
    page.line(2, &format!("longest context that fits     {}", or_else(context, "none")));
    let parallel = device.largest_parallel.map(|number| {
        let requests = usize::try_from(number).unwrap_or(usize::MAX);
        format!("{} in parallel", count(requests, "request"))
    });
    page.line(2, &format!("largest batch that fits       {}", or_else(parallel, "none")));
    page.line(2, &format!("best KV cache type that fits  {}", or_else(device.kv, "none")));
}
