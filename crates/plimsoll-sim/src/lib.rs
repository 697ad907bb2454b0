//! Simulations, scenarios, chaos, and an independent witness, all over the scheduler that the servers run.
//!
//! A [`simulation`] places the pending pods of a cluster and advises those that are rejected. A [`scenario`] is test,
//! demo and bug report at once. The [`witness`] keeps books of its own and objects when the core's differ. Nothing
//! here reads a clock, a file or a socket.

pub mod chaos;
pub mod fixture;
pub mod scenario;
pub mod simulation;
pub mod witness;
