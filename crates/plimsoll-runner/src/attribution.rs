//! Whose the measured memory is: the slots', by their processes, or somebody else's.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_slots::wire::{DeviceStatus, OnDevice, Process};

use super::devices::Devices;
use super::meter::DeviceReading;

/// The processes that each slot has or had.
pub(crate) type Pids = BTreeMap<String, BTreeSet<u32>>;

/// What a device shows, without what the slots use of it. `name_of` names a process.
pub(crate) fn status(
    reading: &DeviceReading,
    pids: &Pids,
    devices: &Devices,
    name_of: impl Fn(u32) -> Option<String>,
) -> DeviceStatus {
    let is_foreign = |pid: &u32| !pids.values().any(|of_slot| of_slot.contains(pid));
    let listed = reading.processes.iter().flatten().filter(|process| is_foreign(&process.pid));
    let mut foreign: Vec<Process> = listed
        .map(|process| Process {
            pid: process.pid,
            name: name_of(process.pid),
            bytes: process.bytes,
        })
        .collect();
    let measured = foreign.iter().filter_map(|process| process.bytes).fold(0, u64::saturating_add);
    foreign.extend(declared(devices.foreign_on(reading.index).saturating_sub(measured)));
    DeviceStatus {
        index: reading.index,
        used: reading.used,
        utilisation: reading.utilisation,
        foreign,
        stale_for: None,
    }
}

/// What is declared as used by others on devices that nothing measures.
pub(crate) fn declared_only(devices: &Devices, measured: &BTreeSet<u16>) -> Vec<DeviceStatus> {
    let unmeasured = (0..).zip(&devices.foreign).filter(|(index, _)| !measured.contains(index));
    let with_use = unmeasured.filter_map(|(index, bytes)| Some((index, declared(*bytes)?)));
    with_use
        .map(|(index, process)| DeviceStatus {
            index,
            used: None,
            utilisation: None,
            foreign: vec![process],
            stale_for: None,
        })
        .collect()
}

/// What the operator says that somebody else uses stands as a process without a number.
fn declared(bytes: u64) -> Option<Process> {
    (bytes > 0).then(|| Process { pid: 0, name: Some("declared".to_owned()), bytes: Some(bytes) })
}

/// What a slot uses: on the devices that list what each process uses, and of those only where it is booked or listed.
pub(crate) fn used(
    readings: &[DeviceReading],
    pids: &BTreeSet<u32>,
    booked: &BTreeSet<u16>,
) -> Vec<OnDevice> {
    let mut used = Vec::new();
    for reading in readings {
        let Some(processes) = reading.attributed() else { continue };
        let own: Vec<u64> = processes
            .iter()
            .filter(|(pid, _)| pids.contains(pid))
            .map(|(_, bytes)| *bytes)
            .collect();
        if booked.contains(&reading.index) || !own.is_empty() {
            let bytes = own.into_iter().fold(0, u64::saturating_add);
            used.push(OnDevice { index: reading.index, bytes });
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ProcessReading;

    fn reading(index: u16, processes: Option<&[(u32, Option<u64>)]>) -> DeviceReading {
        let listed = |list: &[(u32, Option<u64>)]| {
            list.iter().map(|(pid, bytes)| ProcessReading { pid: *pid, bytes: *bytes }).collect()
        };
        DeviceReading {
            index,
            used: Some(100),
            utilisation: None,
            processes: processes.map(listed),
            healthy: None,
        }
    }

    fn devices(foreign: &[u64]) -> Devices {
        Devices { facts: Vec::new(), foreign: foreign.to_vec() }
    }

    #[test]
    fn what_no_slot_accounts_for_is_foreign() {
        let pids = BTreeMap::from([
            ("a".to_owned(), BTreeSet::from([1])),
            ("b".to_owned(), BTreeSet::from([2])),
        ]);
        let listed = reading(0, Some(&[(1, Some(10)), (2, Some(20)), (3, Some(30)), (4, None)]));
        let status = status(&listed, &pids, &devices(&[0]), |pid| Some(format!("p{pid}")));
        let foreign: Vec<(u32, Option<u64>)> =
            status.foreign.iter().map(|p| (p.pid, p.bytes)).collect();
        assert_eq!(foreign, [(3, Some(30)), (4, None)]);
        assert_eq!(status.foreign[0].name.as_deref(), Some("p3"));
    }

    #[test]
    fn declared_use_counts_as_far_as_it_is_not_measured() {
        let bytes = |declared, listed: &[(u32, Option<u64>)]| {
            let status =
                status(&reading(0, Some(listed)), &Pids::new(), &devices(&[declared]), |_| None);
            status.foreign.iter().map(|process| (process.pid, process.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(bytes(50, &[(3, Some(30))]), [(3, Some(30)), (0, Some(20))]);
        assert_eq!(bytes(20, &[(3, Some(30))]), [(3, Some(30))]);
        let rest = declared_only(&devices(&[5, 0, 7]), &BTreeSet::from([0]));
        assert_eq!(
            rest.iter().map(|status| (status.index, status.used)).collect::<Vec<_>>(),
            [(2, None)]
        );
        assert_eq!(rest[0].foreign[0].bytes, Some(7));
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
        let used = used(&readings, &BTreeSet::from([1, 2]), &BTreeSet::from([0, 2, 3, 4]));
        let expected = [(0, 15), (1, 7), (2, 0)].map(|(index, bytes)| OnDevice { index, bytes });
        assert_eq!(used, expected);
    }
}
