//! What is asked about every golden model: contexts, batches, requests at once, attention and types of cache.

use plimsoll_goldens::judged::Question;
use plimsoll_goldens::list::GGUF;

use super::Backend;

/// Context over all requests, tokens computed at once, requests at once, flash attention, type of cache.
const ASKED: &[(u64, u64, u64, bool, &str)] = &[
    (512, 128, 1, true, "f16"),
    (512, 512, 1, true, "f16"),
    (1000, 512, 1, true, "f16"),
    (4096, 128, 1, true, "f16"),
    (4096, 512, 1, true, "f16"),
    (4096, 2048, 1, true, "f16"),
    (8192, 512, 4, true, "f16"),
    (32_768, 512, 1, true, "f16"),
    (32_768, 2048, 1, true, "f16"),
    (65_536, 512, 8, true, "f16"),
    (131_072, 512, 1, true, "f16"),
    (512, 128, 1, false, "f16"),
    (512, 512, 1, false, "f16"),
    (4096, 128, 1, false, "f16"),
    (4096, 512, 1, false, "f16"),
    (8192, 512, 4, false, "f16"),
    (16_384, 512, 2, false, "f16"),
    (32_768, 128, 1, false, "f16"),
    (32_768, 512, 1, false, "f16"),
    (32_768, 2048, 1, false, "f16"),
    (16_384, 512, 1, true, "q8_0"),
    (49_152, 512, 1, true, "q8_0"),
    (16_384, 512, 4, true, "q8_0"),
    (16_384, 512, 1, true, "q4_0"),
];

/// Every question about every model, model by model.
pub(super) fn all(backend: Backend) -> Vec<Question> {
    let about = |model: &'static str| {
        ASKED.iter().map(move |&(context, ubatch, parallel, flash, kv)| Question {
            model: model.to_owned(),
            context,
            ubatch,
            parallel,
            flash,
            kv: kv.to_owned(),
        })
    };
    GGUF.iter().flat_map(|golden| about(golden.name)).filter(|question| answered(question, backend)).collect()
}

fn answered(question: &Question, backend: Backend) -> bool {
    // llama.cpp v0.5.0 does not refuse this, but ends the process: its table of graph nodes is too small.
    let aborts = question.model == "phi-4" && question.parallel > 1 && question.kv.starts_with('q');
    // A tensor of 4 GiB has no place on a Vulkan device; llama.cpp leaves such a matrix to the CPU.
    let too_large = backend == Backend::Vulkan && !question.flash && question.context >= 32_768;
    !aborts && !too_large
}
