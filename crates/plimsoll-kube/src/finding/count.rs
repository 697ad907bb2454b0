//! Contradictions between the labels, the capacity and the allocatable amount of a node.

use std::fmt;

use plimsoll_core::units::Name;

use crate::declared::DEVICES;
use crate::labels::Field;

use super::node::or_declare;
use super::{Code, Describe, Severity};

/// A contradiction in the number of a node's devices. `resource` is advertised by its plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountProblem {
    /// On a single card, the replicas label differs from the advertised number.
    Replicas { resource: Name, label: Field<u64>, replicas: u64, advertised: u64 },
    /// The labelled cards and replicas do not make the advertised number.
    Cards { resource: Name, count: u64, label: Field<u64>, replicas: u64, advertised: u64 },
    /// Beside MIG instances, the number of whole cards is unknown.
    WholeCards { resource: Name, count: u64, replicas: u64, advertised: Option<u64> },
    /// Allocatable is below capacity by no whole number of cards.
    Allocatable { resource: Name, capacity: u64, allocatable: u64, tokens_per_card: u64 },
    /// Whole cards are missing from allocatable.
    Unhealthy {
        resource: Name,
        capacity: u64,
        allocatable: u64,
        tokens_per_card: u64,
        missing: u64,
        cards: u64,
    },
    /// Cards of one kind are unhealthy, on a node with several kinds.
    UnhealthyOfKind { kind: Name, missing: u64, devices: u64 },
}

impl CountProblem {
    pub(super) fn closes_node(&self) -> bool {
        !matches!(self, CountProblem::Replicas { .. } | CountProblem::Unhealthy { .. })
    }
}

impl Describe for CountProblem {
    fn code(&self) -> Code {
        match self {
            CountProblem::Replicas { .. } => Code::ReplicasContradict,
            CountProblem::Cards { .. } | CountProblem::WholeCards { .. } => {
                Code::CapacityContradiction
            }
            CountProblem::Allocatable { .. } => Code::AllocatableContradiction,
            CountProblem::Unhealthy { .. } | CountProblem::UnhealthyOfKind { .. } => {
                Code::CardsUnhealthy
            }
        }
    }

    fn severity(&self) -> Severity {
        match self {
            CountProblem::Unhealthy { .. } => Severity::Note,
            _ => Severity::Warning,
        }
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            CountProblem::Replicas { replicas, advertised, .. } => {
                vec![("count", 1), ("replicas", *replicas), ("advertised", *advertised)]
            }
            CountProblem::Cards { count, replicas, advertised, .. } => {
                vec![("count", *count), ("replicas", *replicas), ("advertised", *advertised)]
            }
            CountProblem::WholeCards { count, replicas, advertised, .. } => {
                let advertised = advertised.unwrap_or(0);
                vec![("count", *count), ("replicas", *replicas), ("advertised", advertised)]
            }
            CountProblem::Allocatable { capacity, allocatable, tokens_per_card, .. }
            | CountProblem::Unhealthy { capacity, allocatable, tokens_per_card, .. } => vec![
                ("capacity", *capacity),
                ("allocatable", *allocatable),
                ("tokens_per_card", *tokens_per_card),
            ],
            CountProblem::UnhealthyOfKind { missing, devices, .. } => {
                vec![("missing", *missing), ("devices", *devices)]
            }
        }
    }

    fn remedy(&self) -> String {
        let remedy = match self {
            CountProblem::Replicas { .. } => {
                "restart feature discovery, so that its labels follow the device plugin's \
                 configuration"
            }
            CountProblem::Cards { .. } => return or_declare("use HAMi's register"),
            CountProblem::WholeCards { .. } => {
                return format!("declare the devices of this node in annotation {DEVICES}");
            }
            CountProblem::Allocatable { .. } => {
                "restart the device plugin on this node, and see its log for unhealthy devices"
            }
            CountProblem::Unhealthy { .. } => {
                "see the device plugin's log for the cards that it removed, and repair them"
            }
            CountProblem::UnhealthyOfKind { .. } => {
                return format!(
                    "repair them, or declare the devices with their health in annotation {DEVICES}"
                );
            }
        };
        remedy.to_owned()
    }
}

impl fmt::Display for CountProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CountProblem::Replicas { resource, label, advertised, .. } => write!(
                out,
                "{}, and {advertised} of {resource} are advertised for one card; tokens are not \
                 capacity, so this card still counts once",
                replicas_label(resource, label)
            ),
            CountProblem::Cards { resource, count, label, replicas, advertised } => {
                let cause = match advertised {
                    0 => "the device plugin may not be running",
                    _ => {
                        "cards of different models, which labels cannot describe, are a likely cause"
                    }
                };
                write!(
                    out,
                    "label {resource}.count is {count} and {}, which makes {}, but {advertised} of \
                     {resource} are advertised; {cause}",
                    replicas_label(resource, label),
                    count.saturating_mul(*replicas),
                )
            }
            CountProblem::WholeCards { resource, count, replicas, advertised } => {
                write!(
                    out,
                    "label {resource}.count is {count} with {replicas} replicas each, some of these \
                     cards are cut by MIG, and "
                )?;
                match advertised {
                    Some(number) => write!(out, "{number} of {resource} are advertised")?,
                    None => write!(out, "{resource} is not advertised")?,
                }
                out.write_str(": the number of whole cards is unknown")
            }
            CountProblem::Allocatable { resource, capacity, allocatable, tokens_per_card } => {
                write!(
                    out,
                    "{allocatable} of {capacity} {resource} are allocatable, and the difference is no \
                 whole number of cards of {tokens_per_card} each"
                )
            }
            CountProblem::Unhealthy { resource, capacity, allocatable, missing, cards, .. } => {
                write!(
                    out,
                    "{allocatable} of {capacity} {resource} are allocatable: {missing} of {cards} cards \
                 are unhealthy, and it is unknown which"
                )
            }
            CountProblem::UnhealthyOfKind { kind, missing, devices } => write!(
                out,
                "{missing} of {devices} devices of kind {kind} are unhealthy, and it is unknown which"
            ),
        }
    }
}

fn replicas_label(resource: &str, label: &Field<u64>) -> String {
    match label {
        Some(Ok(replicas)) => format!("label {resource}.replicas is {replicas}"),
        Some(Err(error)) => error.to_string(),
        None => format!("label {resource}.replicas is missing"),
    }
}
