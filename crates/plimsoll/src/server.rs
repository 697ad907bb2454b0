//! The standalone server: one thread that decides and makes durable, and HTTP around it.
//!
//! ```text
//!  HTTP ──▶ Engine::write ──▶ desk ──▶ batch ──▶ store (durable) ──▶ observers, answers, whoever waits
//!       ──▶ Engine::read  ───────────────────────────────────────▶ what is durable
//! ```

pub(crate) mod api;
pub(crate) mod application;
pub(crate) mod breaches;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod decisions;
pub(crate) mod demo;
pub(crate) mod engine;
pub(crate) mod events;
pub(crate) mod front;
pub(crate) mod guard;
pub(crate) mod life;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod recovery;
#[cfg(test)]
mod rehearsal;
pub(crate) mod schedulerlog;
