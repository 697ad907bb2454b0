//! The promise to a pending request.

use serde::{Deserialize, Serialize};

use crate::charge::Charge;
use crate::fit::Placement;
use crate::request::{NodeNeed, RequestId};

/// Memory and node resources being released that are earmarked for a pending request. They are not
/// granted before they are free, but nothing else may take them (`DeviceRoom::open`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    pub placement: Placement,
    pub charges: Vec<Charge>,
    #[serde(default)]
    pub resources: NodeNeed,
    /// The holders whose release it waits for.
    pub after: Vec<RequestId>,
}
