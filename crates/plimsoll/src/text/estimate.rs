//! What a model takes, part by part, and what would fit a device.

use plimsoll_core::units::Bytes;
use plimsoll_models::estimate::{Breakdown, Estimate};
use plimsoll_models::settings::Settings;
use plimsoll_models::shape::Shape;

use super::count;
use super::page::{BAD, FAINT, GOOD, PLAIN, Page, STRONG};
use super::table::{Align, Table};
use crate::commands::{Asked, Room};

/// What a model takes, and what would fit a device.
pub(crate) fn estimate(page: &mut Page, asked: &Asked) {
    let Asked { shape, estimate, room } = asked;
    page.pieces(0, &[(STRONG, &model(shape)), (PLAIN, &served(&estimate.settings))]);
    page.line(0, "");
    parts(page, estimate);
    if estimate.gpus.len() > 1 {
        page.line(0, "");
        gpus(page, &estimate.gpus);
    }
    if let Some(host) = estimate.host.bytes.filter(|host| !host.is_zero()) {
        page.line(0, "");
        page.styled(
            0,
            FAINT,
            &format!("{host} of weights, the token embeddings, stay in the host's memory"),
        );
    }
    for remark in &estimate.remarks {
        page.styled(0, FAINT, remark);
    }
    if let Some(room) = room {
        fits(page, room, estimate);
    }
}

fn model(shape: &Shape) -> String {
    let layers = shape.layers.get().map_or(0, Vec::len);
    let experts = shape.experts.get().filter(|experts| **experts > 0);
    let experts = experts.map(|experts| format!(", {experts} experts")).unwrap_or_default();
    format!("{}, {}{experts}", shape.architecture, count(layers, "layer"))
}

fn served(settings: &Settings) -> String {
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
    bytes.map_or_else(|| "unknown".to_string(), |bytes| bytes.to_string())
}

fn fits(page: &mut Page, room: &Room, estimate: &Estimate) {
    page.line(0, "");
    let Some(largest) = estimate.largest() else { return };
    let device = room.device;
    let verdict = if room.fits {
        (GOOD, format!("fits {device}, {} left", device.less(largest)))
    } else {
        (BAD, format!("does not fit {device}, {} short", largest.less(device)))
    };
    page.pieces(0, &[(PLAIN, &format!("{largest} on the fullest GPU: ")), (verdict.0, &verdict.1)]);
    let answer = |found: Option<String>| found.unwrap_or_else(|| "none".to_string());
    page.line(0, "with all else as asked, this would fit:");
    page.line(
        2,
        &format!(
            "longest context  {}",
            answer(room.context.map(|tokens| format!("{tokens} tokens")))
        ),
    );
    page.line(2, &format!("largest batch    {}", answer(room.parallel.map(requests))));
    page.line(2, &format!("KV cache         {}", answer(room.kv.map(|kv| kv.to_string()))));
}

fn requests(parallel: u64) -> String {
    count(usize::try_from(parallel).unwrap_or(usize::MAX), "request") + " at once"
}
