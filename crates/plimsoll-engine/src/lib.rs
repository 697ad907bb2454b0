//! The running scheduler, generic over a front end: decision thread, batching, journal, recovery,
//! clock and replay.
//!
//! ```text
//!  caller ─▶ engine ─▶ Host (front end + core) ─▶ batch ─▶ Journal ─▶ answers, observers, watchers
//!  start  ──▶ recovery: snapshot + records and changes since ──▶ Host
//! ```

pub mod clock;
pub mod engine;
pub mod history;
pub mod journal;
pub mod recovery;
pub mod replay;
pub mod store;
pub mod worker;
