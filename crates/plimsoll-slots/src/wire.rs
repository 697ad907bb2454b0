//! Messages between runners and the server. Sizes are whole bytes; an unknown size is omitted and
//! never sent as 0.
//!
//! ```text
//!  runner                                             server
//!   PUT  /api/v1/runners/{id}            Registration ──▶ Welcome  once, and after a 404
//!   POST /api/v1/runners/{id}/heartbeat  Heartbeat    ──▶ Orders   periodically, and on changes
//!   GET  /api/v1/runners/{id}/work?after=REVISION     ──▶ Orders   when the orders change
//! ```
//!
//! Both sides send their complete state and never a change, so that the next message repairs the
//! loss, delay or duplication of an earlier one. An order is valid until a report fulfils it; a
//! report is repeated until no order mentions its slot. The one exception is the launch of a slot,
//! which is large: the server omits it while the runner reports the slot, because the runner then
//! has it. A protocol of changes was rejected: it needs acknowledgements and a log on both sides,
//! and both must survive restarts.

mod logs;
mod order;
mod report;

pub use logs::{LogAnswer, LogRequest, MAX_LOG_BYTES};
pub use order::{
    Action, Launch, LaunchDevice, Order, Orders, Preload, RuntimeSettings, Start, StartCommand,
    Welcome,
};
pub use report::{
    DeviceFacts, DeviceStatus, FactsSource, FileContent, FileReport, Heartbeat, OnDevice, Process,
    Registration, SlotReport, SlotState,
};
