//! A Kubernetes control plane for tests: real programs on the loopback interface.
//!
//! The modules are in reading order. [`programs`] finds etcd, kube-apiserver, kube-scheduler and
//! kubectl, which `cargo run -p xtask -- control-plane` builds. [`control_plane`] starts them.
//! Tests speak to an API server through [`api::Api`], and [`kubelet`] reports for nodes that do
//! not exist.

pub mod programs;

pub mod process;

pub mod gate;

pub mod certificates;

pub mod api;

pub mod client;

pub mod control_plane;

pub mod simulated;

pub mod objects;

pub mod kubelet;
