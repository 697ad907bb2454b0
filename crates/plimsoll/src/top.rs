//! A live view of a server on a terminal: every GPU with its load and holders, pending requests,
//! decisions and slots.
//!
//! ```text
//!  server ──▶ poll (a thread) ──▶ Fleet ──▶ State ◀── keys
//!                                             │
//!                                             ▼
//!                                           draw
//! ```

mod action;
mod draw;
mod fleet;
mod history;
mod poll;
mod screen;
mod state;

#[cfg(test)]
mod tests;

pub(crate) use fleet::Fleet;
pub(crate) use poll::{Poller, Wanted};
pub(crate) use screen::run;
pub(crate) use state::Palette;
