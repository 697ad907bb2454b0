//! The table of vendors: resource names and units, and annotations of nodes and pods.
//!
//! The names are the defaults of HAMi's Helm chart.

mod table;

pub use table::VENDORS;

use crate::quantity::{Quantity, QuantityError};

/// A kind of device that HAMi schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vendor {
    /// HAMi's name of it, such as `Ascend910B3` or `MLU`.
    pub name: &'static str,
    /// The resource that counts devices, or slices of one.
    pub count: &'static str,
    pub count_unit: CountUnit,
    pub counts: AllowedCounts,
    /// The resource for memory, if there is one.
    pub memory: Option<MemoryResource>,
    /// The resource for compute, if there is one.
    pub cores: Option<CoresResource>,
    /// The compute of a request that names none; `None` if it reserves none.
    pub unset_cores: Option<u64>,
    /// The resource for a percentage of the memory.
    pub percentage: Option<&'static str>,
    /// The source of the node's device list.
    pub register: Register,
    pub memory_source: MemorySource,
    /// Pod annotation that HAMi writes when it has chosen devices.
    pub allocated: &'static str,
    /// Pod annotation that the device plugin consumes.
    pub to_allocate: Option<&'static str>,
    /// Pod annotations that select by model.
    pub types: Option<SelectionKeys>,
    /// Pod annotations that select by UUID.
    pub uuids: SelectionKeys,
    /// Sizes that memory is rounded up to, smallest first. Larger requests take the whole device.
    pub templates: &'static [Template],
    /// True if all shares of a device have one size.
    pub equal_shares: bool,
    /// True if HAMi's webhook assumes one device where only memory or cores are requested.
    pub count_defaults_to_one: bool,
}

/// The unit of the counting resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountUnit {
    Devices,
    /// Slices of one device: the number selects a profile, and the request is for one device.
    Slices,
}

/// The numbers of devices that one container can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedCounts {
    Any,
    /// One device, or modules of two.
    OneOrEven,
    /// A group of linked cards: one, two, four or all eight.
    LinkedGroups,
}

impl AllowedCounts {
    /// Returns the rule in words if the vendor never allocates this many devices.
    pub fn broken_by(self, devices: u64) -> Option<&'static str> {
        match self {
            AllowedCounts::OneOrEven if devices > 1 && devices % 2 == 1 => Some("1 or even"),
            AllowedCounts::LinkedGroups if !matches!(devices, 1 | 2 | 4 | 8) => {
                Some("1, 2, 4 or 8")
            }
            _ => None,
        }
    }
}

/// A resource for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryResource {
    pub name: &'static str,
    pub unit_mib: u64,
    /// True if a binary suffix means bytes. For other vendors it is an error: `3Gi` of MiB is a
    /// mistake.
    pub suffix_is_bytes: bool,
    /// True if a number below 1024 is GiB. HAMi guesses by the size of the card; GiB is the guess
    /// that never books too little.
    pub small_is_gib: bool,
    /// True for the sum over all devices of the container instead of the amount of each.
    pub is_total: bool,
}

impl MemoryResource {
    /// Returns the MiB of a quantity of this resource.
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

/// A resource for compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoresResource {
    pub name: &'static str,
    pub unit: CoresUnit,
    /// True for the sum over all devices of the container instead of the amount of each.
    pub is_total: bool,
}

/// The unit of compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoresUnit {
    /// Hundredths of a device.
    Percent,
    /// Parts of a device, which has this many.
    PerDevice(u32),
    /// Physical cores of the device; each model has its own number.
    DeviceCores,
}

