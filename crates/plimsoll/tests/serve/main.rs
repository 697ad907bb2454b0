//! `plimsoll serve` as a real process: its start, its door, its signals, and its end.

mod crash;
mod door;
mod process;
mod signals;
mod starting;
mod tls;
mod whole;
