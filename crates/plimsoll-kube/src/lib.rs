//! Kubernetes objects as values of the core: pure translation, no client.
//!
//! The modules are in reading order. Up to `kai` they are the *wire layer*: text as Kubernetes,
//! HAMi, KAI and NVIDIA's tools write it, read into plain types. From `finding` on they interpret
//! it: [`translate::cluster`] makes nodes, holdings and requests of the core. [`live`] follows a
//! cluster that changes.
//!
//! Nothing here does I/O, reads a clock or depends on the order of a hash map, and no input makes
//! it panic: unreadable input is an error that names field and value.

pub mod quantity;

pub mod object;

pub mod read;

pub mod hami;

pub mod plugins;

pub mod labels;

pub mod declared;

pub mod kai;

pub mod line;

pub mod booking;

pub mod finding;

pub mod cluster;

pub mod translate;

pub mod audit;

pub mod live;
