//! Which devices the runner has, and who says so.

use std::path::Path;

use anyhow::{Context, Result, bail};
use plimsoll_kube::declared::{self, DeclaredDevice};
use plimsoll_slots::wire::{DeviceFacts, FactsSource};
use tracing::warn;

/// The devices of the runner, in the order of their index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    pub(crate) facts: Vec<DeviceFacts>,
    /// What the operator declares as used by somebody else, by index.
    pub(crate) foreign: Vec<u64>,
}

impl Devices {
    /// Those that a driver found.
    pub(crate) fn found(facts: Vec<DeviceFacts>) -> Devices {
        Devices { foreign: vec![0; facts.len()], facts }
    }

    /// Those that a file declares.
    pub(crate) fn declared(file: &Path) -> Result<Devices> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("could not read the devices in {}", file.display()))?;
        parse(&text).with_context(|| format!("{} does not declare devices", file.display()))
    }

    /// Compares with what a driver found: of two sizes the lesser is the safe one, and a difference is said.
    pub(crate) fn checked_against(mut self, found: &[DeviceFacts]) -> Devices {
        for own in &mut self.facts {
            let Some(other) =
                found.iter().find(|other| own.uuid.is_some() && other.uuid == own.uuid)
            else {
                continue;
            };
            if let (Some(declared), Some(measured)) = (own.total, other.total)
                && declared != measured
            {
                warn!(
                    uuid = own.uuid,
                    declared, measured, "the memory is declared otherwise than the driver says"
                );
                own.total = Some(declared.min(measured));
            }
            own.reserve = own.reserve.max(other.reserve);
            own.healthy &= other.healthy;
        }
        self
    }

    /// The UUIDs, by index.
    pub(crate) fn uuids(&self) -> Vec<Option<String>> {
        self.facts.iter().map(|device| device.uuid.clone()).collect()
    }

    /// What is declared as used by others on the device.
    pub(crate) fn foreign_on(&self, index: u16) -> u64 {
        self.foreign.get(usize::from(index)).copied().unwrap_or(0)
    }
}

fn parse(text: &str) -> Result<Devices> {
    let mut declared: Vec<(u32, DeclaredDevice)> = Vec::new();
    for (position, device) in (0..).zip(declared::decode(text)?) {
        declared.push((device.index.unwrap_or(position), device));
    }
    declared.sort_by_key(|(index, _)| *index);
    let mut devices = Devices::default();
    for (expected, (index, device)) in (0..u32::from(u16::MAX)).zip(declared) {
        if index != expected {
            bail!("the indices must be 0, 1, 2 and so on, and {expected} is missing");
        }
        devices.foreign.push(device.foreign.map_or(0, |size| size.0));
        devices.facts.push(facts(device));
    }
    if devices.facts.is_empty() {
        bail!("the list is empty");
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
    fn a_declaration_becomes_facts_in_the_order_of_the_index() {
        let devices = parse(
            r#"[{"index":1,"uuid":"GPU-b","memory":"80GiB","reserve":"1GiB","cap":"40GiB","foreign":"2GiB","vendor":"AMD"},
                {"index":0,"model":"X","health":false,"numa":1}]"#,
        )
        .expect("it is right");
        assert_eq!(
            (devices.facts[0].model.as_deref(), devices.facts[0].healthy),
            (Some("X"), false)
        );
        assert_eq!((devices.facts[0].total, devices.facts[0].numa), (None, Some(1)));
        assert_eq!(
            (devices.facts[1].uuid.as_deref(), devices.facts[1].kind.as_str()),
            (Some("GPU-b"), "AMD")
        );
        assert_eq!(
            (devices.facts[1].total, devices.facts[1].cap),
            (Some(80 << 30), Some(40 << 30))
        );
        assert_eq!(
            (devices.foreign_on(0), devices.foreign_on(1), devices.foreign_on(9)),
            (0, 2 << 30, 0)
        );
    }

    #[test]
    fn a_gap_or_an_empty_list_is_refused() {
        assert!(parse(r#"[{"index":1}]"#).expect_err("a gap").to_string().contains("0 is missing"));
        assert!(parse("[]").expect_err("empty").to_string().contains("empty"));
        assert!(parse("{}").is_err());
    }

    #[test]
    fn of_a_declared_and_a_measured_size_the_lesser_counts() {
        let declared = parse(r#"[{"uuid":"a","memory":"80GiB"},{"uuid":"b","memory":"8GiB"}]"#)
            .expect("right");
        let mut found = declared.facts.clone();
        found[0].total = Some(79 << 30);
        found[0].reserve = 5;
        found[1].total = Some(9 << 30);
        found[1].healthy = false;
        let checked = declared.checked_against(&found);
        assert_eq!((checked.facts[0].total, checked.facts[0].reserve), (Some(79 << 30), 5));
        assert_eq!((checked.facts[1].total, checked.facts[1].healthy), (Some(8 << 30), false));
    }
}
