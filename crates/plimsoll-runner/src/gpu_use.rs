//! Judges whether a slot uses the GPUs that it is placed on.

use std::collections::BTreeSet;
use std::time::Instant;

use super::attribution::SlotPids;
use super::meter::DeviceReading;

/// The use of a slot's GPUs by the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GpuUse {
    Some,
    None,
    /// A GPU is not measured, or has processes that may be the slot's under another PID.
    Unknown,
}

/// The result of the last measurement of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredGpuUse {
    /// Start of the measurement.
    pub(crate) began: Instant,
    pub(crate) gpu_use: GpuUse,
}

/// Judges the readings of a slot's GPUs.
///
/// A runner in a container can see other PIDs than the driver reports. A process that belongs to
/// no slot may therefore be the model server, and the answer is unknown.
pub(crate) fn judge(
    readings: &[DeviceReading],
    pids: &SlotPids,
    slot: &str,
    placed_on: &BTreeSet<u16>,
) -> GpuUse {
    let is_of = |owner: &str, pid: &u32| pids.get(owner).is_some_and(|pids| pids.contains(pid));
    let mut is_unknown = placed_on.is_empty();
    for index in placed_on {
        let reading = readings.iter().find(|reading| reading.index == *index);
        let Some(processes) = reading.and_then(DeviceReading::attributed) else {
            is_unknown = true;
            continue;
        };
        for (pid, bytes) in processes.iter().filter(|(_, bytes)| *bytes > 0) {
            if is_of(slot, pid) {
                return GpuUse::Some;
            }
            is_unknown |= *bytes > 0 && !pids.keys().any(|owner| is_of(owner, pid));
        }
    }
    if is_unknown { GpuUse::Unknown } else { GpuUse::None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ProcessReading;

    fn reading(index: u16, processes: Option<&[(u32, u64)]>) -> DeviceReading {
        let processes = processes.map(|list| {
            let process =
                |(pid, bytes): &(u32, u64)| ProcessReading { pid: *pid, bytes: Some(*bytes) };
            list.iter().map(process).collect()
        });
        DeviceReading { index, used: None, utilisation: None, processes, healthy: None }
    }

    #[test]
    fn a_slot_without_memory_on_any_of_its_gpus_runs_on_the_cpu() {
        let pids = SlotPids::from([
            ("own".to_owned(), BTreeSet::from([1, 2])),
            ("other".to_owned(), BTreeSet::from([3])),
        ]);
        let judge =
            |readings: &[DeviceReading]| judge(readings, &pids, "own", &BTreeSet::from([0, 1]));
        let (empty, other) = (reading(0, Some(&[])), reading(1, Some(&[(3, 9)])));
        assert_eq!(judge(&[empty.clone(), other.clone()]), GpuUse::None);
        assert_eq!(judge(&[reading(0, Some(&[(2, 0)])), other.clone()]), GpuUse::None);
        assert_eq!(judge(&[reading(0, Some(&[(2, 7)])), other.clone()]), GpuUse::Some);
        assert_eq!(judge(&[reading(0, Some(&[(99, 7)])), other.clone()]), GpuUse::Unknown);
        assert_eq!(judge(&[reading(0, None), other]), GpuUse::Unknown);
        assert_eq!(judge(&[empty]), GpuUse::Unknown);
    }
}
