//! The standalone server: one thread that decides and makes durable, and HTTP around it.
//!
//! ```text
//!  HTTP ──▶ Engine::write ──▶ desk ──▶ batch ──▶ store (durable) ──▶ observers, answers, whoever waits
//!       ──▶ Engine::read  ───────────────────────────────────────▶ what is durable
//! ```

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
#[cfg(test)]
mod rehearsal;
mod schedulerlog;

use plimsoll_slots::desk::Desk;

/// The engine with the front end for model serving.
pub type Engine = plimsoll_engine::engine::Engine<Desk>;

/// A decided batch of that engine.
type Decided<'a> = plimsoll_engine::engine::Decided<'a, Desk>;

/// A durable batch of that engine.
type Durable<'a> = plimsoll_engine::engine::Durable<'a, Desk>;

/// An observer of that engine.
type BoxedObserver = Box<dyn plimsoll_engine::engine::Observer<Desk>>;
