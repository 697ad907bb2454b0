//! What a pod with init containers and sidecars holds at its peak.

use crate::request::Role;
use crate::units::Bytes;

/// The most that a request holds of a device over the lives of its containers:
/// max(init + the sidecars before it, all sidecars + all apps).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    init: Load,
    sidecars: Load,
    apps: Load,
}

/// Memory, compute and slots together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub bytes: Bytes,
    pub cores: u32,
    pub slots: u32,
}

impl Load {
    fn plus(self, other: Load) -> Load {
        Load {
            bytes: self.bytes.plus(other.bytes),
            cores: self.cores.saturating_add(other.cores),
            slots: self.slots.saturating_add(other.slots),
        }
    }

    fn max(self, other: Load) -> Load {
        Load {
            bytes: self.bytes.max(other.bytes),
            cores: self.cores.max(other.cores),
            slots: self.slots.max(other.slots),
        }
    }
}

impl Peak {
    pub(super) fn with(mut self, role: Role, load: Load) -> Peak {
        match role {
            Role::Init => self.init = self.init.max(self.sidecars.plus(load)),
            Role::Sidecar => self.sidecars = self.sidecars.plus(load),
            Role::App => self.apps = self.apps.plus(load),
        }
        self
    }

    pub(super) fn total(self) -> Load {
        self.init.max(self.sidecars.plus(self.apps))
    }
}

/// The peak memory of containers that each hold so much, in the order in which they start.
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
    fn a_peak_is_the_larger_of_init_beside_earlier_sidecars_and_all_that_stay() {
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
