//! Device plugins that advertise a number of devices and nothing else.

/// A resource that counts devices of which nothing but the number is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedResource {
    pub name: &'static str,
    /// The kind of the devices, in nodes and in needs.
    pub kind: &'static str,
    pub sharing: PluginSharing,
}

/// The ability of a plugin to advertise one card several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginSharing {
    /// Each advertised device is a device.
    Never,
    /// Several advertised devices can be shares of one card.
    Possible,
}

/// The resources, in order of their names.
pub const COUNTED: &[CountedResource] = &[
    whole("amd.com/gpu", "AMD"),
    shareable("gpu.intel.com/i915"),
    shareable("gpu.intel.com/xe"),
    whole("google.com/tpu", "google.com/tpu"),
    whole("habana.ai/gaudi", "habana.ai/gaudi"),
];

const fn whole(name: &'static str, kind: &'static str) -> CountedResource {
    CountedResource { name, kind, sharing: PluginSharing::Never }
}

const fn shareable(name: &'static str) -> CountedResource {
    CountedResource { name, kind: name, sharing: PluginSharing::Possible }
}

/// Finds a resource that no vendor of HAMi's table has.
pub fn counted(name: &str) -> Option<&'static CountedResource> {
    COUNTED.iter().find(|resource| resource.name == name && resource.kind == resource.name)
}

/// Words in the names of resources that request accelerators.
const DEVICE_WORDS: &[&str] = &[
    "gpu",
    "npu",
    "mlu",
    "dcu",
    "gcu",
    "xpu",
    "tpu",
    "ascend",
    "accelerator",
    "gaudi",
    "neuron",
    "directx",
];

/// Returns true if a resource requests devices, by its name. Network cards and the like do not.
pub fn names_device(resource: &str) -> bool {
    let name = resource.to_ascii_lowercase();
    name.contains('/') && DEVICE_WORDS.iter().any(|word| name.contains(word))
}
