//! The JSON that leaves the process: rows of the HTTP API, shared by the server, its clients and `-o json`.
//!
//! Names are stable. Sizes are bytes, times are RFC 3339 with milliseconds, and an unknown value is null.

pub mod breach;
pub mod device;
pub mod lost_by;
pub mod rows;
pub mod verdict;
