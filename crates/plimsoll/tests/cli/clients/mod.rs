//! The commands that speak to a server, against one that says what it is told to say.

mod apply;
mod errors;
mod fake;
mod reserve;
mod shown;
mod tls;
