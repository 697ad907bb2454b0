//! Model serving in front of the core: what models need, what runners report, and who has a place
//! in which slot.
//!
//! Everything here is a function of values: no clock, no file, no network. Modules stand in reading
//! order.

pub mod size;

pub mod template;

pub mod wire;

pub mod runtime;

pub mod told;

pub mod model;

pub mod memory;

pub mod translate;

pub mod proposals;

pub mod launch;

pub mod desk;

pub mod reconcile;

pub mod simulated_runner;
