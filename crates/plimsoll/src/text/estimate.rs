//! The memory estimate of a model, part by part, and what fits a device.
//!
//! All sizes of one output have one unit, which the total decides, so that they can be compared.

use plimsoll_api::offline::{DeviceFitRow, EstimateOutput, ModelFileRow};
use plimsoll_core::units::Bytes;
use plimsoll_core::wording::SizeFormat;
use plimsoll_models::estimate::{Breakdown, Estimate};
use plimsoll_models::settings::{RuntimeKind, Settings};

use super::page::{BAD, FAINT, GOOD, PLAIN, Page, STRONG};
use super::table::{Align, Table};
use super::{count, or_else};

/// Prints the estimate of a model, and what fits a device.
pub(crate) fn estimate(page: &mut Page, output: &EstimateOutput) {
    let EstimateOutput { model, estimate, device, .. } = output;
    let format = size_format(estimate, device.as_ref());
    verdict(page, estimate, device.as_ref(), format);
    page.line(0, "");
    for (name, text) in facts(model, &estimate.settings) {
        page.line(0, &format!("{name:<9}{text}"));
    }
    page.line(0, "");
    parts(page, estimate, format);
    if estimate.gpus.len() > 1 {
        page.line(0, "");
        gpus(page, &estimate.gpus, format);
    }
    notes(page, estimate, format);
    if let Some(device) = device.as_ref().filter(|_| estimate.all.total.is_some()) {
        fits(page, device, output, format);
    }
}

/// Returns the unit of the output. An unknown total leaves the largest known part to decide.
fn size_format(estimate: &Estimate, device: Option<&DeviceFitRow>) -> SizeFormat {
    let known = estimate.all.named().into_iter().filter_map(|(_, part)| part.bytes).max();
    let total = estimate.all.total.or(known).unwrap_or(Bytes::ZERO);
    match (device, estimate.largest()) {
        (Some(device), Some(largest)) if largest > device.bytes => {
            SizeFormat::for_shortfall(largest, device.bytes)
        }
        _ => SizeFormat::for_size(total),
    }
}

/// Prints the answer in one line: the need, and whether it fits.
fn verdict(
    page: &mut Page,
    estimate: &Estimate,
    device: Option<&DeviceFitRow>,
    format: SizeFormat,
) {
    let (Some(total), Some(largest)) = (estimate.all.total, estimate.largest()) else {
        page.styled(0, BAD, "needs an unknown amount of memory");
        return;
    };
    let need = match estimate.gpus.len() {
        1 => format!("needs {} on one GPU", format.show(total)),
        gpus => {
            let (total, largest) = (format.show(total), format.show(largest));
            format!("needs {total}: up to {largest} on each of {gpus} GPUs")
        }
    };
    let Some(device) = device else {
        page.styled(0, STRONG, &need);
        return;
    };
    let (size, memory) = (format.show(device.bytes), device.bytes);
    let (style, answer) = if device.fits {
        (GOOD, format!("fits {size}, {} left", format.show_difference(memory, largest)))
    } else {
        (BAD, format!("does not fit {size}, {} short", format.show_difference(largest, memory)))
    };
    let gpus = device.fewest_gpus.filter(|_| !device.fits);
    let advice = gpus.map(|gpus| format!("; fits with --gpus {gpus}")).unwrap_or_default();
    page.pieces(0, &[(STRONG, &need), (PLAIN, "; "), (style, &answer), (PLAIN, &advice)]);
}

