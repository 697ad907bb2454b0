//! Memory that HAMi's operator scaled up in the register: the lower of register and label counts.

use plimsoll_core::device::{Capacity, Device, Identity, Source};

use crate::finding::AnnotationProblem;
use crate::labels::FeatureLabels;
use crate::object;

use super::memory;
use super::notes::Notes;

/// Replaces registered memory that exceeds the label, and reports it.
pub(super) fn cap_at_label(node: &object::Node, devices: &mut [Device], notes: &mut Notes) {
    let labels = FeatureLabels::read(&node.metadata.labels);
    let product = labels.product.as_deref();
    // Under the MIG strategy `single` the label describes an instance, not the card.
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
        notes.add(AnnotationProblem::RegisterScaled { uuid: uuid.clone(), registered, label });
    }
}

/// Determines the devices that the labels describe: all of them, unless the labels name the model
/// of some.
fn described(product: Option<&str>, devices: &[Device]) -> Vec<bool> {
    let named = |device: &Device| {
        let model = device.model.as_deref().map(plain);
        product.is_none_or(|product| model.as_deref() == Some(&*plain(product)))
    };
    let matches: Vec<bool> = devices.iter().map(named).collect();
    if matches.contains(&true) { matches } else { vec![true; devices.len()] }
}

/// Normalizes a model's name: labels and registers differ in prefix, suffix and blanks.
fn plain(model: &str) -> String {
    let name = model.trim().replace([' ', '_'], "-");
    let name = name.trim_start_matches("NVIDIA-");
    name.strip_suffix("-SHARED").unwrap_or(name).to_ascii_lowercase()
}
