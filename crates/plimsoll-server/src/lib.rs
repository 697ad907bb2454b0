//! The standalone server: one thread that decides and makes durable, and HTTP around it.
//!
//! ```text
//!  HTTP ──▶ Engine::write ──▶ desk ──▶ batch ──▶ store (durable) ──▶ observers, answers, watchers
//!       ──▶ Engine::read  ───────────────────────────────────────▶ what is durable
//! ```

mod activity;
mod api;
pub mod application;
mod breaches;
pub mod config;
mod decisions;
pub mod demo;
mod events;
mod front;
pub mod guard;
pub mod life;
pub mod log;
mod metrics;
pub mod pods;
#[cfg(test)]
mod rehearsal;
mod routes;
mod schedulerlog;
pub mod served;

use plimsoll_slots::desk::Desk;

/// The engine of the standalone server.
pub(crate) type SlotEngine = plimsoll_engine::engine::Engine<Desk>;
