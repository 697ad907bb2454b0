//! Device lists: decoding never panics, and ids are unique and not empty.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use plimsoll_kube::hami::capacity::enflame_drs;
use plimsoll_kube::hami::register::{decode, decode_cordon, decode_metax_sgpu, decode_score};

fuzz_target!(|text: &str| {
    for devices in
        [decode(text), decode_metax_sgpu(text), enflame_drs("node", text)].into_iter().flatten()
    {
        let ids: BTreeSet<&str> = devices.iter().map(|device| device.id.as_str()).collect();
        assert!(ids.len() == devices.len() && !ids.contains(""));
    }
    let _ = (decode_score(text), decode_cordon(text));
});
