//! Missing, unreadable and impossible labels, amounts and taints of a node.

use std::fmt;

use plimsoll_core::units::Name;

use crate::declared::DEVICES;
use crate::hami::capacity::MAX_DEVICES;
use crate::labels::{self, LabelError};
use crate::quantity::QuantityError;

use super::node::or_declare;
use super::{Code, Describe, Severity};

/// A problem of a node's labels, amounts or taints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelProblem {
    CountMissing {
        resource: Name,
        advertised: u64,
    },
    /// Several devices are advertised, which can be shares of one card.
    CardsUncounted {
        resource: Name,
        advertised: u64,
    },
    /// The memory label is missing, or unreadable if there is an error.
    MemoryMissing {
        resource: Name,
        cards: u16,
        error: Option<LabelError>,
    },
    Unreadable(LabelError),
    DeviceCountUnreadable(UnreadableAmount),
    AllocatableUnreadable(UnreadableAmount),
    CountTooLarge {
        resource: Name,
        count: u64,
    },
    TooManyDevices {
        listed: u64,
    },
    /// Under the MIG strategy `single` the cards are not all cut alike.
    MigMixed {
        product: String,
    },
    /// The cards are cut in a way that the labels do not describe.
    CardsCut {
        resource: Name,
    },
    TaintEffectUnknown {
        key: String,
        effect: String,
    },
}

/// An unreadable amount in a node's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableAmount {
    /// `status.capacity` or `status.allocatable`.
    pub field: &'static str,
    pub resource: Name,
    pub error: Box<QuantityError>,
}

impl LabelProblem {
    pub(super) fn closes_node(&self) -> bool {
        !matches!(
            self,
            LabelProblem::MemoryMissing { .. }
                | LabelProblem::CardsUncounted { .. }
                | LabelProblem::TaintEffectUnknown { .. }
        )
    }
}

impl Describe for LabelProblem {
    fn code(&self) -> Code {
        match self {
            LabelProblem::CountMissing { .. } | LabelProblem::CardsUncounted { .. } => {
                Code::CountLabelMissing
            }
            LabelProblem::MemoryMissing { .. } => Code::MemoryLabelMissing,
            LabelProblem::Unreadable(_) => Code::LabelUnreadable,
            LabelProblem::DeviceCountUnreadable(_) | LabelProblem::AllocatableUnreadable(_) => {
                Code::QuantityUnreadable
            }
            LabelProblem::CountTooLarge { .. } | LabelProblem::TooManyDevices { .. } => {
                Code::TooManyDevices
            }
            LabelProblem::MigMixed { .. } | LabelProblem::CardsCut { .. } => Code::MigInvalid,
            LabelProblem::TaintEffectUnknown { .. } => Code::TaintEffectUnknown,
        }
    }

