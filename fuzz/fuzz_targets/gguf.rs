//! GGUF headers: reading and estimating never panic, and the parts of an estimate sum to its total.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use plimsoll_models::estimate::estimate;
use plimsoll_models::gguf::{header, shape};
use plimsoll_models::settings::{RuntimeKind, Settings};

fuzz_target!(|bytes: &[u8]| {
    let Ok(header) = header::read(Cursor::new(bytes)) else { return };
    let Ok(shape) = shape::from_headers(&[header]) else { return };
    for runtime in RuntimeKind::ALL {
        let Ok(estimate) = estimate(&shape, &Settings::new(runtime, 4096)) else { continue };
        let parts: Option<u64> =
            estimate.all.named().iter().map(|(_, part)| part.bytes.map(|b| b.get())).sum();
        assert_eq!(parts, estimate.all.total.map(|total| total.get()));
    }
});
