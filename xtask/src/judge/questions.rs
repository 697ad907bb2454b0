//! The questions about each golden model: contexts, batches, requests, attention and cache types.

use plimsoll_goldens::judged::Question;
use plimsoll_goldens::list::{GGUF, Golden};

use super::Backend;
use Attention::{Flash, Plain};

/// The settings of one question.
#[derive(Clone, Copy)]
struct Case {
    /// Tokens over all requests.
    context: u64,
    ubatch: u64,
    parallel: u64,
    attention: Attention,
    kv: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attention {
    Flash,
    Plain,
}

const fn case(
    context: u64,
    ubatch: u64,
    parallel: u64,
    attention: Attention,
    kv: &'static str,
) -> Case {
    Case { context, ubatch, parallel, attention, kv }
}

/// The questions for a single device.
const ON_ONE: &[Case] = &[
    case(512, 128, 1, Flash, "f16"),
    case(512, 512, 1, Flash, "f16"),
    case(1000, 512, 1, Flash, "f16"),
    case(4096, 128, 1, Flash, "f16"),
    case(4096, 512, 1, Flash, "f16"),
    case(4096, 2048, 1, Flash, "f16"),
    case(8192, 512, 4, Flash, "f16"),
    case(32_768, 512, 1, Flash, "f16"),
    case(32_768, 2048, 1, Flash, "f16"),
    case(65_536, 512, 8, Flash, "f16"),
    case(131_072, 512, 1, Flash, "f16"),
    case(512, 128, 1, Plain, "f16"),
    case(512, 512, 1, Plain, "f16"),
    case(4096, 128, 1, Plain, "f16"),
    case(4096, 512, 1, Plain, "f16"),
    case(8192, 512, 4, Plain, "f16"),
    case(16_384, 512, 2, Plain, "f16"),
    case(32_768, 128, 1, Plain, "f16"),
    case(32_768, 512, 1, Plain, "f16"),
    case(32_768, 2048, 1, Plain, "f16"),
    case(16_384, 512, 1, Flash, "q8_0"),
    case(49_152, 512, 1, Flash, "q8_0"),
    case(16_384, 512, 4, Flash, "q8_0"),
    case(16_384, 512, 1, Flash, "q4_0"),
];

/// The questions with the layers split over two devices.
const ON_TWO: &[Case] = &[
    case(4096, 512, 1, Flash, "f16"),
    case(8192, 512, 4, Flash, "f16"),
    case(32_768, 512, 1, Flash, "f16"),
    case(32_768, 2048, 1, Flash, "f16"),
    case(4096, 512, 1, Plain, "f16"),
    case(16_384, 512, 1, Flash, "q8_0"),
];

/// The questions for every number of devices of the RPC backend.
const ON_SEVERAL: &[Case] = &[
    case(4096, 512, 1, Flash, "f16"),
    case(32_768, 512, 1, Flash, "f16"),
    case(32_768, 512, 4, Flash, "f16"),
    case(16_384, 512, 2, Plain, "f16"),
];

/// The questions for many devices, whose answers are long.
const ON_MANY: &[Case] = &[case(4096, 512, 1, Flash, "f16"), case(32_768, 512, 4, Flash, "f16")];

const DEVICES: [(u64, &[Case]); 5] =
    [(1, ON_SEVERAL), (2, ON_SEVERAL), (3, ON_SEVERAL), (4, ON_SEVERAL), (8, ON_MANY)];

/// Returns all questions for the RPC backend, model by model.
pub(super) fn for_devices() -> Vec<Question> {
    let models = Golden::all_gguf().map(|golden| golden.name);
    let about = |model: &'static str| {
        let on = move |(gpus, cases): (u64, &'static [Case])| {
            cases.iter().map(move |case| question(model, gpus, case))
        };
        DEVICES.into_iter().flat_map(on)
    };
    let mut all: Vec<Question> = models.flat_map(about).collect();
    all.retain(|asked| asked.gpus == 1 || !NOT_SPLIT.contains(&asked.model.as_str()));
    all
}

/// Models whose estimates for several GPUs are errors: a pass goes through their layers more than
/// once.
const NOT_SPLIT: [&str; 2] = ["hrm-text-1b", "nanbeige-3b-twice"];

/// Returns all questions about all models, model by model, those with one device first.
pub(super) fn all(backend: Backend) -> Vec<Question> {
    let on_two = if backend == Backend::Vulkan { ON_TWO } else { &[] };
    let mut all = Vec::new();
    for (gpus, cases) in [(1, ON_ONE), (2, on_two)] {
        let models = GGUF.iter().map(|golden| golden.name);
        all.extend(models.flat_map(|model| cases.iter().map(move |c| question(model, gpus, c))));
    }
    all.retain(|question| has_answer(question, backend));
    all
}

fn question(model: &str, gpus: u64, case: &Case) -> Question {
    let Case { context, ubatch, parallel, attention, kv } = *case;
    let (model, kv, flash) = (model.to_owned(), kv.to_owned(), attention == Flash);
    Question { model, context, ubatch, parallel, flash, kv, gpus }
}

/// Returns false for questions that llama.cpp cannot answer in this setup.
fn has_answer(question: &Question, backend: Backend) -> bool {
    // llama.cpp v0.5.0 aborts here: its table of graph nodes is too small.
    let aborts = question.model == "phi-4" && question.parallel > 1 && question.kv.starts_with('q');
    // A tensor of 4 GiB does not fit a Vulkan buffer; llama.cpp leaves such a matrix to the CPU.
    let too_large = backend == Backend::Vulkan && !question.flash && question.context >= 32_768;
    // One operation falls back to the CPU there, and the devices keep every layer's copies of its
    // input and output.
    let copies =
        question.gpus > 1 && question.parallel > 1 && question.model.starts_with("deepseek");
    !aborts && !too_large && !copies
}
