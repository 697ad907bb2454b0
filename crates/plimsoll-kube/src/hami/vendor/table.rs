//! The entries of the vendor table.

use super::{
    AllowedCounts, CapacityRule, CoresResource, CoresUnit, CountUnit, MemoryResource, MemorySource,
    Register, SelectionKeys, Template, Vendor,
};

const fn mib(name: &'static str) -> Option<MemoryResource> {
    units(name, 1)
}

const fn units(name: &'static str, unit_mib: u64) -> Option<MemoryResource> {
    Some(MemoryResource {
        name,
        unit_mib,
        suffix_is_bytes: false,
        small_is_gib: false,
        is_total: false,
    })
}

const fn cores(name: &'static str, unit: CoresUnit) -> Option<CoresResource> {
    Some(CoresResource { name, unit, is_total: false })
}

const fn keys(wanted: &'static str, unwanted: &'static str) -> SelectionKeys {
    SelectionKeys { wanted, unwanted }
}

const fn template(name: &'static str, memory_mib: u64, cores: u64) -> Template {
    Template { name, memory_mib, cores }
}

/// Defaults that most vendors share.
const COMMON: Vendor = Vendor {
    name: "",
    count: "",
    count_unit: CountUnit::Devices,
    counts: AllowedCounts::Any,
    memory: None,
    cores: None,
    unset_cores: None,
    percentage: None,
    register: Register::Annotation(""),
    memory_source: MemorySource::Reported,
    allocated: "",
    to_allocate: None,
    types: None,
    uuids: keys("", ""),
    templates: &[],
    equal_shares: false,
    count_defaults_to_one: false,
};

macro_rules! ascend {
    ($name:literal, $templates:expr) => {
        Vendor {
            name: $name,
            count: concat!("huawei.com/", $name),
            memory: mib(concat!("huawei.com/", $name, "-memory")),
            cores: cores(concat!("huawei.com/", $name, "-core"), CoresUnit::Percent),
            register: Register::Annotation(concat!("hami.io/node-register-", $name)),
            allocated: concat!("hami.io/", $name, "-devices-allocated"),
            to_allocate: Some(concat!("hami.io/", $name, "-devices-to-allocate")),
            uuids: keys(
                concat!("hami.io/use-", $name, "-uuid"),
                concat!("hami.io/no-use-", $name, "-uuid"),
            ),
            templates: $templates,
            ..COMMON
        }
    };
}

macro_rules! iluvatar {
    ($name:literal) => {
        Vendor {
            name: $name,
            count: concat!("iluvatar.ai/", $name, "-vgpu"),
            memory: units(concat!("iluvatar.ai/", $name, ".vMem"), 256),
            cores: cores(concat!("iluvatar.ai/", $name, ".vCore"), CoresUnit::Percent),
            register: Register::Annotation(concat!("hami.io/node-", $name, "-register")),
            allocated: concat!("hami.io/", $name, "-devices-allocated"),
            to_allocate: Some(concat!("hami.io/", $name, "-devices-to-allocate")),
            uuids: keys(
                concat!("hami.io/use-", $name, "-uuid"),
                concat!("hami.io/no-use-", $name, "-uuid"),
            ),
            ..COMMON
        }
    };
}

const ASCEND_64G: &[Template] =
    &[template("vir05_1c_16g", 16384, 5), template("vir10_3c_32g", 32768, 10)];

