//! Model serving in front of the core: what models need, what runners report, and who has a place in which slot.
//!
//! Everything here is a function of values: no clock, no file, no network. Modules stand in reading order.

pub mod wire;
