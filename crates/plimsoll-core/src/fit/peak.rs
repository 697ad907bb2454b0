//! The peak of a pod with init containers and sidecars on one device.

use super::Allotment;
use crate::request::Role;
use crate::units::Bytes;

/// The most that a request holds of a device over the lives of its containers:
/// `max(init + sidecars started before it, all sidecars + all apps)`.
///
/// Init containers run one after the other, beside the sidecars that started before them; apps run
/// together, beside all sidecars. The charge is this peak, held for the pod's whole life. Releasing
/// the difference when the init containers end was rejected: a restarted pod runs them again, and
/// by then the memory would belong to another tenant. Summing all containers would be safe too, but
/// it rejects pods that Kubernetes and HAMi accept.
///
/// The three sums are updated by one container at a time in starting order, so that a need is
/// checked in O(1) against the containers before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    init: Load,
    sidecars: Load,
    apps: Load,
}

/// The load of one or several containers on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub bytes: Bytes,
    pub cores: u32,
    pub slots: u32,
    /// The number of containers that want the whole device. Their bytes are unknown if the capacity
    /// is, so that bytes alone cannot show that two of them exclude each other.
    pub wholes: u32,
}

impl Load {
    pub(super) fn from_allotment(allotment: &Allotment) -> Load {
        Load {
            bytes: allotment.bytes.unwrap_or(Bytes::ZERO),
            cores: allotment.cores,
            slots: allotment.slots,
            wholes: u32::from(allotment.whole),
        }
    }

    fn plus(self, other: Load) -> Load {
        Load {
            bytes: self.bytes.plus(other.bytes),
            cores: self.cores.saturating_add(other.cores),
            slots: self.slots.saturating_add(other.slots),
            wholes: self.wholes.saturating_add(other.wholes),
        }
    }

    fn max(self, other: Load) -> Load {
        Load {
            bytes: self.bytes.max(other.bytes),
            cores: self.cores.max(other.cores),
            slots: self.slots.max(other.slots),
            wholes: self.wholes.max(other.wholes),
        }
    }
}

impl Peak {
    /// Adds the next container in starting order.
    pub(super) fn with(mut self, role: Role, load: Load) -> Peak {
        match role {
            Role::Init => self.init = self.init.max(self.sidecars.plus(load)),
            Role::Sidecar => self.sidecars = self.sidecars.plus(load),
            Role::App => self.apps = self.apps.plus(load),
        }
        self
    }

    /// Returns true if all containers run at the same time: none of them is an init container.
    pub(super) fn is_concurrent(self) -> bool {
        self.init == Load::default()
    }

    pub(super) fn total(self) -> Load {
        self.init.max(self.sidecars.plus(self.apps))
    }
}

/// Returns the peak memory of containers, given in the order in which they start.
pub fn peak_bytes(parts: impl IntoIterator<Item = (Role, Bytes)>) -> Bytes {
    let add = |peak: Peak, (role, bytes)| peak.with(role, Load { bytes, ..Load::default() });
    parts.into_iter().fold(Peak::default(), add).total().bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(parts: &[(Role, u64)]) -> Bytes {
        peak_bytes(parts.iter().map(|(role, mib)| (*role, Bytes::mib(*mib))))
    }

    #[test]
    fn the_peak_is_the_maximum_of_init_with_earlier_sidecars_and_of_apps_with_all_sidecars() {
        use Role::{App, Init, Sidecar};
        assert_eq!(peak(&[]), Bytes::ZERO);
        assert_eq!(peak(&[(Init, 500), (App, 100)]), Bytes::mib(500));
        assert_eq!(peak(&[(App, 100), (App, 200)]), Bytes::mib(300));
        assert_eq!(peak(&[(Init, 100), (App, 200), (App, 300)]), Bytes::mib(500));
        assert_eq!(peak(&[(Init, 100), (Init, 200)]), Bytes::mib(200));
        assert_eq!(peak(&[(Sidecar, 20_000), (App, 20_000)]), Bytes::mib(40_000));
        assert_eq!(peak(&[(Init, 300), (Sidecar, 100), (Init, 250), (App, 50)]), Bytes::mib(350));
        assert_eq!(peak(&[(Init, 30_000), (App, 20_000)]), Bytes::mib(30_000));
    }
}
