//! A live view of a server in the terminal: every GPU with its line, who holds it, who waits and why.
//!
//! ```text
//!  server ──▶ poll (a thread) ──▶ Fleet ──▶ State ◀── keys
//!                                             │
//!                                             ▼
//!                                           draw
//! ```

mod draw;
mod fleet;
mod poll;
mod screen;
mod state;

#[cfg(test)]
mod tests;

pub(crate) use fleet::Fleet;
pub(crate) use poll::{Poller, Wanted};
pub(crate) use screen::run;