/// The source of a node's device list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// A node annotation, as JSON or comma-separated fields.
    Annotation(&'static str),
    /// A node annotation in Metax' own JSON.
    MetaxSgpu(&'static str),
    /// A node annotation in Enflame's own JSON.
    EnflameDrs(&'static str),
    /// None: devices follow from the node's capacity.
    Capacity(CapacityRule),
}

/// A rule that derives devices from the node's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityRule {
    /// A hundred virtual cores are a card; the cards share the virtual memory evenly.
    Cambricon,
    /// Sixteen cores are a card; the cards share the memory evenly.
    Mthreads,
    /// One device each, used whole.
    Whole {
        /// The part of a device's id between the node's name and the ordinal.
        infix: &'static str,
    },
    /// One device each, used whole; the first half on one NUMA node, the rest on the other.
    WholeInTwoHalves {
        /// The part of a device's id between the node's name and the ordinal.
        infix: &'static str,
    },
    /// One device each, with cores that can be used one by one.
    Neuron,
}

/// The source of the size of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySource {
    /// The register reports it for each device.
    Reported,
    /// HAMi assumes this many MiB for every model. That is not a fact about the device: it counts
    /// as unknown.
    Assumed(u64),
    Unknown,
}

/// Node annotation: HAMi splits the Ascend devices of the node by software, in any amount, instead
/// of by templates.
pub const SOFT_SPLIT: &str = "hami-vnpu-core";

/// Pod annotation: [`SOFT_SPLIT_MODE`] accepts only Ascend devices that are split by software.
pub const SPLIT_MODE: &str = "huawei.com/vnpu-mode";

/// The mode of Ascend devices that are split by software.
pub const SOFT_SPLIT_MODE: &str = "hami-core";

/// The mode of Ascend devices that are split by templates.
pub const TEMPLATE_MODE: &str = "template";

/// The annotations that include and exclude devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectionKeys {
    pub wanted: &'static str,
    pub unwanted: &'static str,
}

/// A fixed size of a part of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    pub name: &'static str,
    pub memory_mib: u64,
    pub cores: u64,
}

/// The charge of a request for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charged {
    /// The requested MiB.
    AsAsked(u64),
    /// The smallest template that is large enough.
    Template(&'static Template),
    /// The whole device: no template is large enough.
    Whole,
}

impl Vendor {
    /// Finds a vendor by HAMi's name.
    pub fn by_name(name: &str) -> Option<&'static Vendor> {
        VENDORS.iter().find(|vendor| vendor.name == name)
    }

    /// Returns the kind of the vendor's devices, which requests and devices are matched by.
    pub fn kind(&self) -> &'static str {
        self.name
    }

    /// Returns true for Ascend's devices, which can be split by software.
    pub fn has_soft_split(&self) -> bool {
        self.name.starts_with("Ascend")
    }

    /// Returns the charge of a request for this many MiB of one device.
    pub fn charged(&self, mib: u64) -> Charged {
        if self.templates.is_empty() {
            return Charged::AsAsked(mib);
        }
        self.templates
            .iter()
            .find(|template| template.memory_mib >= mib)
            .map_or(Charged::Whole, Charged::Template)
    }

    /// Lists all resource names of this vendor's devices.
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

    fn mib(name: &str, text: &str) -> Result<u64, QuantityError> {
        let memory = Vendor::by_name(name).and_then(|vendor| vendor.memory).expect(name);
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
            let got = match Vendor::by_name(word).unwrap().charged(need) {
                Charged::Template(template) => Some(template.memory_mib),
                Charged::Whole => None,
                Charged::AsAsked(mib) => {
                    panic!("{word} has templates, and {mib} was taken as asked")
                }
            };
            assert_eq!(got, charged, "{word} {need}");
        }
        assert_eq!(Vendor::by_name("NVIDIA").unwrap().charged(7), Charged::AsAsked(7));
    }

    #[test]
    fn the_table_is_complete_and_unambiguous() {
        let mut seen = BTreeSet::new();
        for vendor in VENDORS {
            for name in vendor
                .resource_names()
                .chain([vendor.name, vendor.allocated])
                .chain(vendor.to_allocate)
            {
                assert!(!name.is_empty() && seen.insert(name), "{}: \"{name}\"", vendor.name);
            }
            assert!(
                vendor.templates.is_sorted_by_key(|template| template.memory_mib),
                "{}",
                vendor.name
            );
            assert!(!vendor.uuids.wanted.is_empty(), "{}", vendor.name);
        }
    }
}
