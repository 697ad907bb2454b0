//! The GPUs and labels of a day's machines.

use plimsoll_slots::simulated_runner::SimulatedRunner;
use plimsoll_slots::wire::DeviceFacts;

use super::random::Random;

const GIB: u64 = 1 << 30;
/// GPU models, with their memory in GiB.
const GPU_MODELS: [(&str, u64); 5] = [
    ("NVIDIA A100 80GB PCIe", 80),
    ("NVIDIA L40S", 48),
    ("NVIDIA A100-PCIE-40GB", 40),
    ("NVIDIA GeForce RTX 4090", 24),
    ("Tesla T4", 16),
];

/// The way in which a machine's GPUs are identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GpuIdentity {
    Uuid,
    /// By their index only. Their order never changes while something runs.
    Index,
}

/// Makes machines and GPUs; every GPU gets another UUID.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    gpus: u64,
}

impl Fleet {
    /// Makes a machine with up to eight GPUs, mostly of one model.
    pub(crate) fn runner(
        &mut self,
        random: &mut Random,
        name: &str,
        identity: GpuIdentity,
    ) -> SimulatedRunner {
        let model = random.index(GPU_MODELS.len());
        let count = *random.pick(&[0, 1, 1, 2, 2, 4, 4, 8]);
        let gpus = (0..count).map(|_| self.gpu(random, identity, model)).collect();
        let zone = *random.pick(&["a", "b"]);
        SimulatedRunner::new(name, gpus).label("zone", zone)
    }

    /// Makes one GPU, mostly of this model.
    pub(crate) fn gpu(
        &mut self,
        random: &mut Random,
        identity: GpuIdentity,
        model: usize,
    ) -> DeviceFacts {
        self.gpus += 1;
        let model = if random.percent(10) { random.index(GPU_MODELS.len()) } else { model };
        let (name, gib) = GPU_MODELS[model];
        let facts = DeviceFacts::new(format!("GPU-{}", self.gpus), gib * GIB);
        DeviceFacts {
            uuid: facts.uuid.filter(|_| identity == GpuIdentity::Uuid),
            model: Some(name.to_string()),
            reserve: *random.pick(&[0, 0, 300 << 20]),
            cap: random.percent(10).then(|| gib * GIB / 10 * 9),
            ..facts
        }
    }

    /// Makes one GPU of any model.
    pub(crate) fn any_gpu(&mut self, random: &mut Random, identity: GpuIdentity) -> DeviceFacts {
        let model = random.index(GPU_MODELS.len());
        self.gpu(random, identity, model)
    }
}

/// Returns the memory that may be charged on a GPU: `total - reserve`, at most `cap`.
pub(crate) fn limit(facts: &DeviceFacts) -> u64 {
    let open = facts.total.unwrap_or(0).saturating_sub(facts.reserve);
    facts.cap.map_or(open, |cap| cap.min(open))
}
