//! HAMi's allocations: decoding never panics, and encoded allocations decode to the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_kube::hami::allocated::{decode, decode_mig, encode};

fuzz_target!(|text: &str| {
    let _ = decode_mig(text);
    let Ok(mut containers) = decode(text) else { return };
    let again = decode(&encode(&containers));
    // Each container ends in a semicolon, and HAMi reads one more behind the last.
    containers.push(Vec::new());
    assert_eq!(again, Ok(containers));
});
