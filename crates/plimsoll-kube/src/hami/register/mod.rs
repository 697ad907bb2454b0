//! The devices that a node's register annotations list.
//!
//! HAMi has written two formats: JSON, and before that comma-separated fields with a colon after
//! each device. Both are read for every vendor. The memory may have been scaled up by the operator,
//! which cannot be seen here.

mod error;
mod wire;

pub use error::RegisterError;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::object::{NoLists, nullable};
use crate::quantity::quoted;

use wire::{MetaxDevice, ScoreRow, WireDevice};

/// Node annotation: connection scores of NVIDIA devices.
pub const SCORE: &str = "hami.io/node-nvidia-score";

/// Node annotation: devices that accept no new work.
pub const CORDON: &str = "hami.io/device-cordon";

/// A device as a register lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegisteredDevice {
    /// The UUID, or a generated id for vendors without UUIDs.
    pub id: String,
    /// The ordinal on the node.
    pub index: u32,
    /// The maximum number of tenants.
    pub slots: u64,
    /// `None` if the register does not say. Registers write 0 for unknown.
    pub memory_mib: Option<u64>,
    /// Compute, in the vendor's unit; `None` if the register does not say.
    pub cores: Option<u64>,
    pub model: String,
    pub numa: Option<u32>,
    /// The physical card of a die, where the plugin hands out dies.
    pub board: Option<String>,
    /// The sharing mode, such as `hami-core` or `mig`.
    pub mode: Option<String>,
    pub mig_profiles: Vec<MigProfile>,
    pub healthy: bool,
}

/// A MIG profile of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MigProfile {
    /// The name, such as `1g.5gb`.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(rename = "memoryMB", deserialize_with = "nullable")]
    pub memory_mib: u64,
    /// Compute, in hundredths of the device.
    #[serde(deserialize_with = "nullable")]
    pub core: u64,
    #[serde(deserialize_with = "nullable")]
    pub slice_count: u32,
    #[serde(deserialize_with = "nullable")]
    pub placements: Vec<Placement>,
}

/// The position of a MIG instance on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct Placement {
    #[serde(deserialize_with = "nullable")]
    pub start: u32,
    /// The number of slices.
    #[serde(deserialize_with = "nullable")]
    pub size: u32,
}

/// Parses a register annotation, in either format.
pub fn decode(text: &str) -> Result<Vec<RegisteredDevice>, RegisterError> {
    let trimmed = text.trim();
    let devices = if trimmed.starts_with('[') || trimmed == "null" {
        let devices: Option<Vec<WireDevice>> = json(trimmed)?;
        devices.unwrap_or_default().into_iter().map(RegisteredDevice::from).collect()
    } else {
        decode_commas(text)?
    };
    checked(devices)
}

/// Parses Metax' own annotation, whose sizes are MiB too.
pub fn decode_metax_sgpu(text: &str) -> Result<Vec<RegisteredDevice>, RegisterError> {
    let devices: Option<Vec<MetaxDevice>> = json(text.trim())?;
    checked(
        devices
            .unwrap_or_default()
            .into_iter()
            .zip(0..)
            .map(|(device, index)| device.at(index))
            .collect(),
    )
}

/// Parses the connection scores of device pairs; a higher score is better.
pub fn decode_score(text: &str) -> Result<BTreeMap<String, BTreeMap<String, i64>>, RegisterError> {
    let rows: Option<Vec<ScoreRow>> = json(text.trim())?;
    let mut scores = BTreeMap::new();
    for row in rows.unwrap_or_default() {
        if scores.insert(row.uuid.clone(), row.score).is_some() {
            return Err(RegisterError::Twice { id: quoted(&row.uuid) });
        }
    }
    Ok(scores)
}

