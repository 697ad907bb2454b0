//! The front end for model serving: models and their memory, slots, reservations, runners and the
//! runner protocol.
//!
//! Everything here is a function of values: no clock, no file, no network. The modules are in
//! reading order: each uses only modules above it.

pub mod size;

pub mod lease;

pub mod template;

pub mod wire;

pub mod runtime;

pub mod declaration;

pub mod launch_spec;

pub mod model;

pub mod memory;

pub mod translate;

pub mod proposals;

pub mod launch;

pub mod desk;

mod wording;

pub mod reconcile;

pub mod simulated_runner;
