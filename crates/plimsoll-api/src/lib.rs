//! The JSON that leaves the process: rows of the HTTP API and the output of the offline commands,
//! shared by the server, its clients, `-o json` and OpenAPI.
//!
//! Names are stable. Sizes are bytes, times are RFC 3339 with milliseconds, and an unknown value is
//! null.

mod names;

pub mod time;

pub mod clause;

pub mod verdict;

pub mod lost_by;

pub mod forecast;

pub mod explanation;

pub mod device;

pub mod breach;

pub mod rows;

pub mod offline;
