//! The core of Plimsoll: a ledger of device memory, one `fit`, one commit, and decisions that
//! explain themselves.
//!
//! The core is pure. It reads no clock, file or socket, draws no random numbers, and no float
//! decides whether something fits: the same state and the same request give the same answer on
//! every machine. The modules are in reading order; each uses only modules above it (`cargo test -p
//! xtask`).

pub mod units;

pub mod resources;

pub mod rules;

pub mod device;

pub mod request;

pub mod reason;

pub mod charge;

pub mod account;

mod mixer;

pub mod checksum;

pub mod room;

pub mod rejection;

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

pub mod remedy;

pub mod queue;

pub mod event;

pub mod forecast;

pub mod wording;

pub mod scheduler;

pub mod digest;

pub mod snapshot;

pub mod drive;

pub mod front;

pub mod steps;
