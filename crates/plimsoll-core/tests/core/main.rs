//! Tests of the core through its public API, in one binary.

mod hami_tables;
mod ledger_model;
mod model;
mod tokens;