fn facts(model: &ModelFileRow, settings: &Settings) -> [(&'static str, String); 4] {
    [
        ("model", model_text(model)),
        ("layers", layers_text(model)),
        ("trained", trained_text(model)),
        ("serving", settings_text(settings)),
    ]
}

fn model_text(model: &ModelFileRow) -> String {
    let parameters = model.parameters.map(|count| format!("{} parameters", short_count(count)));
    let name = model.name.clone().unwrap_or_else(|| "unnamed".to_string());
    [Some(name), model.quantisation.clone(), parameters]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// Formats a number of parameters as model names do: `8.19B`, `596M`.
fn short_count(count: u64) -> String {
    match count {
        0..1_000_000 => count.to_string(),
        1_000_000..1_000_000_000 => format!("{}M", (count + 500_000) / 1_000_000),
        _ => {
            let hundredths = count.saturating_add(5_000_000) / 10_000_000;
            format!("{}.{:02}B", hundredths / 100, hundredths % 100)
        }
    }
}

fn layers_text(model: &ModelFileRow) -> String {
    let experts = model.experts.get().filter(|experts| **experts > 0);
    let experts = experts.map(|experts| format!(" with {experts} experts")).unwrap_or_default();
    let layers = model.layers.map(|layers| layers.to_string());
    format!("{}{experts} ({})", or_else(layers, "unknown"), model.architecture)
}

fn trained_text(model: &ModelFileRow) -> String {
    let tokens = model.trained_context.get().map(|tokens| format!("for {tokens} tokens"));
    or_else(tokens, "unknown")
}

fn settings_text(settings: &Settings) -> String {
    let requests = usize::try_from(settings.parallel).unwrap_or(usize::MAX);
    let each = if requests == 1 { "" } else { " each" };
    let gpus = count(usize::try_from(settings.gpus).unwrap_or(usize::MAX), "GPU");
    let Settings { runtime, context, kv, .. } = settings;
    let requests = count(requests, "request");
    format!("{runtime}, {requests} at once, {context} tokens{each}, KV cache in {kv}, {gpus}")
}

fn parts(page: &mut Page, estimate: &Estimate, format: SizeFormat) {
    let mut table =
        Table::new(&[("PART", Align::Left), ("SIZE", Align::Right), ("FROM", Align::Left)]);
    for (name, part) in estimate.all.named() {
        table.row([name.to_string(), size(part.bytes, format), part.source.to_string()]);
    }
    let total = (STRONG, size(estimate.all.total, format));
    table.styled_row([(STRONG, "total".to_string()), total, (PLAIN, String::new())]);
    table.print(page, 0);
}

fn gpus(page: &mut Page, gpus: &[Breakdown], format: SizeFormat) {
    let columns = ["GPU", "WEIGHTS", "KV", "COMPUTE", "FIXED", "RESERVE", "TOTAL"];
    let mut table = Table::new(&columns.map(|name| (name, Align::Right)));
    for (number, parts) in gpus.iter().enumerate() {
        let cells = parts.named().map(|(_, part)| size(part.bytes, format));
        table.row([number.to_string()].into_iter().chain(cells).chain([size(parts.total, format)]));
    }
    table.print(page, 0);
}

fn size(bytes: Option<Bytes>, format: SizeFormat) -> String {
    or_else(bytes.map(|bytes| format.show(bytes)), "unknown")
}

fn notes(page: &mut Page, estimate: &Estimate, format: SizeFormat) {
    let host = estimate.host.bytes.filter(|host| !host.is_zero());
    let host = host.map(|host| {
        format!("{} of weights (token embeddings) stay in host memory", format.show(host))
    });
    let notes: Vec<String> = host
        .into_iter()
        .chain(ollama_size(estimate))
        .chain(estimate.remarks.iter().cloned())
        .collect();
    if !notes.is_empty() {
        page.line(0, "");
    }
    notes.iter().for_each(|note| page.styled(0, FAINT, note));
}

/// Returns the size as `ollama ps` shows it: weights on GPU and host, KV cache and compute buffers,
/// in decimal gigabytes.
fn ollama_size(estimate: &Estimate) -> Option<String> {
    if estimate.settings.runtime == RuntimeKind::Vllm {
        return None;
    }
    let Breakdown { weights, kv, compute, .. } = &estimate.all;
    let parts = [weights, &estimate.host, kv, compute].map(|part| part.bytes);
    let sum = parts.into_iter().try_fold(Bytes::ZERO, |sum, bytes| Some(sum.plus(bytes?)))?;
    let tenths = sum.get().saturating_add(50_000_000) / 100_000_000;
    let (whole, tenth) = (tenths / 10, tenths % 10);
    Some(format!(
        "`ollama ps` counts {whole}.{tenth} GB (10^9 bytes): all weights, KV cache and compute"
    ))
}

fn fits(page: &mut Page, device: &DeviceFitRow, output: &EstimateOutput, format: SizeFormat) {
    page.line(0, "");
    page.line(
        0,
        &format!("what fits {}, with all other settings as given:", format.show(device.bytes)),
    );
    let trained = output.model.trained_context.get().copied();
    let context = device.longest_context.map(|tokens| match trained {
        Some(trained) if trained == tokens => format!("{tokens} tokens (the trained length)"),
        _ => format!("{tokens} tokens"),
    });
    page.line(2, &format!("longest context  {}", or_else(context, "no length fits")));
    let requests = device.largest_parallel.map(|number| format!("{number} at once"));
    page.line(2, &format!("most requests    {}", or_else(requests, "not even one fits")));
    if device.fits {
        return;
    }
    page.line(2, &format!("KV cache type    {}", or_else(device.kv, "no type makes it fit")));
    let gpus = device.fewest_gpus.map(|gpus| format!("{gpus} (--gpus {gpus})"));
    let gpus = or_else(gpus, "no number up to 15 fits");
    page.line(2, &format!("fewest GPUs      {gpus}"));
}
