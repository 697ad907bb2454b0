//! HAMi's annotations on nodes and pods, and its resources.
//!
//! HAMi reads its own annotations leniently: a negative amount lowers what is recorded, and an
//! amount that is not a plain integer makes a request vanish. Here such values are errors. Where
//! this differs from a table of HAMi's own tests, the test names the row.

pub mod vendor;

pub mod register;

pub mod capacity;

pub mod allocated;

pub mod weights;

pub mod selection;

pub mod request;
