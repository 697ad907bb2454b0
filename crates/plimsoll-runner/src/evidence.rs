//! The rule that decides when the memory of a slot is released.
//!
//! The server gives released memory to the next request, so that a wrong "released" overcommits a
//! device. The exit of a process does not prove anything: drivers free memory later, and a crashed
//! process can leave an allocation behind. The rule therefore asks the device, in a measurement
//! that began after the last process of the slot exited, and looks for memory that nothing else
//! explains:
//!
//! - The meter lists processes with their bytes: no process of the slot is listed, and the bytes
//!   without an owner are not more than before the slot ended (the baseline `unexplained`).
//!   Comparing sums is not enough here, because another process may have freed memory at the same
//!   time.
//! - The meter has only a sum: the sum is not more than what the other slots are charged plus what
//!   was in use without any slot (the baseline `idle`) or is declared as foreign.
//! - The meter does not know the device: the exit of the processes is the only evidence there is.
//!
//! No timeout ever counts as evidence. A slot whose memory never returns stays `stopping` with the
//! reason, and an operator decides.

use std::collections::BTreeSet;
use std::fmt;

use super::meter::DeviceReading;

/// Tolerance for memory that drivers keep in small pieces. Less than any model server allocates.
pub(crate) const DRIVER_SLACK: u64 = 32 << 20;

/// Facts about one device at the time of a measurement, from the view of one slot.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseCheck<'a> {
    /// Measured after the last process of the slot exited.
    pub(crate) reading: &'a DeviceReading,
    /// PIDs of the slot's processes.
    pub(crate) pids: &'a BTreeSet<u32>,
    /// The baseline of memory without an owner, if it was measured.
    pub(crate) baseline_unexplained: Option<u64>,
    /// The baseline of memory in use without any slot, if it was measured.
    pub(crate) baseline_idle: Option<u64>,
    /// Declared as used by unmanaged processes.
    pub(crate) declared_foreign: u64,
    /// Charged to the other slots of the device.
    pub(crate) other_charges: u64,
}

/// Reason why memory does not count as released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotReleased {
    /// The device still lists a process of the slot.
    ProcessListed { index: u16, pid: u32 },
    /// More memory is in use than everything else explains.
    Unexplained { index: u16, used: u64, explained: u64 },
    /// The device was measured before, but is missing from the last measurement.
    NotMeasured { index: u16 },
}

impl fmt::Display for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReleased::ProcessListed { index, pid } => {
                write!(f, "the processes exited, but GPU {index} still lists process {pid}")
            }
            NotReleased::Unexplained { index, used, explained } => {
                let missing = used.saturating_sub(*explained);
                let [used, explained, missing] = in_one_unit([*used, *explained, missing]);
                write!(
                    f,
                    "the processes exited, but GPU {index} still has {used} in use; \
                     other work explains {explained} ({missing} unexplained)"
                )
            }
            NotReleased::NotMeasured { index } => {
                write!(f, "the processes exited, but GPU {index} is no longer measured")
            }
        }
    }
}

/// Formats sizes of one sentence in the same unit, which the smallest of them chooses.
fn in_one_unit(sizes: [u64; 3]) -> [String; 3] {
    let is_large = sizes.iter().filter(|bytes| **bytes > 0).all(|bytes| *bytes >= 1 << 30);
    sizes.map(|bytes| match is_large {
        true => {
            let tenths = (u128::from(bytes) * 10) >> 30;
            format!("{}.{} GiB", tenths / 10, tenths % 10)
        }
        false => format!("{} MiB", bytes >> 20),
    })
}

