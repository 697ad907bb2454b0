//! Problems of a filled ledger: overcommitted devices, and devices without a memory limit.

use std::fmt;

use plimsoll_core::charge::{Booked, Charge, Holding};
use plimsoll_core::units::{Bytes, Name};
use plimsoll_core::wording::SizeFormat;

use super::list::list;
use super::{Code, Describe, Severity};

/// A problem of a ledger that holds all running pods of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerProblem {
    DeviceOverLine {
        usable: Bytes,
        held: Bytes,
        over_by: Bytes,
        tenants: Vec<Tenant>,
        /// Memory in use without a booking.
        foreign: Bytes,
    },
    /// No assignment of the tenants to the node's cards fits.
    NodeOverLine {
        usable: Bytes,
        held: Bytes,
        cards: usize,
        holders: Vec<Name>,
    },
    /// Pods hold more of a named resource than the node has.
    ResourceOverLine {
        resource: Name,
        allocatable: u64,
        used: u64,
        holders: Vec<Name>,
    },
    SlicesOverlap {
        holders: Vec<Name>,
    },
    /// Several pods share cards, and some of them declare no memory.
    MemoryUndeclared {
        cards: UnboundedCards,
        tenants: Vec<Tenant>,
        undeclared: usize,
    },
    /// The ledger's sum is not the sum of its holdings.
    SumsDiffer {
        sum: Bytes,
        holdings: Bytes,
    },
    /// A part of the record of holders cannot be believed.
    RecordDamaged {
        /// The object or file.
        place: String,
        why: String,
    },
}

/// The cards that pods without declared memory share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnboundedCards {
    /// The device of the finding.
    One,
    /// One of this many cards, as the device plugin decides.
    AnyOf(usize),
}

/// A pod on a card, with its charge there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub name: Name,
    pub amount: Booked,
    pub is_releasing: bool,
}

impl Tenant {
    pub(crate) fn new(holding: &Holding, charge: &Charge) -> Tenant {
        Tenant {
            name: holding.request.to_string().into(),
            amount: charge.amount,
            is_releasing: holding.stage.is_releasing(),
        }
    }
}

impl Tenant {
    fn bytes(&self) -> Option<Bytes> {
        match self.amount {
            Booked::Undeclared => None,
            Booked::Whole { bytes } => bytes,
            Booked::Share(bytes) => Some(Bytes::new(bytes.get())),
        }
    }

    /// Formats the tenant with its size in the unit of a row.
    fn show(&self, format: SizeFormat) -> String {
        let amount = match (self.amount, self.bytes()) {
            (_, Some(bytes)) => format.show(bytes),
            (Booked::Whole { .. }, None) => "the whole card".to_owned(),
            (Booked::Share(_) | Booked::Undeclared, None) => "undeclared".to_owned(),
        };
        let releasing = if self.is_releasing { ", being released" } else { "" };
        format!("{} ({amount}{releasing})", self.name)
    }
}

/// Formats tenants in the unit of the largest, for a row without a capacity.
fn show_all(tenants: &[Tenant]) -> Vec<String> {
    let sizes = tenants.iter().filter_map(Tenant::bytes);
    let format = SizeFormat::for_size(sizes.max().unwrap_or_default());
    tenants.iter().map(|tenant| tenant.show(format)).collect()
}

impl Describe for LedgerProblem {
    fn code(&self) -> Code {
        match self {
            LedgerProblem::DeviceOverLine { .. } => Code::DeviceOverLine,
            LedgerProblem::NodeOverLine { .. } => Code::NodeOverLine,
            LedgerProblem::ResourceOverLine { .. } => Code::ResourceOverLine,
            LedgerProblem::SlicesOverlap { .. } => Code::SlicesOverlap,
            LedgerProblem::MemoryUndeclared { .. } => Code::MemoryUndeclared,
            LedgerProblem::SumsDiffer { .. } => Code::LedgerSumsDiffer,
            LedgerProblem::RecordDamaged { .. } => Code::HoldersRecordDamaged,
        }
    }

    fn severity(&self) -> Severity {
        match self {
            LedgerProblem::MemoryUndeclared { .. } | LedgerProblem::ResourceOverLine { .. } => {
                Severity::Warning
            }
            _ => Severity::Error,
        }
    }

    fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            LedgerProblem::DeviceOverLine { usable, held, over_by, .. } => {
                vec![("usable", usable.get()), ("held", held.get()), ("over_by", over_by.get())]
            }
            LedgerProblem::NodeOverLine { usable, held, .. } => {
                vec![("usable", usable.get()), ("held", held.get())]
            }
            LedgerProblem::ResourceOverLine { allocatable, used, .. } => {
                vec![("allocatable", *allocatable), ("used", *used)]
            }
            LedgerProblem::SlicesOverlap { .. } | LedgerProblem::RecordDamaged { .. } => Vec::new(),
            LedgerProblem::MemoryUndeclared { tenants, undeclared, .. } => {
                vec![("tenants", tenants.len() as u64), ("undeclared", *undeclared as u64)]
            }
            LedgerProblem::SumsDiffer { sum, holdings } => {
                vec![("sum", sum.get()), ("holdings", holdings.get())]
            }
        }
    }

    fn remedy(&self) -> String {
        match self {
            LedgerProblem::DeviceOverLine { usable, held, .. } => {
                let format = SizeFormat::for_capacity(*usable, &[*held]);
                format!(
                    "stop or move tenants that hold {} or more; nothing new is placed here until \
                     then",
                    format.show_difference(*held, *usable)
                )
            }
            LedgerProblem::NodeOverLine { .. } => {
                "stop or move tenants until the rest fits the cards one by one".to_owned()
            }
            LedgerProblem::ResourceOverLine { resource, .. } => format!(
                "see why fewer of {resource} are allocatable than when these pods started, such as \
                 unhealthy devices or a changed number of replicas"
            ),
            LedgerProblem::SlicesOverlap { .. } => {
                "restart one of them, so that it gets a slice of its own".to_owned()
            }
            LedgerProblem::MemoryUndeclared { .. } => {
                "declare memory on these pods (annotation gpu-memory, or resource \
                 nvidia.com/gpumem), or give them cards of their own"
                    .to_owned()
            }
            LedgerProblem::SumsDiffer { .. } => {
                "report it, with the output of `plimsoll scenario --from FILE --anonymise`"
                    .to_owned()
            }
            LedgerProblem::RecordDamaged { .. } => {
                "make sure that no container of a deleted pod still runs on the GPU nodes; the \
                 current holders are recorded again, and the next start does not report it"
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for LedgerProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerProblem::DeviceOverLine { usable, held, tenants, foreign, .. } => {
                let format = SizeFormat::for_capacity(*usable, &[*held]);
                let mut words: Vec<String> =
                    tenants.iter().map(|tenant| tenant.show(format)).collect();
                if !foreign.is_zero() {
                    words.push(format!("in use without a booking ({})", format.show(*foreign)));
                }
                let (of, over_by) = (format.show(*usable), format.show_difference(*held, *usable));
                let held = format.show(*held);
                write!(out, "{held} of {of}, over by {over_by}: {}", list(&words))
            }
            LedgerProblem::NodeOverLine { usable, held, cards, holders } => write!(
                out,
                "{held} on {cards} cards of {usable} in all: however the device plugin distributed \
                 them, a card is over its line: {}",
                list(holders)
            ),
            LedgerProblem::ResourceOverLine { resource, allocatable, used, holders } => write!(
                out,
                "pods hold {used} of {resource}, and {allocatable} are allocatable: {}",
                list(holders)
            ),
            LedgerProblem::SlicesOverlap { holders } => {
                write!(out, "tenants are booked to slices that overlap: {}", list(holders))
            }
            LedgerProblem::MemoryUndeclared { cards: UnboundedCards::One, tenants, .. } => {
                write!(
                    out,
                    "shared without a memory limit for each pod: {}",
                    list(&show_all(tenants))
                )
            }
            LedgerProblem::MemoryUndeclared {
                cards: UnboundedCards::AnyOf(cards),
                tenants,
                ..
            } => write!(
                out,
                "on {cards} cards that the device plugin shares without a memory limit for each \
                 pod: {}",
                list(&show_all(tenants))
            ),
            LedgerProblem::SumsDiffer { sum, holdings } => write!(
                out,
                "the ledger's sum is {sum} but its holdings sum to {holdings}: a bug in Plimsoll"
            ),
            LedgerProblem::RecordDamaged { place, why } => write!(
                out,
                "the record of holders in {place} is not used: {why}; a pod that vanished while \
                 Plimsoll did not run may still use a device that counts as free"
            ),
        }
    }
}
