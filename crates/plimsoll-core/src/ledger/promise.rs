//! The promise to a pending request.

use serde::{Deserialize, Serialize};

use crate::charge::Charge;
use crate::fit::Placement;
use crate::request::{NodeNeed, RequestId};
use crate::units::Millis;

/// Memory and node resources that are earmarked for a pending request: they are being released, or
/// their holders are retired. They are not granted before they are free, but nothing else may take
/// them (`DeviceRoom::open`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    pub placement: Placement,
    pub charges: Vec<Charge>,
    #[serde(default)]
    pub resources: NodeNeed,
    /// The holders whose release it waits for.
    pub after: Vec<RequestId>,
    /// Those of them that are retired for it (`evict::plan_retirement`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<RequestId>,
    /// The time at which it was made. The bound on the wait counts from here (`evict::retire`).
    #[serde(default)]
    pub made: Millis,
}
