//! Declared devices: decoding never panics, and sizes are consistent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_kube::declared::{DeviceChoice, Size, decode};

fuzz_target!(|text: &str| {
    let _ = DeviceChoice::parse(text);
    for device in decode(text).into_iter().flatten() {
        assert_ne!(device.memory, Some(Size(0)));
        assert!(device.reserve <= device.memory && device.cap <= device.memory);
    }
});
