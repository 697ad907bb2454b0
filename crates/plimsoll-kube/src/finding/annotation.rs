//! Problems of the annotations on a node: HAMi's registers, and Plimsoll's declarations.

use std::fmt;

use plimsoll_core::units::{Bytes, Name};

use crate::declared::{DEVICE_CHOICE, DEVICES, DeclaredError};
use crate::hami::capacity::DevicesError;
use crate::hami::register::{CORDON, RegisterError, SCORE};
use crate::hami::vendor::VENDORS;
use crate::labels;

use super::node::or_declare;
use super::{Code, Describe, Severity};

/// A problem of a node's annotations. `key` is the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotationProblem {
    RegisterScaled {
        uuid: Name,
        registered: Bytes,
        label: Bytes,
    },
    RegisterUnreadable(DevicesError),
    RegisterMissing {
        resource: Name,
        key: &'static str,
        advertised: u64,
        has_other_devices: bool,
    },
    RegisterEmpty {
        vendor: &'static str,
        key: &'static str,
        advertised: u64,
    },
    /// The register lists more tokens than the node advertises.
    RegisterAboveAdvertised {
        resource: Name,
        key: &'static str,
        registered: u64,
        advertised: u64,
        /// Whole cards that are missing from allocatable, of which it is unknown which they are.
        unhealthy: u64,
        cards: u64,
    },
    MigProfilesUnreadable {
        key: &'static str,
        device: String,
        problem: MigProfileProblem,
    },
    /// One UUID is listed for two vendors.
    DeviceListedTwice {
        uuid: Name,
    },
    /// The cards of a vendor are listed both as whole and as shared.
    CardsListedTwice {
        whole: &'static str,
        shared: &'static str,
    },
    CordonUnknown {
        id: String,
    },
    ScoreUnreadable(RegisterError),
    DeclarationUnreadable(DeclaredError),
    DeclaredVendorUnknown {
        vendor: String,
    },
    DeclarationContradicts {
        resource: Name,
        cards: u64,
        tokens_per_card: u64,
        advertised: u64,
    },
    DeclarationEmpty,
    DeviceChoiceUnreadable(DeclaredError),
}

/// The reason why the MIG profiles of a card cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigProfileProblem {
    NoProfiles,
    Memory { profile: String, mib: u64 },
    Cores { profile: String, cores: u64 },
    Placement { profile: String, start: u32, size: u32 },
}

impl AnnotationProblem {
    pub(super) fn closes_node(&self) -> bool {
        match self {
            AnnotationProblem::RegisterUnreadable(_)
            | AnnotationProblem::RegisterEmpty { .. }
            | AnnotationProblem::DeviceListedTwice { .. }
            | AnnotationProblem::CardsListedTwice { .. }
            | AnnotationProblem::DeclarationUnreadable(_)
            | AnnotationProblem::DeclaredVendorUnknown { .. } => true,
            AnnotationProblem::RegisterMissing { has_other_devices, .. } => !has_other_devices,
            AnnotationProblem::RegisterScaled { .. }
            | AnnotationProblem::RegisterAboveAdvertised { .. }
            | AnnotationProblem::MigProfilesUnreadable { .. }
            | AnnotationProblem::CordonUnknown { .. }
            | AnnotationProblem::ScoreUnreadable(_)
            | AnnotationProblem::DeclarationContradicts { .. }
            | AnnotationProblem::DeclarationEmpty
            | AnnotationProblem::DeviceChoiceUnreadable(_) => false,
        }
    }

    pub(super) fn device(&self) -> Option<Name> {
        match self {
            AnnotationProblem::RegisterScaled { uuid, .. }
            | AnnotationProblem::DeviceListedTwice { uuid } => Some(uuid.clone()),
            AnnotationProblem::MigProfilesUnreadable { device: id, .. }
            | AnnotationProblem::CordonUnknown { id } => Some(id.as_str().into()),
            _ => None,
        }
    }
}

