//! One GPU: what it has, what is held of it, and by whom.

use plimsoll_core::units::Bytes;

use super::or_unknown;
use crate::client::rows::{GpuRow, Moment, RunnerRow};
use crate::text::live::slots::stage_style;
use crate::text::page::{BAD, FAINT, ODD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// All that is known of a GPU.
pub(crate) fn gpu(page: &mut Page, runner: &RunnerRow, gpu: Option<&GpuRow>, now: Moment) {
    if let Some(since) = runner.silent_since {
        let text = format!(
            "the runner has been silent for {}; what it holds still counts",
            since.ago(now)
        );
        page.styled(1, BAD, &text);
    }
    let Some(gpu) = gpu else { return page.styled(1, FAINT, "nothing is known of it yet") };
    let model = gpu.model.as_deref().map_or(String::new(), |model| format!(", {model}"));
    page.pieces(1, &[(PLAIN, &gpu.name()), (PLAIN, &model), (ODD, &gpu.remarks())]);
    let odd = |name: &str, bytes: Option<Bytes>| {
        bytes
            .filter(|bytes| !bytes.is_zero())
            .map_or(String::new(), |bytes| format!(", {name} {bytes}"))
    };
    let line = format!(
        "line at {}, free {}{}{}{}{}",
        or_unknown(gpu.usable),
        or_unknown(gpu.free),
        odd("foreign", gpu.foreign),
        odd("being given back", gpu.releasing),
        odd("kept by the driver", gpu.reserve),
        odd("measured in use", gpu.used),
    );
    page.line(1, &line);
    if gpu.is_over() {
        page.styled(1, BAD, &format!("OVER its line by {}", or_unknown(gpu.over_by)));
    }
    tenants(page, gpu);
}

fn tenants(page: &mut Page, gpu: &GpuRow) {
    if gpu.tenants.is_empty() {
        return page.styled(1, FAINT, "nobody holds it");
    }
    let mut table = Table::new(&[
        ("HELD BY", Align::Left),
        ("MODEL", Align::Left),
        ("STAGE", Align::Left),
        ("MEMORY", Align::Right),
    ]);
    for tenant in &gpu.tenants {
        let bytes = tenant.bytes.map_or("undeclared".to_string(), |bytes| bytes.to_string());
        table.styled_row([
            (PLAIN, tenant.pod.clone()),
            (PLAIN, tenant.namespace.clone()),
            (stage_style(tenant.stage_words()), tenant.stage_words().to_string()),
            (PLAIN, bytes),
        ]);
    }
    table.print(page, 1);
}
