//! Safetensors headers: reading never panics, and tensor names are unique.
#![no_main]

use std::collections::BTreeSet;
use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use plimsoll_models::safetensors::header;

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = header::read(Cursor::new(bytes), "fuzzed") else { return };
    let names: BTreeSet<&str> = header.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names.len(), header.tensors.len());
});
