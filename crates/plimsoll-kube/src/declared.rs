//! The operator's declarations about a node, in Plimsoll's own annotations. They override labels.

use std::collections::BTreeSet;

use plimsoll_core::units::Bytes;
use serde::de::{Deserialize, Deserializer};

use crate::object::Scalar;
use crate::quantity::quoted;

/// Node annotation: the devices of the node, as a JSON list.
pub const DEVICES: &str = "plimsoll.dev/devices";

/// Node annotation: the component that chooses a container's device.
pub const DEVICE_CHOICE: &str = "plimsoll.dev/device-choice";

/// The component that chooses the physical device of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The scheduler: the container gets exactly the booked device.
    Owned,
    /// The device plugin, which does not know bookings.
    Plugin,
}

impl DeviceChoice {
    /// Parses the annotation.
    pub fn parse(text: &str) -> Result<DeviceChoice, DeclaredError> {
        match text {
            "owned" => Ok(DeviceChoice::Owned),
            "plugin" => Ok(DeviceChoice::Plugin),
            other => Err(DeclaredError::Choice { value: quoted(other) }),
        }
    }
}

/// A device as an operator declares it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredDevice {
    pub uuid: Option<String>,
    /// The ordinal on the node; the position in the list if not given.
    pub index: Option<u32>,
    pub model: Option<String>,
    /// HAMi's name of the vendor; NVIDIA if not given.
    #[serde(default = "nvidia")]
    pub vendor: String,
    /// A device without it accepts whole-device requests only.
    pub memory: Option<Size>,
    /// Memory that the driver keeps for itself.
    pub reserve: Option<Size>,
    /// The most that may be booked.
    pub cap: Option<Size>,
    /// Memory in use by processes without a booking.
    pub foreign: Option<Size>,
    /// Compute, in the vendor's unit.
    pub cores: Option<u64>,
    /// The maximum number of tenants.
    pub slots: Option<u64>,
    pub numa: Option<u32>,
    /// The sharing mode, such as `hami-core`, `mps` or `mig`.
    pub mode: Option<String>,
    /// True if not given.
    #[serde(default = "healthy")]
    pub health: bool,
}

fn nvidia() -> String {
    "NVIDIA".to_owned()
}

fn healthy() -> bool {
    true
}

/// An invalid declaration. The caller names its place: the annotation of a node, or a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError {
    #[error("expected a JSON list of devices: {message}")]
    NotAList { message: String },
    #[error("invalid JSON at {path}: {message}")]
    Json { path: String, message: String },
    #[error("declares the UUID \"{uuid}\" twice")]
    UuidTwice { uuid: String },
    #[error("declares the index {index} twice")]
    IndexTwice { index: u32 },
    #[error("device {position}: {field} is {value}, {why}")]
    Impossible { position: usize, field: &'static str, value: String, why: &'static str },
    #[error("is \"{value}\", and must be \"owned\" or \"plugin\"")]
    Choice { value: String },
}

/// Parses the declared devices of a node.
pub fn decode(text: &str) -> Result<Vec<DeclaredDevice>, DeclaredError> {
    let mut from = serde_json::Deserializer::from_str(text);
    let devices: Vec<DeclaredDevice> =
        serde_path_to_error::deserialize(&mut from).map_err(|error| {
            let (path, message) = (error.path().to_string(), error.inner().to_string());
            match path.as_str() {
                "." => DeclaredError::NotAList { message },
                _ => DeclaredError::Json { path, message },
            }
        })?;
    from.end().map_err(|error| DeclaredError::Json {
        path: "its end".to_owned(),
        message: error.to_string(),
    })?;
    check(&devices)?;
    Ok(devices)
}

fn check(devices: &[DeclaredDevice]) -> Result<(), DeclaredError> {
    let mut uuids = BTreeSet::new();
    let mut indices = BTreeSet::new();
    for (position, device) in devices.iter().enumerate() {
        check_sizes(position, device)?;
        if let Some(uuid) = &device.uuid
            && !uuids.insert(uuid)
        {
            return Err(DeclaredError::UuidTwice { uuid: quoted(uuid) });
        }
        let index = device.index.or_else(|| u32::try_from(position).ok());
        if let Some(index) = index
            && !indices.insert(index)
        {
            return Err(DeclaredError::IndexTwice { index });
        }
    }
    Ok(())
}

fn check_sizes(position: usize, device: &DeclaredDevice) -> Result<(), DeclaredError> {
    let impossible =
        |field, value: String, why| DeclaredError::Impossible { position, field, value, why };
    if let Some(uuid) = device.uuid.as_deref().filter(|uuid| uuid.trim().is_empty()) {
        return Err(impossible(
            "uuid",
            format!("\"{}\"", quoted(uuid)),
            "and must not be blank; leave it out",
        ));
    }
    if device.memory == Some(Size(0)) {
        return Err(impossible(
            "memory",
            "0".to_owned(),
            "which no device has; leave it out if it is not known",
        ));
    }
    let Some(memory) = device.memory else {
        let sized = [("reserve", device.reserve), ("cap", device.cap)];
        return match sized.into_iter().find_map(|(field, size)| size.map(|size| (field, size))) {
            Some((field, size)) => {
                Err(impossible(field, size.0.to_string(), "which says nothing without memory"))
            }
            None => Ok(()),
        };
    };
    for (field, size) in [("reserve", device.reserve), ("cap", device.cap)] {
        if let Some(size) = size.filter(|size| *size > memory) {
            return Err(impossible(
                field,
                format!("{} bytes", size.0),
                "more than the memory of the device",
            ));
        }
    }
    Ok(())
}

