//! HAMi's register may give a card more memory than it has, as its operator can scale it: the lesser of two numbers counts.

use plimsoll_core::device::{Capacity, Device, Identity, Source};

use crate::labels::{self, FeatureLabels};
use crate::object;

use super::memory;
use super::notes::{Note, Notes};

/// Takes the label's number for each card whose registered memory is more, and says so.
pub(super) fn take_the_lesser(node: &object::Node, devices: &mut [Device], notes: &mut Notes) {
    let labels = FeatureLabels::read(&node.metadata.labels);
    let product = labels.product.as_deref();
    // Under MIG's strategy "single" the label is about a slice, and says nothing about the card.
    if product.is_some_and(|product| product.contains("-MIG-")) {
        return;
    }
    let Some(label) = labels.memory_mib.and_then(Result::ok).and_then(memory::bytes) else {
        return;
    };
    let described = described(product, devices);
    for (device, _) in devices.iter_mut().zip(described).filter(|(_, described)| *described) {
        let registered = device.memory.total.bytes();
        if registered.is_some_and(|registered| registered <= label) {
            continue;
        }
        device.memory.total = Capacity::Known { bytes: label, source: Source::Label };
        let (Some(registered), Identity::Uuid(uuid)) = (registered, &device.identity) else {
            continue;
        };
        let message = format!(
            "HAMi's register gives {registered} where label {} says {label}: {label} counts",
            labels::MEMORY
        );
        let numbers = [("registered", registered.get()), ("label", label.get())];
        let remedy = "take the memory scaling out of HAMi's device plugin, or declare what the card really has";
        notes.add(Note::warning("register-scaled", message).on(uuid).with(numbers).remedy(remedy));
    }
}

/// Which devices the labels are about: all of them, unless they name the model of some and not of others.
fn described(product: Option<&str>, devices: &[Device]) -> Vec<bool> {
    let named = |device: &Device| {
        let model = device.model.as_deref().map(plain);
        product.is_none_or(|product| model.as_deref() == Some(&*plain(product)))
    };
    let matches: Vec<bool> = devices.iter().map(named).collect();
    if matches.contains(&true) { matches } else { vec![true; devices.len()] }
}

/// A model's name without the prefix, suffix and blanks in which labels and registers differ.
fn plain(model: &str) -> String {
    let name = model.trim().replace([' ', '_'], "-");
    let name = name.trim_start_matches("NVIDIA-");
    name.strip_suffix("-SHARED").unwrap_or(name).to_ascii_lowercase()
}
