//! One table of vendors: their resource names and units, and the annotations of their nodes and pods.
//!
//! The names are the defaults of HAMi's chart.

mod table;

pub use table::VENDORS;

use crate::quantity::{Quantity, QuantityError};

/// One kind of device that HAMi schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vendor {
    /// HAMi's word for it, as in `Ascend910B3` or `MLU`.
    pub word: &'static str,
    /// The resource that counts devices, or slices of one.
    pub count: &'static str,
    /// What that resource counts.
    pub count_unit: CountUnit,
    /// The resource that asks for memory, if there is one.
    pub memory: Option<MemoryResource>,
    /// The resource that asks for compute, if there is one.
    pub cores: Option<CoresResource>,
    /// The resource that asks for a percentage of the memory.
    pub percentage: Option<&'static str>,
    /// Where its devices on a node are listed.
    pub register: Register,
    /// Whether the size of a device's memory is known.
    pub memory_source: MemorySource,
    /// The pod annotation that HAMi writes when it has chosen.
    pub allocated: &'static str,
    /// The pod annotation that the device plugin works off.
    pub to_allocate: Option<&'static str>,
    /// The pod annotations with which users choose by model.
    pub types: Option<WishKeys>,
    /// The pod annotations with which users choose by UUID.
    pub uuids: WishKeys,
    /// Sizes that memory is rounded up to, smallest first; what is larger than the last takes the whole device.
    pub templates: &'static [Template],
    /// Whether the webhook assumes one device where only memory or cores are asked.
    pub count_defaults_to_one: bool,
}

/// What the counting resource counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountUnit {
    /// Devices.
    Devices,
    /// Slices of one device: the number names a profile, and the request is for one device.
    Slices,
}

/// A resource that asks for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryResource {
    /// Its name.
    pub name: &'static str,
    /// How many MiB one of it is.
    pub unit_mib: u64,
    /// Whether a binary suffix means bytes here. Elsewhere it is refused: `3Gi` of MiB is a mistake.
    pub suffix_is_bytes: bool,
    /// Whether a number below 1024 is taken as GiB. HAMi guesses by the size of the card; GiB is the guess that books
    /// too much rather than too little.
    pub small_is_gib: bool,
    /// Whether it is the sum over all devices of the container, and not for each.
    pub is_total: bool,
}

impl MemoryResource {
    /// The MiB that a quantity of this resource asks for.
    pub fn mib(&self, quantity: &Quantity) -> Result<u64, QuantityError> {
        if self.suffix_is_bytes && quantity.has_binary_suffix() {
            return Ok(quantity.bytes_ceil()?.div_ceil(1 << 20));
        }
        let units = quantity.units(self.unit_mib)?;
        let unit_mib = if self.small_is_gib && units < 1024 { 1024 } else { self.unit_mib };
        units
            .checked_mul(unit_mib)
            .ok_or_else(|| QuantityError::TooLarge { value: quantity.text().to_owned() })
    }
}

/// A resource that asks for compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoresResource {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub unit: CoresUnit,
    /// Whether it is the sum over all devices of the container, and not for each.
    pub is_total: bool,
}

/// What compute is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoresUnit {
    /// Hundredths of a device.
    Percent,
    /// Parts of a device, of which it has this many.
    PerDevice(u32),
    /// Cores of the device itself, of which each model has its own number.
    DeviceCores,
}

/// Where the devices of a node are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// In a node annotation, as JSON or in the comma form.
    Annotation(&'static str),
    /// In a node annotation of Metax' own JSON.
    MetaxSgpu(&'static str),
    /// In a node annotation of Enflame's own JSON.
    EnflameDrs(&'static str),
    /// Nowhere: they follow from the node's capacity.
    Capacity(CapacityRule),
}

/// How the devices of a node follow from its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityRule {
    /// A hundred virtual cores are a card, and the cards share the virtual memory evenly.
    Cambricon,
    /// Sixteen cores are a card, and the cards share the memory evenly.
    Mthreads,
    /// One device each, taken whole.
    Whole {
        /// What stands between the node's name and the ordinal in a device's id.
        infix: &'static str,
    },
    /// One device each, taken whole; the first half on one NUMA node, the rest on the other.
    WholeInTwoHalves {
        /// What stands between the node's name and the ordinal in a device's id.
        infix: &'static str,
    },
    /// One device each, with cores that can be taken one by one.
    Neuron,
}

/// Whether the size of a device's memory is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySource {
    /// The node says it, for each device.
    Reported,
    /// HAMi assumes this many MiB for every model. That is no fact about the device, so that it counts as not known.
    Assumed(u64),
    /// Nobody says it.
    Unknown,
}

