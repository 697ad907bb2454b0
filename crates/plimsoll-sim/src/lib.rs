//! Scenarios as text, and an independent witness for the core of Plimsoll.
//!
//! A scenario is test, demo and bug report at once ([`scenario`]). The [`witness`] keeps books of its own and objects
//! when the core's differ. Nothing here reads a clock, a file or a socket.

pub mod chaos;
pub mod scenario;
pub mod witness;
