//! HAMi's scheduling policies for nodes and devices, and the weights of its score.
//!
//! HAMi treats an unknown policy as "not binpack". Here it is an error.

use crate::quantity::quoted;

/// Pod annotation: the policy for nodes.
pub const NODE_POLICY: &str = "hami.io/node-scheduler-policy";

/// Pod annotation: the policy for devices.
pub const DEVICE_POLICY: &str = "hami.io/gpu-scheduler-policy";

/// Pod annotation: the weights of a device's score.
pub const WEIGHTS: &str = "hami.io/device-scoring-weights";

/// The order in which nodes are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePolicy {
    /// Fullest first.
    Binpack,
    /// Emptiest first.
    Spread,
}

/// One criterion for choosing devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DevicePolicy {
    /// Fullest first.
    Binpack,
    /// Emptiest first.
    Spread,
    /// Best connected first.
    TopologyAware,
    /// Unused devices only.
    Mutex,
    /// Devices of one NUMA node.
    Numa,
}

/// The weights of slots, cores and memory in the score of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights {
    pub slot: u32,
    pub core: u32,
    pub memory: u32,
}

/// An invalid policy or weight. The caller names the annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("\"{value}\" is not a policy; use {known}")]
    Unknown { value: String, known: &'static str },
    #[error("\"{part}\" is not a weight; write slot=1,core=1,memory=3")]
    NotAWeight { part: String },
    #[error("\"{name}\" is not a weight; there are slot, core and memory")]
    UnknownWeight { name: String },
    #[error("the weight {name} is \"{value}\", and must be a whole number that is not negative")]
    Number { name: String, value: String },
    #[error("the weight {name} is there twice")]
    Twice { name: String },
    #[error("the weight {name} is missing; slot, core and memory are all needed")]
    Missing { name: &'static str },
    #[error("all weights are 0; at least one must count")]
    AllZero,
}

impl NodePolicy {
    /// Parses a policy for nodes; `None` for blank text.
    pub fn parse(text: &str) -> Result<Option<NodePolicy>, PolicyError> {
        match text.trim() {
            "" => Ok(None),
            "binpack" => Ok(Some(NodePolicy::Binpack)),
            "spread" => Ok(Some(NodePolicy::Spread)),
            other => Err(PolicyError::Unknown { value: quoted(other), known: "binpack or spread" }),
        }
    }
}

impl DevicePolicy {
    /// Parses a list of policies for devices, most important first; empty for blank text.
    pub fn parse_chain(text: &str) -> Result<Vec<DevicePolicy>, PolicyError> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        text.split(',').map(str::trim).map(DevicePolicy::parse).collect()
    }

    fn parse(text: &str) -> Result<DevicePolicy, PolicyError> {
        match text {
            "binpack" => Ok(DevicePolicy::Binpack),
            "spread" => Ok(DevicePolicy::Spread),
            "topology-aware" => Ok(DevicePolicy::TopologyAware),
            "mutex" => Ok(DevicePolicy::Mutex),
            "numa" => Ok(DevicePolicy::Numa),
            other => Err(PolicyError::Unknown {
                value: quoted(other),
                known: "binpack, spread, topology-aware, mutex or numa",
            }),
        }
    }
}

impl Weights {
    /// Parses weights: all three, in any order, at least one of them not zero.
    pub fn parse(text: &str) -> Result<Weights, PolicyError> {
        let (mut slot, mut core, mut memory) = (None, None, None);
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| PolicyError::NotAWeight { part: quoted(part.trim()) })?;
            let (name, value) = (name.trim(), value.trim());
            let place = match name {
                "slot" => &mut slot,
                "core" => &mut core,
                "memory" => &mut memory,
                _ => return Err(PolicyError::UnknownWeight { name: quoted(name) }),
            };
            let number = value
                .parse::<u32>()
                .map_err(|_| PolicyError::Number { name: name.to_owned(), value: quoted(value) })?;
            if place.replace(number).is_some() {
                return Err(PolicyError::Twice { name: name.to_owned() });
            }
        }
        let need = |weight: Option<u32>, name| weight.ok_or(PolicyError::Missing { name });
        let weights = Weights {
            slot: need(slot, "slot")?,
            core: need(core, "core")?,
            memory: need(memory, "memory")?,
        };
        if (weights.slot, weights.core, weights.memory) == (0, 0, 0) {
            return Err(PolicyError::AllZero);
        }
        Ok(weights)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weights_are_read_as_table_a13_says() {
        assert_eq!(
            Weights::parse("slot=1,core=2,memory=3"),
            Ok(Weights { slot: 1, core: 2, memory: 3 })
        );
        assert_eq!(
            Weights::parse(" memory = 3, slot = 1, core = 0 "),
            Ok(Weights { slot: 1, core: 0, memory: 3 })
        );
        let name = |name: &str| name.to_owned();
        for (text, expected) in [
            ("", PolicyError::NotAWeight { part: name("") }),
            ("slot=1,core=2", PolicyError::Missing { name: "memory" }),
            ("slot=1,slot=1,core=2,memory=3", PolicyError::Twice { name: name("slot") }),
            ("slot=1,core=2,memory=3,numa=1", PolicyError::UnknownWeight { name: name("numa") }),
            (
                "slot=1,core=2,memory=x",
                PolicyError::Number { name: name("memory"), value: name("x") },
            ),
            (
                "slot=1,core=2,memory=1.5",
                PolicyError::Number { name: name("memory"), value: name("1.5") },
            ),
            (
                "slot=1,core=-2,memory=3",
                PolicyError::Number { name: name("core"), value: name("-2") },
            ),
            ("slot=0,core=0,memory=0", PolicyError::AllZero),
            ("slot=1,core=2,memory=3,", PolicyError::NotAWeight { part: name("") }),
        ] {
            assert_eq!(Weights::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_policy_that_is_not_known_is_an_error() {
        assert_eq!(NodePolicy::parse("binpack"), Ok(Some(NodePolicy::Binpack)));
        assert_eq!(NodePolicy::parse(" spread "), Ok(Some(NodePolicy::Spread)));
        assert_eq!(NodePolicy::parse(""), Ok(None));
        assert_eq!(
            DevicePolicy::parse_chain("binpack,numa"),
            Ok(vec![DevicePolicy::Binpack, DevicePolicy::Numa])
        );
        assert_eq!(DevicePolicy::parse_chain("mutex"), Ok(vec![DevicePolicy::Mutex]));
        assert_eq!(DevicePolicy::parse_chain(" "), Ok(vec![]));
        for text in ["bin-pack", "Binpack", "topology-aware"] {
            assert!(NodePolicy::parse(text).is_err(), "{text}");
        }
        for text in ["binpack,", "none", "spread binpack"] {
            assert!(DevicePolicy::parse_chain(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = (Weights::parse(&text), NodePolicy::parse(&text), DevicePolicy::parse_chain(&text));
        }
    }
}
