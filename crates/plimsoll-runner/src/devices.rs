//! Devices of the runner, from the driver or from a declaration.

use std::io;
use std::path::{Path, PathBuf};

use plimsoll_kube::declared::{self, DeclaredDevice, DeclaredError};
use plimsoll_slots::wire::{DeviceFacts, FactsSource};
use tracing::warn;

use super::meter::DeviceReading;

/// The devices of the runner, ordered by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    pub(crate) facts: Vec<DeviceFacts>,
    /// Bytes that the operator declares as used by unmanaged processes, by index.
    pub(crate) declared_foreign: Vec<u64>,
}

/// Failure to read a declaration of devices.
#[derive(Debug, thiserror::Error)]
pub enum DevicesError {
    #[error("cannot read the devices in {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} does not declare devices", path.display())]
    Invalid { path: PathBuf, source: DeclarationError },
}

/// Violation of a rule by a declaration.
#[derive(Debug, thiserror::Error)]
pub enum DeclarationError {
    #[error(transparent)]
    Format(#[from] DeclaredError),
    #[error("the indices must be 0, 1, 2 and so on, but {0} is missing")]
    MissingIndex(u32),
    #[error("the list is empty")]
    Empty,
}

impl Devices {
    /// Returns the devices that a driver found.
    pub(crate) fn from_driver(facts: Vec<DeviceFacts>) -> Devices {
        Devices { declared_foreign: vec![0; facts.len()], facts }
    }

    /// Reads the devices that a file declares.
    ///
    /// The format is that of the node annotation `plimsoll.dev/devices`, and its parser is the one
    /// of `plimsoll-kube`: an operator can use one declaration for a Kubernetes node and for a
    /// runner.
    pub(crate) fn from_file(path: &Path) -> Result<Devices, DevicesError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| DevicesError::Read { path: path.to_owned(), source })?;
        parse(&text).map_err(|source| DevicesError::Invalid { path: path.to_owned(), source })
    }

    /// Combines declared devices with those that the driver found. Where both know a device, the
    /// smaller memory and the larger reserve count, so that neither a typing error nor a wrong
    /// assumption overcommits it.
    pub(crate) fn merge_driver_facts(&mut self, found: &[DeviceFacts]) {
        for own in self.facts.iter_mut().filter(|own| own.uuid.is_some()) {
            let Some(other) = found.iter().find(|other| other.uuid == own.uuid) else { continue };
            if let (Some(declared), Some(measured)) = (own.total, other.total)
                && declared != measured
            {
                let uuid = &own.uuid;
                warn!(?uuid, declared, measured, "declared memory differs from the driver's value");
                own.total = Some(declared.min(measured));
            }
            own.reserve = own.reserve.max(other.reserve);
            own.healthy &= other.healthy;
        }
    }

    /// Takes over the health that was measured. Returns true if it changed.
    pub(crate) fn update_health(&mut self, readings: &[DeviceReading]) -> bool {
        let mut has_changed = false;
        for reading in readings {
            let device = self.facts.get_mut(usize::from(reading.index));
            if let (Some(device), Some(healthy)) = (device, reading.healthy)
                && device.healthy != healthy
            {
                device.healthy = healthy;
                has_changed = true;
            }
        }
        has_changed
    }

    /// Returns the UUIDs, by index.
    pub(crate) fn uuids(&self) -> Vec<Option<String>> {
        self.facts.iter().map(|device| device.uuid.clone()).collect()
    }

    /// Returns the bytes that the operator declares as used by unmanaged processes on a device.
    pub(crate) fn declared_foreign_on(&self, index: u16) -> u64 {
        self.declared_foreign.get(usize::from(index)).copied().unwrap_or(0)
    }
}

fn parse(text: &str) -> Result<Devices, DeclarationError> {
    let mut declared: Vec<(u32, DeclaredDevice)> = Vec::new();
    for (position, device) in (0..).zip(declared::decode(text)?) {
        declared.push((device.index.unwrap_or(position), device));
    }
    declared.sort_by_key(|(index, _)| *index);
    let mut devices = Devices::default();
    for (expected, (index, device)) in (0..u32::from(u16::MAX)).zip(declared) {
        if index != expected {
            return Err(DeclarationError::MissingIndex(expected));
        }
        devices.declared_foreign.push(device.foreign.map_or(0, |size| size.0));
        devices.facts.push(facts(device));
    }
    if devices.facts.is_empty() {
        return Err(DeclarationError::Empty);
    }
    Ok(devices)
}

fn facts(device: DeclaredDevice) -> DeviceFacts {
    DeviceFacts {
        uuid: device.uuid,
        kind: device.vendor,
        model: device.model,
        total: device.memory.map(|size| size.0),
        reserve: device.reserve.map_or(0, |size| size.0),
        cap: device.cap.map(|size| size.0),
        numa: device.numa.and_then(|node| u16::try_from(node).ok()),
        healthy: device.health,
        source: FactsSource::Declared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_becomes_facts_ordered_by_index() {
        let devices = parse(
            r#"[{"index":1,"uuid":"GPU-b","memory":"80GiB","reserve":"1GiB","cap":"40GiB",
                 "foreign":"2GiB","vendor":"AMD"},
                {"index":0,"model":"X","health":false,"numa":1}]"#,
        )
        .expect("a valid declaration");
        let [first, second] = &devices.facts[..] else { panic!("{devices:?}") };
        assert_eq!((first.model.as_deref(), first.healthy), (Some("X"), false));
        assert_eq!((first.total, first.numa), (None, Some(1)));
        assert_eq!((second.uuid.as_deref(), second.kind.as_str()), (Some("GPU-b"), "AMD"));
        assert_eq!((second.total, second.cap), (Some(80 << 30), Some(40 << 30)));
        let foreign = [0, 1, 9].map(|index| devices.declared_foreign_on(index));
        assert_eq!(foreign, [0, 2 << 30, 0]);
    }

    #[test]
    fn a_gap_or_an_empty_list_is_an_error() {
        let error = |text: &str| parse(text).expect_err(text).to_string();
        assert!(error(r#"[{"index":1}]"#).contains("0 is missing"));
        assert!(error("[]").contains("empty"));
        assert!(parse("{}").is_err());
    }

    #[test]
    fn of_declared_and_measured_memory_the_smaller_counts() {
        let text = r#"[{"uuid":"a","memory":"80GiB"},{"uuid":"b","memory":"8GiB"}]"#;
        let mut devices = parse(text).expect("a valid declaration");
        let mut found = devices.facts.clone();
        found[0].total = Some(79 << 30);
        found[0].reserve = 5;
        found[1].total = Some(9 << 30);
        found[1].healthy = false;
        devices.merge_driver_facts(&found);
        let [first, second] = &devices.facts[..] else { panic!("{devices:?}") };
        assert_eq!((first.total, first.reserve), (Some(79 << 30), 5));
        assert_eq!((second.total, second.healthy), (Some(8 << 30), false));
    }

    #[test]
    fn a_change_of_health_is_reported_once() {
        let mut devices = parse(r#"[{"uuid":"a"}]"#).expect("a valid declaration");
        let sick = [DeviceReading {
            index: 0,
            used: None,
            utilisation: None,
            processes: None,
            healthy: Some(false),
        }];
        assert!(devices.update_health(&sick));
        assert!(!devices.facts[0].healthy);
        assert!(!devices.update_health(&sick));
    }
}
