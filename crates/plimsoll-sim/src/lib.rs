//! Simulations, scenarios, chaos and an independent witness, all over the scheduler that the
//! servers run.
//!
//! A [`simulation`] places the pending pods of a cluster and proposes remedies for the rejected
//! ones. A [`scenario`] is a text that serves as test, demo and bug report. The [`witness`] keeps
//! books of its own and objects when the core's differ. Nothing here reads a clock, a file or a
//! socket.

pub mod chaos;
pub mod fixture;
pub mod guarded;
pub mod scenario;
pub mod simulation;
pub mod witness;