/// All vendors, NVIDIA first.
pub static VENDORS: &[Vendor] = &[
    Vendor {
        name: "NVIDIA",
        count: "nvidia.com/gpu",
        memory: mib("nvidia.com/gpumem"),
        cores: cores("nvidia.com/gpucores", CoresUnit::Percent),
        percentage: Some("nvidia.com/gpumem-percentage"),
        register: Register::Annotation("hami.io/node-nvidia-register"),
        allocated: "hami.io/vgpu-devices-allocated",
        to_allocate: Some("hami.io/vgpu-devices-to-allocate"),
        types: Some(keys("nvidia.com/use-gputype", "nvidia.com/nouse-gputype")),
        uuids: keys("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),
        count_defaults_to_one: true,
        ..COMMON
    },
    Vendor {
        name: "AMD",
        count: "amd.com/gpu",
        memory: mib("amd.com/gpumem"),
        cores: cores("amd.com/gpucores", CoresUnit::Percent),
        register: Register::Annotation("hami.io/node-amd-register"),
        allocated: "hami.io/amd-devices-allocated",
        to_allocate: Some("hami.io/amd-devices-to-allocate"),
        types: Some(keys("amd.com/use-gputype", "amd.com/nouse-gputype")),
        uuids: keys("amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid"),
        ..COMMON
    },
    Vendor {
        name: "DCU",
        count: "hygon.com/dcunum",
        memory: mib("hygon.com/dcumem"),
        cores: cores("hygon.com/dcucores", CoresUnit::Percent),
        register: Register::Annotation("hami.io/node-dcu-register"),
        allocated: "hami.io/dcu-devices-allocated",
        to_allocate: Some("hami.io/dcu-devices-to-allocate"),
        types: Some(keys("hygon.com/use-dcutype", "hygon.com/nouse-dcutype")),
        uuids: keys("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),
        ..COMMON
    },
    ascend!(
        "Ascend910A",
        &[
            template("vir02", 2184, 2),
            template("vir04", 4369, 4),
            template("vir08", 8738, 8),
            template("vir16", 17476, 16)
        ]
    ),
    ascend!(
        "Ascend910B2",
        &[
            template("vir03_1c_8g", 8192, 3),
            template("vir06_1c_16g", 16384, 6),
            template("vir12_3c_32g", 32768, 12)
        ]
    ),
    ascend!("Ascend910B3", ASCEND_64G),
    ascend!(
        "Ascend910B4",
        &[template("vir05_1c_8g", 8192, 5), template("vir10_3c_16g", 16384, 10)]
    ),
    ascend!("Ascend910B4-1", ASCEND_64G),
    Vendor { counts: AllowedCounts::OneOrEven, ..ascend!("Ascend910C", ASCEND_64G) },
    ascend!(
        "Ascend310P",
        &[template("vir01", 3072, 1), template("vir02", 6144, 2), template("vir04", 12288, 4)]
    ),
    iluvatar!("MR-V100"),
    iluvatar!("MR-V50"),
    iluvatar!("BI-V150"),
    iluvatar!("BI-V100"),
    Vendor {
        name: "MLU",
        count: "cambricon.com/vmlu",
        memory: units("cambricon.com/mlu.smlu.vmemory", 256),
        cores: cores("cambricon.com/mlu.smlu.vcore", CoresUnit::Percent),
        register: Register::Capacity(CapacityRule::Cambricon),
        allocated: "hami.io/cambricon-mlu-devices-allocated",
        to_allocate: Some("hami.io/cambricon-mlu-devices-to-allocate"),
        types: Some(keys("cambricon.com/use-mlutype", "cambricon.com/nouse-mlutype")),
        uuids: keys("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),
        ..COMMON
    },
    Vendor {
        name: "Metax-GPU",
        count: "metax-tech.com/gpu",
        register: Register::Capacity(CapacityRule::Whole { infix: "metax" }),
        memory_source: MemorySource::Assumed(65536),
        allocated: "hami.io/metax-gpu-devices-allocated",
        to_allocate: Some("hami.io/metax-gpu-devices-to-allocate"),
        uuids: keys("metax-tech.com/use-gpuuuid", "metax-tech.com/nouse-gpuuuid"),
        ..COMMON
    },
    Vendor {
        name: "Metax-SGPU",
        count: "metax-tech.com/sgpu",
        memory: Some(MemoryResource {
            name: "metax-tech.com/vmemory",
            unit_mib: 1024,
            suffix_is_bytes: true,
            small_is_gib: false,
            is_total: false,
        }),
        cores: cores("metax-tech.com/vcore", CoresUnit::Percent),
        unset_cores: Some(100),
        register: Register::MetaxSgpu("metax-tech.com/node-gpu-devices"),
        allocated: "hami.io/metax-sgpu-devices-allocated",
        to_allocate: Some("hami.io/metax-sgpu-devices-to-allocate"),
        uuids: keys("metax-tech.com/use-gpuuuid", "metax-tech.com/nouse-gpuuuid"),
        ..COMMON
    },
    Vendor {
        name: "Mthreads",
        count: "mthreads.com/vgpu",
        memory: Some(MemoryResource {
            name: "mthreads.com/sgpu-memory",
            unit_mib: 512,
            suffix_is_bytes: false,
            small_is_gib: false,
            is_total: true,
        }),
        cores: Some(CoresResource {
            name: "mthreads.com/sgpu-core",
            unit: CoresUnit::PerDevice(16),
            is_total: true,
        }),
        register: Register::Capacity(CapacityRule::Mthreads),
        allocated: "hami.io/mthreads-vgpu-devices-allocated",
        uuids: keys("mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),
        ..COMMON
    },
    Vendor {
        name: "Enflame",
        count: "enflame.com/drs-gcu",
        count_unit: CountUnit::Slices,
        memory: Some(MemoryResource {
            name: "enflame.com/gcu-memory",
            unit_mib: 1,
            suffix_is_bytes: false,
            small_is_gib: true,
            is_total: false,
        }),
        cores: cores("enflame.com/gcu-core", CoresUnit::Percent),
        register: Register::EnflameDrs("enflame.com/gcu-drs-capacity"),
        allocated: "hami.io/enflame-vgpu-devices-allocated",
        uuids: keys("enflame.com/use-gpuuuid", "enflame.com/nouse-gpuuuid"),
        count_defaults_to_one: true,
        ..COMMON
    },
    Vendor {
        name: "GCU",
        count: "enflame.com/gcu",
        register: Register::Capacity(CapacityRule::Whole { infix: "enflame" }),
        memory_source: MemorySource::Unknown,
        allocated: "hami.io/enflame-gcu-devices-allocated",
        to_allocate: Some("hami.io/enflame-gcu-devices-to-allocate"),
        uuids: keys("enflame.com/use-gpuuuid", "enflame.com/nouse-gpuuuid"),
        ..COMMON
    },
    Vendor {
        name: "kunlun",
        count: "kunlunxin.com/xpu",
        counts: AllowedCounts::LinkedGroups,
        register: Register::Capacity(CapacityRule::WholeInTwoHalves { infix: "kunlun" }),
        memory_source: MemorySource::Assumed(98304),
        allocated: "hami.io/kunlun-allocated",
        uuids: keys("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid"),
        ..COMMON
    },
    Vendor {
        name: "XPU",
        count: "kunlunxin.com/vxpu",
        counts: AllowedCounts::LinkedGroups,
        memory: mib("kunlunxin.com/vxpu-memory"),
        register: Register::Annotation("hami.io/node-register-xpu"),
        allocated: "hami.io/xpu-devices-allocated",
        to_allocate: Some("hami.io/xpu-devices-to-allocate"),
        uuids: keys("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"),
        templates: &[template("24g", 24576, 0), template("48g", 49152, 0)],
        equal_shares: true,
        ..COMMON
    },
    Vendor {
        name: "AWSNeuron",
        count: "aws.amazon.com/neuron",
        cores: Some(CoresResource {
            name: "aws.amazon.com/neuroncore",
            unit: CoresUnit::DeviceCores,
            is_total: true,
        }),
        register: Register::Capacity(CapacityRule::Neuron),
        memory_source: MemorySource::Unknown,
        allocated: "hami.io/aws-neuron-devices-allocated",
        uuids: keys("aws.amazon.com/use-neuron-uuid", "aws.amazon.com/nouse-neuron-uuid"),
        ..COMMON
    },
    Vendor {
        name: "Vastai",
        count: "vastaitech.com/va",
        register: Register::Annotation("hami.io/node-va-register"),
        allocated: "hami.io/Vastai-devices-allocated",
        to_allocate: Some("hami.io/Vastai-devices-to-allocate"),
        uuids: keys("vastaitech.com/use-gpuuuid", "vastaitech.com/nouse-gpuuuid"),
        ..COMMON
    },
    Vendor {
        name: "Biren",
        count: "birentech.com/gpu",
        register: Register::Annotation("hami.io/node-biren-register"),
        allocated: "hami.io/Biren-devices-allocated",
        to_allocate: Some("hami.io/Biren-devices-to-allocate"),
        uuids: keys("birentech.com/use-gpuuuid", "birentech.com/nouse-gpuuuid"),
        ..COMMON
    },
];
