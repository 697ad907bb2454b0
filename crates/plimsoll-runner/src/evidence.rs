//! Whether a device shows that the memory of a slot is back: the only thing that ends a slot where something measures.
//!
//! There is no time after which memory counts as back. A device that never shows it keeps its slot in `stopping`, with the reason.

use std::collections::BTreeSet;
use std::fmt;

use plimsoll_core::units::Bytes;

use super::meter::DeviceReading;

/// What drivers keep in small pieces for nobody in particular; less than any model server takes.
pub(crate) const SLACK: u64 = 32 << 20;

/// What surrounds the memory that should be back on one device.
#[derive(Clone, Debug)]
pub(crate) struct Around<'a> {
    /// What the device shows, measured after the last process of the slot was gone.
    pub(crate) reading: &'a DeviceReading,
    /// The processes that the slot had.
    pub(crate) pids: &'a BTreeSet<u32>,
    /// What no process accounted for before the slot went, where that was measured.
    pub(crate) unexplained_before: Option<u64>,
    /// What was in use when no slot was on the device, where that was measured.
    pub(crate) idle: Option<u64>,
    /// What the operator declares as used by others.
    pub(crate) declared: u64,
    /// What the other slots of the device were booked for.
    pub(crate) others: u64,
}

/// Why memory is not shown to be back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotBack {
    /// The device still lists one of the slot's processes.
    Listed { index: u16, pid: u32 },
    /// More is in use than what else is there explains.
    Unexplained { index: u16, used: u64, explained: u64 },
}

impl fmt::Display for NotBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotBack::Listed { index, pid } => {
                write!(f, "device {index} still lists its process {pid}, which is gone")
            }
            NotBack::Unexplained { index, used, explained } => write!(
                f,
                "its processes are gone, and device {index} has {} in use, of which {} is explained without it",
                Bytes::new(*used),
                Bytes::new(*explained)
            ),
        }
    }
}

/// Judges one device.
pub(crate) fn is_back(around: &Around<'_>) -> Result<(), NotBack> {
    let reading = around.reading;
    let index = reading.index;
    let mut listed = reading.processes.iter().flatten().map(|process| process.pid);
    if let Some(pid) = listed.find(|pid| around.pids.contains(pid)) {
        return Err(NotBack::Listed { index, pid });
    }
    // Without the sum, the list of processes is what the device shows.
    let Some(used) = reading.used else { return Ok(()) };
    let explained = match reading.unexplained() {
        Some(unexplained) => {
            let before = around
                .unexplained_before
                .unwrap_or_else(|| around.declared.max(around.idle.unwrap_or(0)));
            (used - unexplained).saturating_add(before)
        }
        None => around.others.saturating_add(around.declared.max(around.idle.unwrap_or(0))),
    };
    if used <= explained.saturating_add(SLACK) {
        Ok(())
    } else {
        Err(NotBack::Unexplained { index, used, explained })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ProcessReading;

    const GIB: u64 = 1 << 30;

    fn reading(used: Option<u64>, processes: Option<&[(u32, u64)]>) -> DeviceReading {
        let listed = |list: &[(u32, u64)]| {
            list.iter()
                .map(|(pid, bytes)| ProcessReading { pid: *pid, bytes: Some(*bytes) })
                .collect()
        };
        DeviceReading {
            index: 0,
            used,
            utilisation: None,
            processes: processes.map(listed),
            healthy: None,
        }
    }

    fn judge(
        reading: &DeviceReading,
        before: Option<u64>,
        idle: Option<u64>,
        others: u64,
    ) -> Result<(), NotBack> {
        let pids = BTreeSet::from([7]);
        is_back(&Around {
            reading,
            pids: &pids,
            unexplained_before: before,
            idle,
            declared: 0,
            others,
        })
    }

    #[test]
    fn a_process_that_is_still_listed_holds_its_memory() {
        let listed = reading(Some(20 * GIB), Some(&[(7, 10 * GIB), (8, 10 * GIB)]));
        assert_eq!(judge(&listed, Some(0), None, 0), Err(NotBack::Listed { index: 0, pid: 7 }));
        let unsized_ = reading(None, Some(&[(7, 0)]));
        assert_eq!(judge(&unsized_, None, None, 0), Err(NotBack::Listed { index: 0, pid: 7 }));
    }

    #[test]
    fn memory_that_nobody_accounts_for_is_not_back() {
        let gone = reading(Some(20 * GIB), Some(&[(8, 10 * GIB)]));
        let expected = NotBack::Unexplained { index: 0, used: 20 * GIB, explained: 11 * GIB };
        assert_eq!(judge(&gone, Some(GIB), None, 0), Err(expected));
        assert_eq!(
            judge(&reading(Some(11 * GIB), Some(&[(8, 10 * GIB)])), Some(GIB), None, 0),
            Ok(())
        );
        assert_eq!(
            judge(&reading(Some(10 * GIB + SLACK), Some(&[(8, 10 * GIB)])), None, None, 0),
            Ok(())
        );
        assert!(
            judge(&reading(Some(10 * GIB + SLACK + 1), Some(&[(8, 10 * GIB)])), None, None, 0)
                .is_err()
        );
    }

    #[test]
    fn another_that_gives_memory_back_is_no_evidence_for_this_one() {
        // 7 and 8 held 10 GiB each; 7 is dead and not listed, 8 gave back 9, and the sum fell by 9 only.
        let gone = reading(Some(11 * GIB), Some(&[(8, GIB)]));
        assert!(judge(&gone, Some(0), None, 0).is_err());
    }

    #[test]
    fn without_processes_the_sum_must_be_explained_by_the_others() {
        assert!(judge(&reading(Some(20 * GIB), None), None, Some(GIB), 10 * GIB).is_err());
        assert_eq!(judge(&reading(Some(11 * GIB), None), None, Some(GIB), 10 * GIB), Ok(()));
        assert_eq!(judge(&reading(None, None), None, None, 0), Ok(()));
    }

    #[test]
    fn the_reason_says_what_is_there_and_what_is_explained() {
        let reason =
            NotBack::Unexplained { index: 1, used: 20 * GIB, explained: 11 * GIB }.to_string();
        assert_eq!(
            reason,
            "its processes are gone, and device 1 has 20 GiB in use, of which 11 GiB is explained without it"
        );
    }
}
