//! The rows of the HTTP API.

mod activity;
mod decision;
mod event;
mod memory;
mod model;
mod pod;
mod problem;
mod request;
mod reservation;
mod runner;
mod schedulerlog;
mod slot;

pub use crate::time::{Time, time};
pub use activity::{ActivityKind, ActivityRow};
pub use decision::{DecisionRow, EvictionRow, LoadRow, WhatIf, WhatIfRow};
pub use event::{ChangeRow, DecidedRow, EventRow, LaggedRow, ReservationEndedRow, SlotNames};
pub use memory::{EstimatedRow, MeasuredRow, MemoryRow, MemorySource};
pub use model::ModelRow;
pub use pod::{
    HoldersRecordPlace, PendingPodRow, PodDecisionRow, PodName, PodWhatIf, PodWhatIfRow,
    ReleasingRow, WatchRow,
};
pub use problem::ProblemRow;
pub use request::RequestRow;
pub use reservation::{
    QueueRow, QueuedKind, ReservationRow, ReservationStatus, ReserveBody, StatusFilter,
    StatusFilterError,
};
pub use runner::{DrainBody, GpuRow, Intake, RunnerRow, RunnerState, RunnerStatus, Telemetry};
pub use schedulerlog::{
    BindRow, BindStatus, FilterRow, LogStatus, LoggedReservation, ReservationEndRow,
    SchedulerLogRow,
};
pub use slot::{
    EndedRow, EvictionStatusRow, GpuAllocation, GpuShare, LogRow, NotEvictable, SlotRow, SlotStage,
};
