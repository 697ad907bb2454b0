//! Limits on what a runner may report: nothing contradictory, and nothing without bounds. One
//! leaked runner token must not fill the server's disk or memory.

use std::collections::BTreeMap;

use super::models::MAX_FILES;
use crate::wire::{DeviceFacts, DeviceStatus, Heartbeat, Registration, SlotReport};

/// The most slots that may be charged on one runner, those that it makes up included.
pub(super) const MAX_HELD: usize = 4096;

const MAX_DEVICES: usize = 256;
const MAX_LABELS: usize = 256;
const MAX_SLOTS: usize = 1024;
const MAX_PROCESSES: usize = 4096;
const MAX_NAME_BYTES: usize = 256;
const MAX_TEXT_BYTES: usize = 16 << 10;

/// A report that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportProblem {
    #[error("{count} {field} are reported; the limit is {limit}")]
    TooMany { field: &'static str, count: usize, limit: usize },
    #[error("{field} has {bytes} bytes; the limit is {limit}")]
    TooLong { field: String, bytes: usize, limit: usize },
    #[error("{field} is {shown:?}; it must have 1 to {MAX_NAME_BYTES} bytes without whitespace")]
    InvalidName { field: String, shown: String },
    #[error(
        "devices[{index}].uuid is {uuid}, and so is devices[{other}].uuid; report a device once"
    )]
    DuplicateUuid { index: usize, other: usize, uuid: String },
    #[error("devices[{index}].reserve is {reserve}, more than its total of {total}")]
    ReserveAboveTotal { index: usize, reserve: u64, total: u64 },
    #[error("{new} unknown slots are reported beside {held} known ones; the limit is {MAX_HELD}")]
    TooManyHeld { new: usize, held: usize },
}

type Checked = Result<(), ReportProblem>;

pub(super) fn check_registration(registration: &Registration) -> Checked {
    check_count("devices", registration.devices.len(), MAX_DEVICES)?;
    check_count("labels", registration.labels.len(), MAX_LABELS)?;
    check_length("version", &registration.version, MAX_NAME_BYTES)?;
    for (key, value) in &registration.labels {
        check_length("labels", key, MAX_NAME_BYTES)?;
        check_length("labels", value, MAX_NAME_BYTES)?;
    }
    let mut seen = BTreeMap::new();
    for (index, facts) in registration.devices.iter().enumerate() {
        check_device(index, facts)?;
        if let Some(uuid) = &facts.uuid
            && let Some(other) = seen.insert(uuid.as_str(), index)
        {
            return Err(ReportProblem::DuplicateUuid { index, other, uuid: uuid.clone() });
        }
    }
    Ok(())
}

fn check_device(index: usize, facts: &DeviceFacts) -> Checked {
    if let Some(uuid) = &facts.uuid {
        check_name(&format!("devices[{index}].uuid"), uuid)?;
    }
    check_length(&format!("devices[{index}].kind"), &facts.kind, MAX_NAME_BYTES)?;
    let model = facts.model.as_deref().unwrap_or_default();
    check_length(&format!("devices[{index}].model"), model, MAX_NAME_BYTES)?;
    let reserve = facts.reserve;
    match facts.total.filter(|total| reserve > *total) {
        Some(total) => Err(ReportProblem::ReserveAboveTotal { index, reserve, total }),
        None => Ok(()),
    }
}

pub(super) fn check_heartbeat(beat: &Heartbeat) -> Checked {
    check_count("files", beat.files.len(), MAX_FILES)?;
    check_count("slots", beat.slots.len(), MAX_SLOTS)?;
    check_count("devices", beat.devices.len(), MAX_DEVICES)?;
    for file in &beat.files {
        let problem = file.content.problem().unwrap_or_default();
        check_length("files[].problem", problem, MAX_TEXT_BYTES)?;
    }
    beat.slots.iter().try_for_each(check_slot)?;
    beat.devices.iter().try_for_each(check_status)
}

fn check_slot(report: &SlotReport) -> Checked {
    check_name("slots[].slot", &report.slot)?;
    check_name("slots[].model", &report.model)?;
    check_count("slots[].booked", report.booked.len(), MAX_DEVICES)?;
    check_count("slots[].used", report.used.len(), MAX_DEVICES)?;
    let (endpoint, reason) = (report.endpoint.as_deref(), report.reason.as_deref());
    check_length("slots[].endpoint", endpoint.unwrap_or_default(), MAX_NAME_BYTES)?;
    check_length("slots[].reason", reason.unwrap_or_default(), MAX_TEXT_BYTES)
}

fn check_status(status: &DeviceStatus) -> Checked {
    check_count("devices[].foreign", status.foreign.len(), MAX_PROCESSES)?;
    for process in &status.foreign {
        let name = process.name.as_deref().unwrap_or_default();
        check_length("devices[].foreign[].name", name, MAX_TEXT_BYTES)?;
    }
    Ok(())
}

fn check_count(field: &'static str, count: usize, limit: usize) -> Checked {
    match count <= limit {
        true => Ok(()),
        false => Err(ReportProblem::TooMany { field, count, limit }),
    }
}

fn check_length(field: &str, text: &str, limit: usize) -> Checked {
    let bytes = text.len();
    match bytes <= limit {
        true => Ok(()),
        false => Err(ReportProblem::TooLong { field: field.to_string(), bytes, limit }),
    }
}

fn check_name(field: &str, name: &str) -> Checked {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(is_odd) {
        return Ok(());
    }
    let shown = name.chars().take(40).collect();
    Err(ReportProblem::InvalidName { field: field.to_string(), shown })
}
