//! Every device with its line, its holders, and what is free and promised.

use plimsoll_api::device::{DeviceRow, TenantRow, TenantStage};
use plimsoll_api::offline::DevicesOutput;
use plimsoll_core::units::Bytes;

use super::decision::help;
use super::page::{BAD, FAINT, GOOD, ODD, PLAIN, Page};
use super::simulate::remarks;
use super::table::{Align, Table};
use super::{or_else, row_format};

/// Prints the devices of a cluster.
pub(crate) fn devices(page: &mut Page, output: &DevicesOutput) {
    page.heading("Devices");
    let mut table = Table::new(&[
        ("DEVICE", Align::Left),
        ("LINE", Align::Right),
        ("FREE", Align::Right),
        ("HELD BY", Align::Left),
        ("STAGE", Align::Left),
        ("MEMORY", Align::Right),
    ]);
    output.devices.iter().for_each(|device| rows(&mut table, device));
    table.print(page, 2);
    if !output.promised.is_empty() {
        page.heading("Promised");
    }
    for row in &output.promised {
        page.line(2, &format!("{}/{}", row.namespace, row.pod));
        help(page, 4, Some(&row.promised), &[]);
    }
}

/// Adds a device: one row per holder, with the device in the first of them.
fn rows(table: &mut Table, device: &DeviceRow) {
    let known: Vec<Bytes> = device.tenants.iter().filter_map(|tenant| tenant.bytes).collect();
    let format = row_format(device.usable, &known);
    let show = |size: Option<Bytes>| or_else(size.map(|size| format.show(size)), "unknown");
    let mut first = Some([
        (PLAIN, format!("{}{}", device.uuid, remarks(device))),
        (PLAIN, show(device.usable)),
        free(device, &show(device.free), &show(device.over_by)),
    ]);
    let blank = || [(PLAIN, String::new()), (PLAIN, String::new()), (PLAIN, String::new())];
    if device.tenants.is_empty() {
        let cells = first.take().unwrap_or_else(blank).into_iter();
        table.styled_row(cells.chain([(FAINT, "-".to_owned())]));
    }
    for tenant in &device.tenants {
        let amount = or_else(tenant.bytes.map(|bytes| format.show(bytes)), "undeclared");
        let cells = first.take().unwrap_or_else(blank).into_iter();
        table.styled_row(cells.chain([
            (PLAIN, holder(tenant)),
            (stage_style(tenant.stage), tenant.stage.to_string()),
            (PLAIN, amount),
        ]));
    }
}

fn free(device: &DeviceRow, free: &str, over_by: &str) -> (anstyle::Style, String) {
    if device.is_over() { (BAD, format!("OVER by {over_by}")) } else { (PLAIN, free.to_owned()) }
}

fn holder(tenant: &TenantRow) -> String {
    let floating = if tenant.floating { " (here or on another card)" } else { "" };
    format!("{}/{}{floating}", tenant.namespace, tenant.pod)
}

fn stage_style(stage: TenantStage) -> anstyle::Style {
    match stage {
        TenantStage::Running => GOOD,
        TenantStage::Offered | TenantStage::Queued | TenantStage::Sent | TenantStage::Releasing => {
            ODD
        }
    }
}