    fn severity(&self) -> Severity {
        match self {
            LabelProblem::Unreadable(_)
            | LabelProblem::DeviceCountUnreadable(_)
            | LabelProblem::AllocatableUnreadable(_)
            | LabelProblem::CountTooLarge { .. }
            | LabelProblem::TooManyDevices { .. } => Severity::Error,
            LabelProblem::CountMissing { .. }
            | LabelProblem::CardsUncounted { .. }
            | LabelProblem::MemoryMissing { .. }
            | LabelProblem::MigMixed { .. }
            | LabelProblem::CardsCut { .. }
            | LabelProblem::TaintEffectUnknown { .. } => Severity::Warning,
        }
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            LabelProblem::CountMissing { advertised, .. }
            | LabelProblem::CardsUncounted { advertised, .. } => {
                vec![("advertised", *advertised)]
            }
            LabelProblem::MemoryMissing { cards, .. } => vec![("cards", u64::from(*cards))],
            LabelProblem::CountTooLarge { count, .. } => vec![("count", *count)],
            LabelProblem::TooManyDevices { listed } => {
                vec![("listed", *listed), ("most", MAX_DEVICES)]
            }
            _ => Vec::new(),
        }
    }

    fn remedy(&self) -> String {
        let remedy = match self {
            LabelProblem::CardsUncounted { resource, .. }
                if !resource.starts_with("nvidia.com/") =>
            {
                return format!("declare the devices of this node in annotation {DEVICES}");
            }
            LabelProblem::CountMissing { .. }
            | LabelProblem::CardsUncounted { .. }
            | LabelProblem::MemoryMissing { .. } => {
                return or_declare("run NVIDIA's GPU feature discovery on this node");
            }
            LabelProblem::Unreadable(_) => return or_declare("correct the label"),
            LabelProblem::DeviceCountUnreadable(_) => {
                return or_declare("restart the device plugin on this node");
            }
            LabelProblem::AllocatableUnreadable(_) => {
                "correct the quantity; until then this node accepts no device requests"
            }
            LabelProblem::CountTooLarge { .. } => "correct the label",
            LabelProblem::TooManyDevices { .. } => "correct what lists the devices of this node",
            LabelProblem::MigMixed { .. } => {
                "cut all cards into instances of one profile, or use the MIG strategy \"mixed\""
            }
            LabelProblem::CardsCut { .. } => {
                return or_declare("correct the MIG layout of this node");
            }
            LabelProblem::TaintEffectUnknown { .. } => {
                "write NoSchedule, NoExecute or PreferNoSchedule"
            }
        };
        remedy.to_owned()
    }
}

impl fmt::Display for LabelProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelProblem::CountMissing { resource, advertised: 0 } => write!(
                out,
                "label {resource}.count is missing, and other labels describe its devices: their \
                 number is unknown"
            ),
            LabelProblem::CountMissing { resource, advertised } => write!(
                out,
                "label {resource}.count is missing: the number of devices is unknown; {advertised} \
                 of {resource} are advertised, which may be shares of fewer cards"
            ),
            LabelProblem::CardsUncounted { resource, advertised } => {
                write!(out, "{advertised} of {resource} are advertised and ")?;
                if resource.starts_with("nvidia.com/") {
                    write!(out, "label {resource}.count is missing")?;
                } else {
                    out.write_str("nothing tells the number of cards")?;
                }
                out.write_str(
                    ": they can be shares of one card, so whole-device requests are placed here \
                     one pod at a time",
                )
            }
            LabelProblem::MemoryMissing { resource, cards, error } => {
                match error {
                    Some(error) => write!(out, "{error}")?,
                    None => write!(out, "label {resource}.memory is missing")?,
                }
                write!(
                    out,
                    ": the memory of {cards} of {resource} is unknown, so they accept whole-device \
                     requests only"
                )
            }
            LabelProblem::Unreadable(error) => write!(out, "{error}"),
            LabelProblem::DeviceCountUnreadable(amount)
            | LabelProblem::AllocatableUnreadable(amount) => write!(out, "{amount}"),
            LabelProblem::CountTooLarge { resource, count } => write!(
                out,
                "label {resource}.count is {count}, and no node has more than {MAX_DEVICES} devices"
            ),
            LabelProblem::TooManyDevices { listed } => {
                write!(out, "{listed} devices are listed, and no node has more than {MAX_DEVICES}")
            }
            LabelProblem::MigMixed { product } => write!(
                out,
                "label {} is {product}: under the MIG strategy \"single\" the cards of this node are \
                 not all cut alike",
                labels::PRODUCT
            ),
            LabelProblem::CardsCut { resource } => write!(
                out,
                "label {resource}.replicas is 0: these cards are cut by MIG in a way that the labels \
                 do not describe"
            ),
            LabelProblem::TaintEffectUnknown { key, effect } => {
                write!(out, "taint {key} has the effect \"{effect}\"; it counts as NoSchedule")
            }
        }
    }
}

impl fmt::Display for UnreadableAmount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}: {}", self.field, self.resource, self.error)
    }
}