/// Checks one device.
pub(crate) fn check_released(check: &ReleaseCheck<'_>) -> Result<(), NotReleased> {
    let reading = check.reading;
    let index = reading.index;
    let mut listed = reading.processes.iter().flatten().map(|process| process.pid);
    if let Some(pid) = listed.find(|pid| check.pids.contains(pid)) {
        return Err(NotReleased::ProcessListed { index, pid });
    }
    // Without a sum, the list of processes is all that the device shows.
    let Some(used) = reading.used else { return Ok(()) };
    let without_slots = check.declared_foreign.max(check.baseline_idle.unwrap_or(0));
    let explained = match reading.unexplained() {
        Some(unexplained) => {
            let baseline = check.baseline_unexplained.unwrap_or(without_slots);
            (used - unexplained).saturating_add(baseline)
        }
        None => check.other_charges.saturating_add(without_slots),
    };
    if used <= explained.saturating_add(DRIVER_SLACK) {
        Ok(())
    } else {
        Err(NotReleased::Unexplained { index, used, explained })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ProcessReading;

    const GIB: u64 = 1 << 30;

    fn reading(used: Option<u64>, processes: Option<&[(u32, u64)]>) -> DeviceReading {
        let listed = processes.map(|list| {
            list.iter()
                .map(|(pid, bytes)| ProcessReading { pid: *pid, bytes: Some(*bytes) })
                .collect()
        });
        DeviceReading { index: 0, used, utilisation: None, processes: listed, healthy: None }
    }

    /// Checks the release of a slot whose only process was 7.
    fn check(
        reading: &DeviceReading,
        baseline_unexplained: Option<u64>,
        baseline_idle: Option<u64>,
        other_charges: u64,
    ) -> Result<(), NotReleased> {
        check_released(&ReleaseCheck {
            reading,
            pids: &BTreeSet::from([7]),
            baseline_unexplained,
            baseline_idle,
            declared_foreign: 0,
            other_charges,
        })
    }

    #[test]
    fn a_listed_process_holds_its_memory() {
        let expected = Err(NotReleased::ProcessListed { index: 0, pid: 7 });
        let listed = reading(Some(20 * GIB), Some(&[(7, 10 * GIB), (8, 10 * GIB)]));
        assert_eq!(check(&listed, Some(0), None, 0), expected);
        let without_sum = reading(None, Some(&[(7, 0)]));
        assert_eq!(check(&without_sum, None, None, 0), expected);
    }

    #[test]
    fn memory_without_an_owner_is_not_released() {
        let with_owner: Option<&[(u32, u64)]> = Some(&[(8, 10 * GIB)]);
        let expected = NotReleased::Unexplained { index: 0, used: 20 * GIB, explained: 11 * GIB };
        let held = reading(Some(20 * GIB), with_owner);
        assert_eq!(check(&held, Some(GIB), None, 0), Err(expected));
        let freed = reading(Some(11 * GIB), with_owner);
        assert_eq!(check(&freed, Some(GIB), None, 0), Ok(()));
        let within_slack = reading(Some(10 * GIB + DRIVER_SLACK), with_owner);
        assert_eq!(check(&within_slack, None, None, 0), Ok(()));
        let over_slack = reading(Some(10 * GIB + DRIVER_SLACK + 1), with_owner);
        assert!(check(&over_slack, None, None, 0).is_err());
    }

    #[test]
    fn memory_that_another_process_frees_is_no_evidence() {
        // 7 and 8 held 10 GiB each. 7 exited and is not listed, 8 freed 9 GiB, and the sum fell by
        // 9 GiB only.
        let reading = reading(Some(11 * GIB), Some(&[(8, GIB)]));
        assert!(check(&reading, Some(0), None, 0).is_err());
    }

    #[test]
    fn without_processes_the_other_charges_must_explain_the_sum() {
        assert!(check(&reading(Some(20 * GIB), None), None, Some(GIB), 10 * GIB).is_err());
        assert_eq!(check(&reading(Some(11 * GIB), None), None, Some(GIB), 10 * GIB), Ok(()));
        assert_eq!(check(&reading(None, None), None, None, 0), Ok(()));
    }

    #[test]
    fn the_reason_has_all_sizes_in_one_unit() {
        let reason =
            |used, explained| NotReleased::Unexplained { index: 1, used, explained }.to_string();
        assert_eq!(
            reason(20 * GIB, 11 * GIB + GIB / 2),
            "the processes exited, but GPU 1 still has 20.0 GiB in use; \
             other work explains 11.5 GiB (8.5 GiB unexplained)"
        );
        assert!(reason(20 * GIB, 0).contains("20.0 GiB in use; other work explains 0.0 GiB"));
        assert!(
            reason(2 * GIB, 2 * GIB - (64 << 20))
                .ends_with("2048 MiB in use; other work explains 1984 MiB (64 MiB unexplained)")
        );
    }
}
