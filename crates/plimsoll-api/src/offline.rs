//! The JSON output of the offline commands.

mod audit;
mod chaos;
mod devices;
mod estimate;
mod explain;
mod input;
mod replay;
mod sarif;
mod simulate;

pub use audit::{AuditOutput, FindingRow, Severity};
pub use chaos::{ChaosFindingRow, ChaosOutput};
pub use devices::{DevicesOutput, PromisedPodRow};
pub use estimate::{DeviceFitRow, EstimateOutput, ModelFileRow};
pub use explain::{ExplainOutput, ExplainStatus};
pub use input::InputRow;
pub use replay::{
    DivergenceRow, RecordedDecisionRow, ReplayOutput, ReplayedDecisionOutput, StateMismatchRow,
    StateSource, digest,
};
pub use sarif::sarif;
pub use simulate::{
    ChargedDeviceRow, ChosenContainerRow, ChosenDevice, ChosenDeviceRow, ChosenDevices,
    NotConsideredRow, PlacementRow, SimulateOutput, UnplacedRow, UnplacedStatus,
};

/// The version of the offline output. It increases when a field is removed or changes its meaning;
/// added fields do not change it.
pub const SCHEMA_VERSION: u32 = 2;
