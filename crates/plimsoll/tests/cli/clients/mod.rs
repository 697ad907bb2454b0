//! The commands that talk to a server, with a server that has prepared answers.

mod apply;
mod errors;
pub(crate) mod fake;
mod reserve;
mod shown;
mod tls;
