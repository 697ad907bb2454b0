//! Files: reading never panics, and an error names the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_kube::read::read_bytes;

fuzz_target!(|bytes: &[u8]| {
    let mut objects = Vec::new();
    if let Err(error) = read_bytes("input", bytes, &mut objects) {
        assert!(error.to_string().contains("input"));
    }
});
