//! `plimsoll serve` as a real process: its start, its door, its signals, and its end.

mod crash;
mod door;
mod fairness;
mod operate;
mod process;
mod real;
mod signals;
mod starting;
mod tiny_model;
mod tls;
mod whole;