/// Parses the list of devices that accept no new work.
pub fn decode_cordon(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

/// Formats devices as comma-separated fields, nine each.
pub fn encode_commas(devices: &[RegisteredDevice]) -> String {
    let line = |device: &RegisteredDevice| {
        format!(
            "{},{},{},{},{},{},{},{},{}:",
            device.id,
            device.slots,
            device.memory_mib.unwrap_or(0),
            device.cores.unwrap_or(0),
            device.model,
            device.numa.unwrap_or(0),
            device.healthy,
            device.index,
            device.mode.as_deref().unwrap_or_default(),
        )
    };
    devices.iter().map(line).collect()
}

pub(super) fn json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, RegisterError> {
    let mut from = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(NoLists(&mut from)).map_err(|error| {
        RegisterError::Json { path: error.path().to_string(), message: error.inner().to_string() }
    })?;
    from.end().map_err(|error| RegisterError::Json {
        path: "its end".to_owned(),
        message: error.to_string(),
    })?;
    Ok(value)
}

/// Rejects devices without id, and ids that are listed twice.
pub(super) fn checked(
    devices: Vec<RegisteredDevice>,
) -> Result<Vec<RegisteredDevice>, RegisterError> {
    let mut ids = BTreeSet::new();
    for (device, position) in devices.iter().zip(1..) {
        if device.id.trim().is_empty() {
            return Err(RegisterError::NoId { position });
        }
        if !ids.insert(device.id.as_str()) {
            return Err(RegisterError::Twice { id: quoted(&device.id) });
        }
    }
    Ok(devices)
}

fn decode_commas(text: &str) -> Result<Vec<RegisteredDevice>, RegisterError> {
    if !text.contains(':') {
        return Err(RegisterError::MissingSeparator { value: quoted(text) });
    }
    text.split(':').filter(|segment| !segment.trim().is_empty()).map(decode_segment).collect()
}

fn decode_segment(segment: &str) -> Result<RegisteredDevice, RegisterError> {
    let fields: Vec<&str> = segment.split(',').map(str::trim).collect();
    if fields.len() < 2 {
        return Err(RegisterError::Malformed { segment: quoted(segment) });
    }
    let &[id, slots, memory, cores, model, numa, health, ref rest @ ..] = fields.as_slice() else {
        return Err(RegisterError::FieldCount { segment: quoted(segment), count: fields.len() });
    };
    let (index, mode) = match *rest {
        [] => ("0", "hami-core"),
        [index, mode] => (index, mode),
        _ => {
            return Err(RegisterError::FieldCount {
                segment: quoted(segment),
                count: fields.len(),
            });
        }
    };
    let number = |field, value: &str| {
        let expected = "a whole number that is not negative";
        value.parse::<u64>().map_err(|_| wrong(id, field, value, expected))
    };
    let numa_node: i32 = numa.parse().map_err(|_| wrong(id, "numa", numa, "a whole number"))?;
    Ok(RegisteredDevice {
        id: id.to_owned(),
        index: index
            .parse()
            .map_err(|_| wrong(id, "index", index, "a whole number that is not negative"))?,
        slots: number("count", slots)?,
        memory_mib: known(number("devmem", memory)?),
        cores: known(number("devcore", cores)?),
        model: model.to_owned(),
        numa: u32::try_from(numa_node).ok(),
        board: None,
        mode: Some(mode.to_owned()),
        mig_profiles: Vec::new(),
        healthy: go_bool(health).ok_or_else(|| wrong(id, "health", health, "true or false"))?,
    })
}

fn wrong(device: &str, field: &'static str, value: &str, expected: &'static str) -> RegisterError {
    RegisterError::Field { device: quoted(device), field, value: quoted(value), expected }
}

/// Reads 0 as unknown.
fn known(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

/// Parses the words that Go reads as booleans.
pub(super) fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEVEN: &str = "GPU-ebe7,10,7680,100,NVIDIA-Tesla P4,0,true:";

    fn message(text: &str) -> String {
        decode(text).expect_err(text).to_string()
    }

    #[test]
    fn the_comma_form_is_read_as_table_a1_says() {
        for text in ["", ",", "a"] {
            assert!(matches!(decode(text), Err(RegisterError::MissingSeparator { .. })), "{text}");
        }
        for text in [":", "::"] {
            assert_eq!(decode(text), Ok(vec![]), "{text}");
        }
        assert_eq!(decode(",:"), Err(RegisterError::FieldCount { segment: ",".into(), count: 2 }));
        assert_eq!(decode("garbage:"), Err(RegisterError::Malformed { segment: "garbage".into() }));
        assert_eq!(
            decode("a,1,2,3,4:"),
            Err(RegisterError::FieldCount { segment: "a,1,2,3,4".into(), count: 5 })
        );

        let seven = &decode(SEVEN).unwrap()[0];
        let expected = RegisteredDevice {
            id: "GPU-ebe7".into(),
            index: 0,
            slots: 10,
            memory_mib: Some(7680),
            cores: Some(100),
            model: "NVIDIA-Tesla P4".into(),
            numa: Some(0),
            board: None,
            mode: Some("hami-core".into()),
            mig_profiles: vec![],
            healthy: true,
        };
        assert_eq!(*seven, expected);
        let nine = &decode("GPU-ebe7,10,7680,100,NVIDIA-Tesla P4,0,true,1,mig:").unwrap()[0];
        assert_eq!(*nine, RegisteredDevice { index: 1, mode: Some("mig".into()), ..expected });
        assert_eq!(decode("test-0,1,1024,100,DCU,0,true,0,test:").unwrap()[0].model, "DCU");
    }

    #[test]
    fn a_wrong_field_of_table_a1_is_named() {
        for (text, field) in [
            ("a,x,1,1,m,0,true:", "count"),
            ("a,1,x,1,m,0,true:", "devmem"),
            ("a,1,1,x,m,0,true:", "devcore"),
            ("a,1,1,1,m,x,true:", "numa"),
            ("a,1,1,1,m,0,maybe:", "health"),
            ("a,1,1,1,m,0,true,notanint,mode:", "index"),
            ("a,1,1,1,m,0,true,-1,mode:", "index"),
        ] {
            assert!(
                message(text).starts_with(&format!("{field} of device \"a\" is ")),
                "{text}: {}",
                message(text)
            );
        }
        // HAMi takes negative amounts here; a device with less than nothing would hide what others
        // hold.
        assert!(message("a,1,-1,1,m,0,true:").contains("devmem of device \"a\" is \"-1\""));
    }

    #[test]
    fn the_json_form_is_read_with_zeros_left_out() {
        let text = r#"[{"id":"GPU-0","count":10,"devmem":8192,"devcore":100,"type":"NVIDIA-A100","health":true,"mode":"hami-core",
            "customInfo":{"x":1}},
            {"id":"GPU-1","index":1,"count":7,"devmem":40960,"devcore":100,"type":"NVIDIA-A100-SXM4-40GB","numa":1,"mode":"mig",
            "migProfiles":[{"name":"1g.5gb","memoryMB":4864,"core":15,"sliceCount":1,"placements":[{"start":6,"size":1},{"size":1}]}]}]"#;
        let devices = decode(text).unwrap();
        assert_eq!((devices[0].index, devices[0].numa, devices[0].healthy), (0, Some(0), true));
        assert!(!devices[1].healthy);
        let profile = &devices[1].mig_profiles[0];
        assert_eq!(
            (profile.memory_mib, profile.placements[0].start, profile.placements[1].start),
            (4864, 6, 0)
        );
        assert_eq!(decode("null"), Ok(vec![]));
        assert_eq!(decode(" [] "), Ok(vec![]));
    }

    #[test]
    fn a_size_of_zero_is_not_known() {
        assert_eq!(decode(r#"[{"id":"a"},{"id":"b","devmem":0}]"#).unwrap()[1].memory_mib, None);
        assert_eq!(decode("a,1,0,0,m,-1,true:").unwrap()[0].memory_mib, None);
    }

    #[test]
    fn json_that_is_no_register_is_rejected_with_its_path() {
        for (text, part) in [
            (r#"[{"id":"a","devmem":-1}]"#, "[0].devmem"),
            (r#"[{"id":"a"},{"id":"b","count":1.5}]"#, "[1].count"),
            (r#"[{"id":"a"}] x"#, "its end"),
            (r#"[{"id":"a"},{"id":"a"}]"#, "\"a\" is listed twice"),
            (r#"[{"id":"a"},{"devmem":1}]"#, "device 2 has no id"),
            ("[", "JSON"),
        ] {
            assert!(message(text).contains(part), "{text}: {}", message(text));
        }
        assert!(message("a,1,1,1,m,0,true:a,1,1,1,m,0,true:").contains("listed twice"));
    }

    #[test]
    fn other_annotations_of_a_node_are_read() {
        let metax = decode_metax_sgpu(
            r#"[{"uuid":"GPU-x","bdf":"0000","model":"MXC500","totalDevCount":16,"totalCompute":100,"totalVRam":65536,"numa":1,"healthy":true}]"#,
        )
        .unwrap();
        assert_eq!(
            (metax[0].memory_mib, metax[0].slots, metax[0].numa),
            (Some(65536), 16, Some(1))
        );

        let scores = decode_score(
            r#"[{"uuid":"GPU-0","score":{"GPU-1":100}},{"uuid":"GPU-1","score":{"GPU-0":100}}]"#,
        )
        .unwrap();
        assert_eq!(scores["GPU-0"]["GPU-1"], 100);
        assert!(decode_score(r#"[{"uuid":"a"},{"uuid":"a"}]"#).is_err());

        assert_eq!(
            decode_cordon(" GPU-b, GPU-a,,"),
            BTreeSet::from(["GPU-a".into(), "GPU-b".into()])
        );
        assert_eq!(decode_cordon(" "), BTreeSet::new());
    }

    proptest! {
           #[test]
           fn no_text_makes_it_panic(text in "\\PC*") {
               let _ = (decode(&text), decode_metax_sgpu(&text), decode_score(&text), decode_cordon(&text));
           }

           #[test]
           fn nothing_that_looks_like_a_register_makes_it_panic(text in "[-0-9a-z,: ]{0,60}") {
               let _ = decode(&text);
           }

           #[test]
           fn the_comma_form_survives_being_written_and_read(
               id in "[A-Za-z0-9-]{1,20}", slots: u64, memory in 1u64.., cores in 1u64.., model in "[A-Za-z0-9][A-Za-z0-9 -]{0,15}[a-z]",
               numa in 0u32..64, index: u32, healthy: bool,
           ) {
               let device = RegisteredDevice {
                   id, index, slots, memory_mib: Some(memory), cores: Some(cores), model, numa: Some(numa),
    board: None,
                   mode: Some("hami-core".into()), mig_profiles: vec![], healthy,
               };
               prop_assert_eq!(decode(&encode_commas(std::slice::from_ref(&device))), Ok(vec![device]));
           }
       }
}
