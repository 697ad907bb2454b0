//! Kubernetes, live: the client of the API server. The only user of `kube`.
//!
//! The modules are in reading order. Objects are delivered in the types of `plimsoll-kube`, which
//! have only the fields that placement reads, and by the same reader as a file: a live cluster and
//! its dump mean the same.

mod error;

mod access;

mod served;

mod list;

pub mod watch;

mod reviewer;

pub mod manifests;

mod single;

mod election;

mod lease;

mod certificates;

mod secret;

pub mod registration;

pub mod holders;

mod errands;

pub mod guard;

pub use access::{Access, Connection, Place};
pub use error::ClusterError;
pub use list::{Listing, list};
pub use reviewer::ClusterReviewer;
pub use served::Resource;
