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

/// What is asked again with the layers dealt to two devices.
const ON_TWO: &[(u64, u64, u64, bool, &str)] = &[
    (4096, 512, 1, true, "f16"),
    (8192, 512, 4, true, "f16"),
    (32_768, 512, 1, true, "f16"),
    (32_768, 2048, 1, true, "f16"),
    (4096, 512, 1, false, "f16"),
    (16_384, 512, 1, true, "q8_0"),
];

/// Every question about every model, model by model, those with one device first.
pub(super) fn all(backend: Backend) -> Vec<Question> {
    let on_two = if backend == Backend::Vulkan { ON_TWO } else { &[] };
    let mut all = Vec::new();
    for (gpus, asked) in [(1, ASKED), (2, on_two)] {
        all.extend(
            GGUF.iter()
                .flat_map(|golden| asked.iter().map(|asked| question(golden.name, gpus, asked))),
        );
    }
    all.into_iter().filter(|question| answered(question, backend)).collect()
}

fn question(model: &str, gpus: u64, asked: &(u64, u64, u64, bool, &str)) -> Question {
    let (context, ubatch, parallel, flash, kv) = *asked;
    Question { model: model.to_owned(), context, ubatch, parallel, flash, kv: kv.to_owned(), gpus }
}

fn answered(question: &Question, backend: Backend) -> bool {
    // llama.cpp v0.5.0 does not refuse this, but ends the process: its table of graph nodes is too small.
    let aborts = question.model == "phi-4" && question.parallel > 1 && question.kv.starts_with('q');
    // A tensor of 4 GiB has no place on a Vulkan device; llama.cpp leaves such a matrix to the CPU.
    let too_large = backend == Backend::Vulkan && !question.flash && question.context >= 32_768;
    // One operation is left to the CPU there, and every layer's copies of what goes to and fro stay on the devices.
    let fro = question.gpus > 1 && question.parallel > 1 && question.model.starts_with("deepseek");
    !aborts && !too_large && !fro
}
