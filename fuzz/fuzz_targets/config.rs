//! `config.json`: reading and estimating never panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_models::config::shape;
use plimsoll_models::estimate::estimate;
use plimsoll_models::settings::{RuntimeKind, Settings};

fuzz_target!(|bytes: &[u8]| {
    let Ok(shape) = shape::read(bytes) else { return };
    let _ = estimate(&shape, &Settings::new(RuntimeKind::Vllm, 4096));
});
