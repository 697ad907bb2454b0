//! What HAMi writes on nodes and pods, and what users ask of it.
//!
//! HAMi is lenient where it reads its own annotations: a negative amount lowers what is recorded, an amount that is no plain
//! integer makes a request vanish. Here such values are errors. Where a table of HAMi's own tests differs for that reason,
//! the test here names the row.

pub mod vendor;

pub mod register;

pub mod capacity;

pub mod allocated;

pub mod weights;

pub mod wishes;

pub mod ask;
