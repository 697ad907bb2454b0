//! Problems of device plugins and drivers: cards under two names, leftovers, and unread registers.

use std::fmt;

use plimsoll_core::units::Name;

use crate::declared::DEVICES;

use super::node::or_declare;
use super::{Code, Describe, Severity};

/// A problem of the plugins and drivers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginProblem {
    /// Two sources list cards of one vendor, and no UUID tells whether they are the same.
    AdvertisedTwice { kind: Name, by: Name },
    /// Another plugin hands out the cards that are known already, by a resource of its own.
    SecondPlugin { kind: Name, resource: Name },
    /// A MIG resource of which nothing can be allocated, as after a new partitioning.
    StaleMig { resource: Name, capacity: u64 },
    /// The node has a register of a name that is not read.
    RegisterUnread { key: Name, has_other_devices: bool },
    /// The node has no known device and advertises a device resource that is not known.
    ResourceUnknown { resource: Name, advertised: u64 },
    /// A register scales the compute of its cards above 100 hundredths.
    CoresScaled { uuid: Name, cores: u64 },
}

impl PluginProblem {
    pub(super) fn closes_node(&self) -> bool {
        match self {
            PluginProblem::AdvertisedTwice { .. }
            | PluginProblem::SecondPlugin { .. }
            | PluginProblem::ResourceUnknown { .. } => true,
            PluginProblem::RegisterUnread { has_other_devices, .. } => !has_other_devices,
            PluginProblem::StaleMig { .. } | PluginProblem::CoresScaled { .. } => false,
        }
    }

    pub(super) fn device(&self) -> Option<Name> {
        match self {
            PluginProblem::CoresScaled { uuid, .. } => Some(uuid.clone()),
            _ => None,
        }
    }
}

impl Describe for PluginProblem {
    fn code(&self) -> Code {
        match self {
            PluginProblem::AdvertisedTwice { .. } | PluginProblem::SecondPlugin { .. } => {
                Code::CardsAdvertisedTwice
            }
            PluginProblem::StaleMig { .. } => Code::MigStale,
            PluginProblem::RegisterUnread { .. } => Code::RegisterUnread,
            PluginProblem::ResourceUnknown { .. } => Code::DeviceResourceUnknown,
            PluginProblem::CoresScaled { .. } => Code::CoresScaled,
        }
    }

    fn severity(&self) -> Severity {
        match self {
            PluginProblem::AdvertisedTwice { .. } | PluginProblem::SecondPlugin { .. } => {
                Severity::Error
            }
            PluginProblem::RegisterUnread { .. } | PluginProblem::ResourceUnknown { .. } => {
                Severity::Warning
            }
            PluginProblem::StaleMig { .. } | PluginProblem::CoresScaled { .. } => Severity::Note,
        }
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            PluginProblem::StaleMig { capacity, .. } => vec![("capacity", *capacity)],
            PluginProblem::CoresScaled { cores, .. } => vec![("cores", *cores)],
            PluginProblem::ResourceUnknown { advertised, .. } => vec![("advertised", *advertised)],
            PluginProblem::AdvertisedTwice { .. }
            | PluginProblem::SecondPlugin { .. }
            | PluginProblem::RegisterUnread { .. } => Vec::new(),
        }
    }

    fn remedy(&self) -> String {
        match self {
            PluginProblem::AdvertisedTwice { .. } => format!(
                "run one of them on this node, or declare the cards with their UUIDs in \
                 annotation {DEVICES}"
            ),
            PluginProblem::SecondPlugin { resource, .. } => {
                format!("remove the plugin of {resource} from this node, or the other one")
            }
            PluginProblem::StaleMig { resource, .. } => {
                format!("restart the kubelet to drop {resource}, or ignore it")
            }
            PluginProblem::RegisterUnread { .. } => or_declare("update the device plugin"),
            PluginProblem::ResourceUnknown { .. } => {
                format!("declare the devices of this node in annotation {DEVICES}")
            }
            PluginProblem::CoresScaled { .. } => {
                "none needed: compute is counted as the register states it".to_owned()
            }
        }
    }
}

impl fmt::Display for PluginProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PluginProblem::AdvertisedTwice { kind, by } => write!(
                out,
                "{by} lists cards beside the {kind} devices of this node, and no UUID tells \
                 whether they are the same cards"
            ),
            PluginProblem::SecondPlugin { kind, resource } => write!(
                out,
                "{resource} is advertised beside the {kind} devices of this node: its plugin hands \
                 out the same cards, and nothing shows which"
            ),
            PluginProblem::StaleMig { resource, capacity } => write!(
                out,
                "capacity {resource} is {capacity} and allocatable is 0: left over from an \
                 earlier partitioning; no instance is counted"
            ),
            PluginProblem::RegisterUnread { key, .. } => {
                write!(out, "annotation {key} lists devices in a form that is not read")
            }
            PluginProblem::ResourceUnknown { resource, advertised } => write!(
                out,
                "{advertised} of {resource} are advertised, and nothing tells which devices they are"
            ),
            PluginProblem::CoresScaled { uuid, cores } => {
                write!(out, "the register gives device {uuid} {cores} hundredths of compute")
            }
        }
    }
}
