//! The running scheduler: the decision thread, batching, the journal, recovery and the clock.

pub mod clock;
pub mod engine;
pub mod recovery;
pub mod replay;
pub mod store;
pub mod worker;