impl Describe for AnnotationProblem {
    fn code(&self) -> Code {
        match self {
            AnnotationProblem::RegisterScaled { .. } => Code::RegisterScaled,
            AnnotationProblem::RegisterUnreadable(_) => Code::RegisterUnreadable,
            AnnotationProblem::RegisterMissing { .. } => Code::RegisterMissing,
            AnnotationProblem::RegisterEmpty { .. } => Code::RegisterEmpty,
            AnnotationProblem::RegisterAboveAdvertised { .. } => Code::RegisterAboveAdvertised,
            AnnotationProblem::MigProfilesUnreadable { .. } => Code::MigProfilesUnreadable,
            AnnotationProblem::DeviceListedTwice { .. }
            | AnnotationProblem::CardsListedTwice { .. } => Code::DeviceListedTwice,
            AnnotationProblem::CordonUnknown { .. } => Code::CordonUnknown,
            AnnotationProblem::ScoreUnreadable(_) => Code::ScoreUnreadable,
            AnnotationProblem::DeclarationUnreadable(_)
            | AnnotationProblem::DeclaredVendorUnknown { .. } => Code::DeclarationUnreadable,
            AnnotationProblem::DeclarationContradicts { .. } => Code::DeclarationContradicts,
            AnnotationProblem::DeclarationEmpty => Code::DeclarationEmpty,
            AnnotationProblem::DeviceChoiceUnreadable(_) => Code::DeviceChoiceUnreadable,
        }
    }

    fn severity(&self) -> Severity {
        match self {
            AnnotationProblem::RegisterUnreadable(_)
            | AnnotationProblem::DeviceListedTwice { .. }
            | AnnotationProblem::DeclarationUnreadable(_)
            | AnnotationProblem::DeclaredVendorUnknown { .. }
            | AnnotationProblem::DeviceChoiceUnreadable(_) => Severity::Error,
            AnnotationProblem::RegisterScaled { .. }
            | AnnotationProblem::RegisterMissing { .. }
            | AnnotationProblem::RegisterEmpty { .. }
            | AnnotationProblem::RegisterAboveAdvertised { .. }
            | AnnotationProblem::MigProfilesUnreadable { .. }
            | AnnotationProblem::CardsListedTwice { .. }
            | AnnotationProblem::DeclarationContradicts { .. } => Severity::Warning,
            AnnotationProblem::CordonUnknown { .. }
            | AnnotationProblem::ScoreUnreadable(_)
            | AnnotationProblem::DeclarationEmpty => Severity::Note,
        }
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            AnnotationProblem::RegisterScaled { registered, label, .. } => {
                vec![("registered", registered.get()), ("label", label.get())]
            }
            AnnotationProblem::RegisterMissing { advertised, .. }
            | AnnotationProblem::RegisterEmpty { advertised, .. } => {
                vec![("advertised", *advertised)]
            }
            AnnotationProblem::RegisterAboveAdvertised { registered, advertised, .. } => {
                vec![("registered", *registered), ("advertised", *advertised)]
            }
            AnnotationProblem::DeclarationContradicts { cards, advertised, .. } => {
                vec![("declared", *cards), ("advertised", *advertised)]
            }
            _ => Vec::new(),
        }
    }

    fn remedy(&self) -> String {
        let remedy = match self {
            AnnotationProblem::RegisterScaled { .. } => {
                "remove the memory scaling from HAMi's device plugin, or declare the card's real \
                 memory"
            }
            AnnotationProblem::RegisterUnreadable(_) => return or_declare("correct it"),
            AnnotationProblem::RegisterMissing { .. } => {
                return or_declare("run HAMi's device plugin on this node");
            }
            AnnotationProblem::RegisterAboveAdvertised { .. } => {
                "restart HAMi's device plugin on this node, and see its log for unhealthy devices"
            }
            AnnotationProblem::RegisterEmpty { .. } => {
                return or_declare("restart HAMi's device plugin on this node");
            }
            AnnotationProblem::MigProfilesUnreadable { .. } => {
                "update HAMi's device plugin, which lists the profiles of cards in MIG mode"
            }
            AnnotationProblem::DeviceListedTwice { .. } => return or_declare("correct the lists"),
            AnnotationProblem::CardsListedTwice { .. } => {
                return or_declare("hand cards out in one way only");
            }
            AnnotationProblem::CordonUnknown { .. } => {
                "correct the UUID, or remove it from the annotation"
            }
            AnnotationProblem::ScoreUnreadable(_) => "correct the annotation, or remove it",
            AnnotationProblem::DeclarationUnreadable(_) => {
                "correct the annotation; no other source is used for this node until then"
            }
            AnnotationProblem::DeclaredVendorUnknown { .. } => {
                let names: Vec<&str> = VENDORS.iter().map(|vendor| vendor.name).collect();
                return format!("write one of {}, or nvidia.com/mig-<profile>", names.join(", "));
            }
            AnnotationProblem::DeclarationContradicts { .. } => {
                "declare every card of the node; a pod can be given a card that is not declared"
            }
            AnnotationProblem::DeclarationEmpty => "declare devices, or remove the annotation",
            AnnotationProblem::DeviceChoiceUnreadable(_) => "write \"owned\" or \"plugin\"",
        };
        remedy.to_owned()
    }
}

