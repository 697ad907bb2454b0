//! The HTTP API: every route once, with what it takes and what it answers.

pub(crate) mod rows;
