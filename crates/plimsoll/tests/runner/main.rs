//! The real agent with real processes, against a server that says what each test wants.

mod adoption;
mod ending;
mod measuring;
mod server;
mod session;
mod starting;
mod world;