/// A size in bytes, written as a whole number of bytes or as text with a unit: `"80GiB"`,
/// `"32607Mi"`, `"80GB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// Parses a size with a unit. A number alone could be meant as MiB or as GiB.
    fn parse(text: &str) -> Option<Size> {
        text.ends_with(|c: char| c.is_ascii_alphabetic()).then_some(())?;
        text.parse::<Bytes>().ok().map(|bytes| Size(bytes.get()))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        const EXPECTED: &str = "a whole number of bytes, or text with a unit such as \"80GiB\", \"32607Mi\" or \"80GB\"";
        let scalar = match Scalar::deserialize(from)? {
            Scalar::Unsigned(bytes) => return Ok(Size(bytes)),
            Scalar::Text(text) => match Size::parse(&text) {
                Some(size) => return Ok(size),
                None => Scalar::Text(quoted(&text)),
            },
            other => other,
        };
        Err(scalar.unexpected(&EXPECTED))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(text: &str) -> String {
        decode(text).expect_err(text).to_string()
    }

    #[test]
    fn a_declaration_says_what_it_knows() {
        let text = r#"[{"uuid":"GPU-a","model":"H100","memory":"80GiB","reserve":"500MiB","cap":64424509440,"cores":100,"slots":10,
            "numa":1,"mode":"mps","health":false,"foreign":"1GiB","index":3}, {}]"#;
        let devices = decode(text).unwrap();
        assert_eq!(devices[0].memory, Some(Size(80 << 30)));
        assert_eq!(devices[0].reserve, Some(Size(500 << 20)));
        assert_eq!(devices[0].cap, Some(Size(60 << 30)));
        assert_eq!((devices[0].health, devices[0].vendor.as_str()), (false, "NVIDIA"));
        assert_eq!((devices[1].memory, devices[1].health), (None, true));
        assert_eq!(decode("[]"), Ok(vec![]));
        for (text, bytes) in
            [("10Gi", 10 << 30), ("1.5GiB", 3 << 29), ("80GB", 80_000_000_000), ("7 Mi", 7 << 20)]
        {
            let devices = decode(&format!(r#"[{{"memory":"{text}"}}]"#)).unwrap();
            assert_eq!(devices[0].memory, Some(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_rejected_with_its_place() {
        for (text, part) in [
            (r#"[{"uuid":"a","memroy":1}]"#, "[0].memroy: unknown field `memroy`"),
            (r#"[{"memory":"80 gigs"}]"#, "[0].memory: invalid value: string \"80 gigs\""),
            (r#"[{"memory":"80"}]"#, "[0].memory"),
            (r#"[{"memory":"1.5"}]"#, "[0].memory"),
            (r#"[{"memory":"80gib"}]"#, "[0].memory"),
            (r#"[{"memory":"-1GiB"}]"#, "[0].memory"),
            (r#"[{"memory":-1}]"#, "[0].memory"),
            (r#"[{"memory":1.5}]"#, "[0].memory"),
            (r#"[{"memory":"18446744073709551615TiB"}]"#, "[0].memory"),
            (r#"[{"memory":0}]"#, "device 0: memory is 0"),
            (r#"[{"memory":1,"reserve":2}]"#, "device 0: reserve is 2 bytes, more than the memory"),
            (r#"[{"memory":1,"cap":2}]"#, "device 0: cap is 2 bytes, more than the memory"),
            (r#"[{"cap":2}]"#, "says nothing without memory"),
            (r#"[{"uuid":"a"},{"uuid":"a"}]"#, "declares the UUID \"a\" twice"),
            (r#"[{"index":1},{}]"#, "declares the index 1 twice"),
            (r#"[{"uuid":" "}]"#, "must not be blank"),
            (r#"[] x"#, "its end"),
            ("{}", "expected a JSON list of devices"),
            ("", "expected a JSON list of devices"),
            (r#"[{"uuid":"a""#, "[0]"),
        ] {
            assert!(message(text).contains(part), "{text}: {}", message(text));
        }
    }

    #[test]
    fn the_choice_of_the_device_is_one_of_two() {
        assert_eq!(DeviceChoice::parse("owned"), Ok(DeviceChoice::Owned));
        assert_eq!(DeviceChoice::parse("plugin"), Ok(DeviceChoice::Plugin));
        for text in ["", "Owned", "owned ", "both"] {
            let error = DeviceChoice::parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("is \"{text}\", and must be \"owned\" or \"plugin\""));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = (decode(&text), DeviceChoice::parse(&text), Size::parse(&text));
        }

        #[test]
        fn a_size_survives_being_written_and_read(mib in 1u64..1 << 44) {
            let text = format!(r#"[{{"memory":"{mib}MiB"}},{{"memory":{}}}]"#, mib << 20);
            let devices = decode(&text).unwrap();
            prop_assert_eq!(devices[0].memory, Some(Size(mib << 20)));
            prop_assert_eq!(devices[0].memory, devices[1].memory);
        }
    }
}
