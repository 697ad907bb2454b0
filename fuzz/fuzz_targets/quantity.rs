//! Quantities: parsing never panics, and the text of a quantity parses to the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_kube::quantity::Quantity;

fuzz_target!(|text: &str| {
    let Ok(quantity) = Quantity::parse(text) else { return };
    assert_eq!(Quantity::parse(quantity.text()).as_ref(), Ok(&quantity));
    let _ = (quantity.milli_ceil(), quantity.bytes_ceil(), quantity.units(256));
    if let Ok(whole) = quantity.whole() {
        assert_eq!(Quantity::parse(&whole.to_string()), Ok(quantity));
    }
});
