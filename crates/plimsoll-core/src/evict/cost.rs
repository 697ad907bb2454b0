//! The cost of victims, and the rules of a search for them.

use super::Plan;
use crate::charge::{Activity, Holding};
use crate::request::RequestId;
use crate::units::{Bytes, Timespan};

/// The cost of evicting a set of holders, compared field by field. Adding a holder never makes a
/// set cheaper; `search` relies on that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// Holders whose work is interrupted, where idle ones go first ([`VictimOrder::IdleFirst`]).
    pub(super) interrupted: u32,
    pub(super) priority: i32,
    pub(super) active: u32,
    pub(super) reload: Timespan,
    pub(super) bytes: Bytes,
    pub(super) count: usize,
    pub(super) names: Vec<RequestId>,
}

impl Cost {
    pub(super) const NONE: Cost = Cost {
        interrupted: 0,
        priority: i32::MIN,
        active: 0,
        reload: Timespan::ZERO,
        bytes: Bytes::ZERO,
        count: 0,
        names: Vec::new(),
    };

    pub(super) fn with(&self, holding: &Holding) -> Cost {
        let priority = if holding.terms.speculative { i32::MIN } else { holding.terms.priority };
        let active = matches!(holding.activity, Activity::Active { .. } | Activity::Unknown);
        let mut names = self.names.clone();
        names.push(holding.request.clone());
        names.sort();
        Cost {
            interrupted: self.interrupted,
            priority: self.priority.max(priority),
            active: self.active + u32::from(active),
            reload: self.reload.plus(holding.terms.reload_cost),
            bytes: self.bytes.plus(holding.bytes().unwrap_or(Bytes::ZERO)),
            count: names.len(),
            names,
        }
    }
}

/// The preference among victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimOrder {
    /// Lowest priority first, then idle before active.
    LowestPriorityFirst,
    /// Idle before active, then lowest priority first: for memory that an account takes back.
    IdleFirst,
}

impl VictimOrder {
    pub(super) fn cost_with(self, so_far: &Cost, holding: &Holding) -> Cost {
        let cost = so_far.with(holding);
        match self {
            VictimOrder::LowestPriorityFirst => cost,
            VictimOrder::IdleFirst => Cost { interrupted: cost.active, ..cost },
        }
    }
}

/// The rules of one search for victims.
pub(super) struct Rules<'r> {
    pub(super) is_evictable: &'r dyn Fn(&Holding) -> bool,
    /// Judges a whole set of victims.
    pub(super) accepts: &'r dyn Fn(&Plan) -> bool,
    pub(super) cost_with: &'r dyn Fn(&Cost, &Holding) -> Cost,
}
