//! The rows of the HTTP API.

mod decision;
mod memory;
mod model;
mod problem;
mod reservation;
mod runner;
mod schedulerlog;
mod slot;

pub use crate::time::{Time, time};
pub use decision::{DecisionRow, EvictionRow, LoadRow, WhatIf, WhatIfRow};
pub use memory::{EstimatedRow, MeasuredRow, MemoryRow, MemorySource};
pub use model::ModelRow;
pub use problem::ProblemRow;
pub use reservation::{QueueRow, QueuedKind, ReservationRow, ReservationStatus, ReserveBody};
pub use runner::{GpuRow, RunnerRow, RunnerState, RunnerStatus, Telemetry};
pub use schedulerlog::{BindRow, BindStatus, FilterRow, LogStatus, SchedulerLogRow};
pub use slot::{EvictionStatusRow, GpuAllocation, GpuShare, NotEvictable, SlotRow, SlotStage};
