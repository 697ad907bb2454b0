//! The real binary, as a user runs it: exit codes, JSON, and texts that are compared with stored ones.

mod clients;
mod errors;
mod estimate;
mod golden;
mod incident;
mod output;
mod replay;
mod scenario;
mod tool;