/// The annotations for wanted and unwanted things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WishKeys {
    /// Only these.
    pub wanted: &'static str,
    /// Not these.
    pub unwanted: &'static str,
}

/// A fixed size that a part of a device can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Its name.
    pub name: &'static str,
    /// Its memory.
    pub memory_mib: u64,
    /// Its cores, where the vendor counts them.
    pub cores: u64,
}

/// What a need for memory is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    /// What was asked.
    AsAsked(u64),
    /// The template that holds it.
    Template(&'static Template),
    /// The whole device: no template is large enough.
    Whole,
}

impl Vendor {
    /// The vendor with this word.
    pub fn by_word(word: &str) -> Option<&'static Vendor> {
        VENDORS.iter().find(|vendor| vendor.word == word)
    }

    /// The kind of device that its resources ask for, by which needs and devices meet: the vendor's word.
    pub fn kind(&self) -> &'static str {
        self.word
    }

    /// What a need for so many MiB is charged on one device.
    pub fn charged(&self, mib: u64) -> Charged {
        if self.templates.is_empty() {
            return Charged::AsAsked(mib);
        }
        self.templates
            .iter()
            .find(|template| template.memory_mib >= mib)
            .map_or(Charged::Whole, Charged::Template)
    }

    /// All resource names that ask for this vendor's devices.
    pub fn resource_names(&self) -> impl Iterator<Item = &'static str> {
        let memory = self.memory.map(|memory| memory.name);
        let cores = self.cores.map(|cores| cores.name);
        [Some(self.count), memory, cores, self.percentage].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn mib(word: &str, text: &str) -> Result<u64, QuantityError> {
        let memory = Vendor::by_word(word).and_then(|vendor| vendor.memory).expect(word);
        memory.mib(&Quantity::parse(text).unwrap())
    }

    #[test]
    fn every_vendor_asks_for_memory_in_its_own_unit() {
        for (word, text, expected) in [
            ("NVIDIA", "8k", 8000),
            ("MLU", "4", 1024),
            ("MR-V100", "4", 1024),
            ("Mthreads", "4", 2048),
            ("Metax-SGPU", "4", 4096),
            ("Metax-SGPU", "4Gi", 4096),
            ("Metax-SGPU", "1500Mi", 1500),
            ("Enflame", "20", 20480),
            ("Enflame", "20480", 20480),
            ("XPU", "24576", 24576),
        ] {
            assert_eq!(mib(word, text), Ok(expected), "{word} {text}");
        }
        for word in ["NVIDIA", "MLU", "Ascend910B3", "DCU", "AMD", "Mthreads", "XPU", "Enflame"] {
            assert!(matches!(mib(word, "3Gi"), Err(QuantityError::BinarySuffix { .. })), "{word}");
        }
        assert!(matches!(mib("MLU", "18446744073709551615"), Err(QuantityError::TooLarge { .. })));
    }

    #[test]
    fn a_need_is_charged_the_template_that_holds_it() {
        for (word, need, charged) in [
            ("Ascend910B3", 10_000, Some(16384)),
            ("Ascend910B3", 16384, Some(16384)),
            ("Ascend910B3", 16385, Some(32768)),
            ("Ascend910B3", 32769, None),
            ("Ascend910A", 1, Some(2184)),
            ("Ascend910B2", 8000, Some(8192)),
            ("Ascend910B4", 10_000, Some(16384)),
            ("Ascend310P", 6145, Some(12288)),
            ("XPU", 24577, Some(49152)),
        ] {
            let got = match Vendor::by_word(word).unwrap().charged(need) {
                Charged::Template(template) => Some(template.memory_mib),
                Charged::Whole => None,
                Charged::AsAsked(mib) => {
                    panic!("{word} has templates, and {mib} was taken as asked")
                }
            };
            assert_eq!(got, charged, "{word} {need}");
        }
        assert_eq!(Vendor::by_word("NVIDIA").unwrap().charged(7), Charged::AsAsked(7));
    }

    #[test]
    fn the_table_is_complete_and_unambiguous() {
        let mut seen = BTreeSet::new();
        for vendor in VENDORS {
            for name in vendor
                .resource_names()
                .chain([vendor.word, vendor.allocated])
                .chain(vendor.to_allocate)
            {
                assert!(!name.is_empty() && seen.insert(name), "{}: \"{name}\"", vendor.word);
            }
            assert!(
                vendor.templates.is_sorted_by_key(|template| template.memory_mib),
                "{}",
                vendor.word
            );
            assert!(!vendor.uuids.wanted.is_empty(), "{}", vendor.word);
        }
    }
}