impl fmt::Display for AnnotationProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnnotationProblem::RegisterScaled { registered, label, .. } => write!(
                out,
                "HAMi's register gives {registered} where label {} says {label}: {label} counts",
                labels::MEMORY
            ),
            AnnotationProblem::RegisterUnreadable(error) => write!(out, "{error}"),
            AnnotationProblem::RegisterMissing { resource, key, advertised, .. } => write!(
                out,
                "{advertised} of {resource} are advertised, and no annotation {key} lists the devices"
            ),
            AnnotationProblem::RegisterEmpty { vendor, key, advertised } => {
                out.write_str(&register_empty(vendor, key, *advertised))
            }
            AnnotationProblem::RegisterAboveAdvertised {
                resource,
                key,
                registered,
                advertised,
                unhealthy,
                cards,
            } => write!(
                out,
                "annotation {key} lists {registered} of {resource}, and {advertised} are \
                 allocatable: no more than that is placed{}",
                unhealthy_text(*unhealthy, *cards)
            ),
            AnnotationProblem::MigProfilesUnreadable { key, device, problem } => {
                write!(out, "annotation {key} {problem}; no slice of {device} is placed")
            }
            AnnotationProblem::DeviceListedTwice { uuid } => {
                out.write_str(&device_listed_twice(uuid))
            }
            AnnotationProblem::CardsListedTwice { whole, shared } => {
                out.write_str(&cards_listed_twice(whole, shared))
            }
            AnnotationProblem::CordonUnknown { id } => {
                write!(out, "annotation {CORDON} names {id}, which is no known device of this node")
            }
            AnnotationProblem::ScoreUnreadable(error) => {
                write!(out, "annotation {SCORE}: {error}; links between cards are not considered")
            }
            AnnotationProblem::DeclarationUnreadable(error) => {
                write!(out, "annotation {DEVICES}: {error}")
            }
            AnnotationProblem::DeclaredVendorUnknown { vendor } => {
                write!(out, "annotation {DEVICES} names the unknown vendor \"{vendor}\"")
            }
            AnnotationProblem::DeclarationContradicts {
                resource,
                cards,
                tokens_per_card,
                advertised,
            } => write!(
                out,
                "annotation {DEVICES} declares {cards} cards, which with {tokens_per_card} tokens \
                 each do not make the {advertised} of {resource} that are advertised"
            ),
            AnnotationProblem::DeclarationEmpty => {
                write!(out, "annotation {DEVICES} declares no device, and changes nothing")
            }
            AnnotationProblem::DeviceChoiceUnreadable(error) => {
                write!(
                    out,
                    "annotation {DEVICE_CHOICE} {error}; it counts as \"plugin\", which promises less"
                )
            }
        }
    }
}

fn register_empty(vendor: &str, key: &str, advertised: u64) -> String {
    format!("annotation {key} lists no device, but {advertised} of {vendor} are advertised")
}

fn device_listed_twice(uuid: &str) -> String {
    format!("device {uuid} is listed for two vendors, so the node's devices cannot be counted")
}

fn cards_listed_twice(whole: &str, shared: &str) -> String {
    format!(
        "cards are listed both as {whole} and as {shared}: it is unknown whether they are the same"
    )
}

impl fmt::Display for MigProfileProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const IMPOSSIBLE: &str = "lists an impossible MIG profile";
        match self {
            MigProfileProblem::NoProfiles => {
                out.write_str("lists no MIG profiles of a card that is in MIG mode")
            }
            MigProfileProblem::Memory { profile, mib } => {
                write!(out, "{IMPOSSIBLE}: memoryMB of {profile} is {mib}")
            }
            MigProfileProblem::Cores { profile, cores } => {
                write!(out, "{IMPOSSIBLE}: core of {profile} is {cores}")
            }
            MigProfileProblem::Placement { profile, start, size } => write!(
                out,
                "{IMPOSSIBLE}: a placement of {profile} starts at {start} with size {size}"
            ),
        }
    }
}

fn unhealthy_text(unhealthy: u64, cards: u64) -> String {
    match unhealthy {
        0 => String::new(),
        _ => format!("; {unhealthy} of {cards} cards are unhealthy, and it is unknown which"),
    }
}
