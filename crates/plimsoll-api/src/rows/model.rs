//! Declared models as rows.

use plimsoll_slots::model::Declaration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::MemoryRow;

/// A declared model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelRow {
    pub name: String,
    /// The declaration with its defaults filled in. It can be sent back unchanged.
    pub declaration: Declaration,
    /// All slots of the model, ready or not.
    pub slots: usize,
    /// The reservations in these slots.
    pub active_requests: u32,
    /// The latest load time in milliseconds; null before the first load.
    pub load_ms: Option<u64>,
    /// The memory that it needs, for each allowed number of GPUs.
    pub memory: Vec<MemoryRow>,
}
