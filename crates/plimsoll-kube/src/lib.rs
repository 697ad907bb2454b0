//! What Kubernetes nodes and pods mean to Plimsoll: pure translation, no client.
//!
//! The modules stand in reading order. Up to `kai` they are the *wire layer*: texts and values as Kubernetes, HAMi, KAI
//! and NVIDIA's tools write them, read into plain types of this crate. From `finding` on they say what those texts mean
//! together: [`translate::cluster`] makes nodes, holdings and requests of the core out of objects.
//!
//! Nothing here does I/O, asks a clock or depends on the order of a hash map, and no input makes it panic: what cannot be
//! understood is an error that names field and value.

pub mod quantity;

pub mod object;

pub mod read;

pub mod hami;

pub mod labels;

pub mod declared;

pub mod kai;

pub mod finding;

pub mod cluster;

pub mod translate;

pub mod audit;
