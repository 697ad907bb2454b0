//! What a runner may say: nothing that cannot be so, and nothing without bounds. One token must not fill the disk or the memory.

use std::collections::BTreeMap;

use super::files::MOST_FILES;
use super::runners::RunnerError;
use crate::wire::{DeviceFacts, DeviceStatus, Heartbeat, Registration, SlotReport};

/// The most slots that may be charged on one runner, those that it makes up included.
pub(super) const MOST_HELD: usize = 4096;

const MOST_DEVICES: usize = 256;
const MOST_LABELS: usize = 256;
const MOST_SLOTS: usize = 1024;
const MOST_PROCESSES: usize = 4096;
const LONGEST_NAME: usize = 256;
const LONGEST_TEXT: usize = 16 << 10;

type Checked = Result<(), RunnerError>;

/// What a runner says of itself.
pub(super) fn registration(registration: &Registration) -> Checked {
    few("devices", registration.devices.len(), MOST_DEVICES)?;
    few("labels", registration.labels.len(), MOST_LABELS)?;
    short("version", &registration.version, LONGEST_NAME)?;
    for (key, value) in &registration.labels {
        short("labels", key, LONGEST_NAME)?;
        short("labels", value, LONGEST_NAME)?;
    }
    let mut seen = BTreeMap::new();
    for (index, facts) in registration.devices.iter().enumerate() {
        device(index, facts)?;
        if let Some(uuid) = &facts.uuid
            && let Some(other) = seen.insert(uuid.as_str(), index)
        {
            return bad(format!(
                "devices[{index}].uuid is {uuid}, and so is that of devices[{other}]; a device is reported once"
            ));
        }
    }
    Ok(())
}

fn device(index: usize, facts: &DeviceFacts) -> Checked {
    let field = |name: &str| format!("devices[{index}].{name}");
    if let Some(uuid) = &facts.uuid {
        named(&field("uuid"), uuid)?;
    }
    short(&field("kind"), &facts.kind, LONGEST_NAME)?;
    short(&field("model"), facts.model.as_deref().unwrap_or_default(), LONGEST_NAME)?;
    match facts.total.filter(|total| facts.reserve > *total) {
        Some(total) => bad(format!(
            "{} is {}, more than the total of {total}",
            field("reserve"),
            facts.reserve
        )),
        None => Ok(()),
    }
}

/// What a runner says is so now.
pub(super) fn report(beat: &Heartbeat) -> Checked {
    few("files", beat.files.len(), MOST_FILES)?;
    few("slots", beat.slots.len(), MOST_SLOTS)?;
    few("devices", beat.devices.len(), MOST_DEVICES)?;
    for file in &beat.files {
        short("files[].problem", file.problem.as_deref().unwrap_or_default(), LONGEST_TEXT)?;
    }
    beat.slots.iter().try_for_each(slot)?;
    beat.devices.iter().try_for_each(status)
}

fn slot(report: &SlotReport) -> Checked {
    named("slots[].slot", &report.slot)?;
    named("slots[].model", &report.model)?;
    few("slots[].booked", report.booked.len(), MOST_DEVICES)?;
    few("slots[].used", report.used.len(), MOST_DEVICES)?;
    short("slots[].endpoint", report.endpoint.as_deref().unwrap_or_default(), LONGEST_NAME)?;
    short("slots[].reason", report.reason.as_deref().unwrap_or_default(), LONGEST_TEXT)
}

fn status(status: &DeviceStatus) -> Checked {
    few("devices[].foreign", status.foreign.len(), MOST_PROCESSES)?;
    let names = status.foreign.iter().filter_map(|process| process.name.as_ref());
    names.into_iter().try_for_each(|name| short("devices[].foreign[].name", name, LONGEST_TEXT))
}

fn few(field: &str, number: usize, most: usize) -> Checked {
    if number <= most {
        Ok(())
    } else {
        bad(format!("{number} {field} are reported, and at most {most} may be"))
    }
}

fn short(field: &str, text: &str, longest: usize) -> Checked {
    let bytes = text.len();
    if bytes <= longest {
        Ok(())
    } else {
        bad(format!("{field} has {bytes} bytes, and may have {longest}"))
    }
}

/// A name is there, is not too long, and has no blanks.
fn named(field: &str, name: &str) -> Checked {
    let is_odd = name.is_empty()
        || name.len() > LONGEST_NAME
        || name.contains(|c: char| c.is_whitespace() || c.is_control());
    if !is_odd {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    bad(format!("{field} is {shown:?}, and must have 1 to {LONGEST_NAME} bytes without blanks"))
}

fn bad(problem: String) -> Checked {
    Err(RunnerError::BadReport { problem })
}
