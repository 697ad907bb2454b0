//! The load line for GPU memory: a pure ledger, one `fit`, one commit, and decisions that explain themselves.
//!
//! Nothing here reads a clock, a file or a socket, nothing draws at random, and no float decides a fit.
//! The modules stand in reading order, and each uses only those above it.

pub mod units;

pub mod rules;

pub mod device;

pub mod request;

pub mod reason;

pub mod charge;

mod mixer;

pub mod room;

pub mod fit;

mod identity;

pub mod ledger;

pub mod draft;

pub mod policy;

pub mod score;

pub mod verdict;

pub mod candidate;

pub mod decide;

pub mod memo;

pub mod gang;

pub mod evict;

pub mod breach;

pub mod summary;

pub mod remedy;

pub mod queue;

pub mod event;

pub mod scheduler;

pub mod digest;

pub mod snapshot;

pub mod drive;

pub mod front;

pub mod steps;
