//! Attribution of measured memory to slots and to foreign processes.
//!
//! A device lists PIDs. A PID that belongs or belonged to a slot (`ProcessTable::members`) counts
//! for the slot; every other PID is foreign and is reported with its name and size, because the
//! server must subtract it from the free memory. Members are remembered after their exit, so that
//! memory that a dead process still holds is not reported as foreign and charged twice.
//!
//! A declaration of foreign memory is an estimate of memory that may also be measured. Only
//! the part that exceeds the measured foreign memory is added; the sum of both would count the same
//! bytes twice.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_slots::wire::{DeviceStatus, OnDevice, Process};

use super::devices::Devices;
use super::meter::DeviceReading;

/// PIDs of the processes that each slot has or had.
pub(crate) type SlotPids = BTreeMap<String, BTreeSet<u32>>;

/// Returns the status of a measured device: its total use, and the processes that belong to no
/// slot.
pub(crate) fn device_status(
    reading: &DeviceReading,
    slot_pids: &SlotPids,
    devices: &Devices,
    process_name: impl Fn(u32) -> Option<String>,
) -> DeviceStatus {
    let listed = reading.processes.iter().flatten();
    let mut foreign: Vec<Process> = listed
        .filter(|process| !slot_pids.values().any(|pids| pids.contains(&process.pid)))
        .map(|process| Process {
            pid: Some(process.pid),
            name: process_name(process.pid),
            bytes: process.bytes,
        })
        .collect();
    let measured = foreign.iter().filter_map(|process| process.bytes).fold(0, u64::saturating_add);
    let declared = devices.declared_foreign_on(reading.index);
    foreign.extend(declared_process(declared.saturating_sub(measured)));
    DeviceStatus {
        index: reading.index,
        used: reading.used,
        utilisation: reading.utilisation,
        foreign,
        stale_for: None,
    }
}

/// Returns the statuses of devices that are not measured, but have declared foreign memory.
pub(crate) fn unmeasured_statuses(
    devices: &Devices,
    measured: &BTreeSet<u16>,
) -> Vec<DeviceStatus> {
    let declared = (0..).zip(&devices.declared_foreign);
    declared
        .filter(|(index, _)| !measured.contains(index))
        .filter_map(|(index, bytes)| Some((index, declared_process(*bytes)?)))
        .map(|(index, process)| DeviceStatus {
            index,
            used: None,
            utilisation: None,
            foreign: vec![process],
            stale_for: None,
        })
        .collect()
}

/// Represents declared foreign memory as a process without a PID.
fn declared_process(bytes: u64) -> Option<Process> {
    (bytes > 0).then(|| Process {
        pid: None,
        name: Some("declared".to_owned()),
        bytes: Some(bytes),
    })
}

/// Returns the memory that a slot uses, on the devices that it is placed on or was found on. A
/// device that does not report the bytes of each process is left out: unknown is not 0.
pub(crate) fn slot_usage(
    readings: &[DeviceReading],
    pids: &BTreeSet<u32>,
    placed_on: &BTreeSet<u16>,
) -> Vec<OnDevice> {
    let mut usage = Vec::new();
    for reading in readings {
        let Some(processes) = reading.attributed() else { continue };
        let own = processes.iter().filter(|(pid, _)| pids.contains(pid));
        let own: Vec<u64> = own.map(|(_, bytes)| *bytes).collect();
        if placed_on.contains(&reading.index) || !own.is_empty() {
            let bytes = own.into_iter().fold(0, u64::saturating_add);
            usage.push(OnDevice { index: reading.index, bytes });
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ProcessReading;

    fn reading(index: u16, processes: Option<&[(u32, Option<u64>)]>) -> DeviceReading {
        let listed = processes.map(|list| {
            list.iter().map(|(pid, bytes)| ProcessReading { pid: *pid, bytes: *bytes }).collect()
        });
        DeviceReading {
            index,
            used: Some(100),
            utilisation: None,
            processes: listed,
            healthy: None,
        }
    }

    fn devices(foreign: &[u64]) -> Devices {
        Devices { facts: Vec::new(), declared_foreign: foreign.to_vec() }
    }

    fn sizes(status: &DeviceStatus) -> Vec<(Option<u32>, Option<u64>)> {
        status.foreign.iter().map(|process| (process.pid, process.bytes)).collect()
    }

    #[test]
    fn processes_of_no_slot_are_foreign() {
        let pids = BTreeMap::from([
            ("a".to_owned(), BTreeSet::from([1])),
            ("b".to_owned(), BTreeSet::from([2])),
        ]);
        let listed = reading(0, Some(&[(1, Some(10)), (2, Some(20)), (3, Some(30)), (4, None)]));
        let status = device_status(&listed, &pids, &devices(&[0]), |pid| Some(format!("p{pid}")));
        assert_eq!(sizes(&status), [(Some(3), Some(30)), (Some(4), None)]);
        assert_eq!(status.foreign[0].name.as_deref(), Some("p3"));
    }

    #[test]
    fn declared_memory_counts_as_far_as_it_is_not_measured() {
        let listed = reading(0, Some(&[(3, Some(30))]));
        let status =
            |declared| device_status(&listed, &SlotPids::new(), &devices(&[declared]), |_| None);
        assert_eq!(sizes(&status(50)), [(Some(3), Some(30)), (None, Some(20))]);
        assert_eq!(sizes(&status(20)), [(Some(3), Some(30))]);
        let rest = unmeasured_statuses(&devices(&[5, 0, 7]), &BTreeSet::from([0]));
        let [only] = &rest[..] else { panic!("{rest:?}") };
        assert_eq!((only.index, only.used, sizes(only)), (2, None, vec![(None, Some(7))]));
    }

    #[test]
    fn a_slot_uses_what_its_processes_use() {
        let readings = [
            reading(0, Some(&[(1, Some(10)), (2, Some(5)), (3, Some(1))])),
            reading(1, Some(&[(1, Some(7))])),
            reading(2, Some(&[(3, Some(1))])),
            reading(3, None),
            reading(4, Some(&[(1, None)])),
        ];
        let usage = slot_usage(&readings, &BTreeSet::from([1, 2]), &BTreeSet::from([0, 2, 3, 4]));
        let expected = [(0, 15), (1, 7), (2, 0)].map(|(index, bytes)| OnDevice { index, bytes });
        assert_eq!(usage, expected);
    }
}
