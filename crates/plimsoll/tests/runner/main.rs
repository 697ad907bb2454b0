//! Tests of the real agent with real processes, against a server that each test scripts.

mod adoption;
mod ending;
mod measuring;
mod server;
mod session;
mod starting;
mod world;
