//! Real models, written from their cards and read back: the results match published numbers.

use std::path::Path;

use plimsoll_goldens::gguf::Body;
use plimsoll_goldens::list::{GGUF, Golden, SAFETENSORS};
use plimsoll_goldens::{gguf, safetensors};
use plimsoll_models::estimate::{Estimate, estimate};
use plimsoll_models::reader::read_model;
use plimsoll_models::settings::{KvType, KvTypes, RuntimeKind, Settings};
use plimsoll_models::shape::Shape;

/// Rounds to hundredths of a MiB, as llama.cpp prints sizes.
fn hundredths(bytes: u64) -> u64 {
    u64::try_from((u128::from(bytes) * 100 + (1 << 19)) >> 20).expect("the size fits in 64 bits")
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("creates a directory")
}

fn write_and_read_gguf(golden: &Golden, directory: &Path, body: Body) -> Shape {
    let path = directory.join(format!("{}.gguf", golden.name));
    gguf::write(&golden.card().expect("the card is valid"), &path, body).expect("writes the file");
    read_model(&path).expect(golden.name)
}

fn read_gguf(name: &str) -> Shape {
    write_and_read_gguf(Golden::gguf(name).expect(name), directory().path(), Body::Missing)
}

fn read_safetensors(golden: &Golden, shards: usize, body: Body) -> Shape {
    let directory = directory();
    let card = golden.card().expect("the card is valid");
    safetensors::write(&card, directory.path(), shards, body).expect("writes the directory");
    read_model(directory.path()).expect(golden.name)
}

fn tensor_bytes(shape: &Shape) -> u64 {
    let weights = shape.weights.get().expect("the weights are known");
    let parts = [weights.embedding, weights.input, weights.output, weights.other];
    weights.layers.iter().chain(&parts).map(|bytes| bytes.get()).sum()
}

fn llama(shape: &Shape, context: u64, kv: KvType) -> Estimate {
    let settings =
        Settings { kv: KvTypes::both(kv), ..Settings::new(RuntimeKind::LlamaCpp, context) };
    estimate(shape, &settings).expect("estimates")
}

fn bytes(part: &plimsoll_models::estimate::Part) -> u64 {
    part.bytes.expect("the part is known").get()
}

#[test]
fn gguf_models_are_read_with_and_without_tensor_data() {
    let directory = directory();
    for golden in GGUF {
        let weights = golden.card().expect("the card is valid").weights();
        for body in [Body::Missing, Body::Sparse] {
            let shape = write_and_read_gguf(golden, directory.path(), body);
            assert_eq!(tensor_bytes(&shape), weights, "{}", golden.name);
            let estimate = llama(&shape, 4096, KvType::F16);
            assert_eq!(estimate.missing(), None, "{}", golden.name);
        }
    }
}

#[test]
fn safetensors_models_are_read_from_one_file_and_from_shards() {
    for golden in SAFETENSORS {
        let weights = golden.card().expect("the card is valid").weights();
        for (shards, body) in [(1, Body::Missing), (3, Body::Sparse)] {
            let shape = read_safetensors(golden, shards, body);
            assert_eq!(tensor_bytes(&shape), weights, "{}", golden.name);
            let estimate =
                estimate(&shape, &Settings::new(RuntimeKind::Vllm, 4096)).expect(golden.name);
            assert_eq!(estimate.missing(), None, "{}", golden.name);
        }
    }
}

/// The sizes of all tensors in published logs of llama.cpp, in hundredths of a MiB.
#[test]
fn published_gguf_sizes_are_matched() {
    for (name, printed, _source) in [
        // "CPU_Mapped model buffer size = 4685.30 MiB", in logs of
        // Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf.
        ("llama-3-8b", 468_530, "llama.cpp's log of Llama 3.1 8B, Q4_K_M"),
        // "file size = 17.28 GiB (4.86 BPW)"; 17691.34 MiB is 17.2767 GiB.
        ("qwen3-30b-a3b", 1_769_134, "ggml-org/llama.cpp#14235"),
    ] {
        assert_eq!(hundredths(tensor_bytes(&read_gguf(name))), printed, "{name}");
    }
    // "CUDA0 model buffer size = 17295.40 MiB": all but the token embeddings. The types on the card
    // were chosen to match it.
    let device = llama(&read_gguf("mistral-small-22b"), 49_152, KvType::Q8_0).all.weights;
    assert_eq!(hundredths(bytes(&device)), 1_729_540, "ollama/ollama#6160");
}

/// The numbers of tensors of each type in published logs of llama.cpp.
#[test]
fn published_tensor_types_match_the_cards() {
    for (name, listed, source) in [
        (
            "qwen3-30b-a3b",
            &[("f32", 241), ("q4_K", 289), ("q6_K", 49)][..],
            "ggml-org/llama.cpp#14235",
        ),
        (
            "phi-3-mini",
            &[("f32", 65), ("q4_K", 81), ("q5_K", 32), ("q6_K", 17)],
            "ggml-org/llama.cpp#11003",
        ),
    ] {
        let card = Golden::gguf(name).expect(name).card().expect("the card is valid");
        for (dtype, count) in listed {
            let found = card.tensors.iter().filter(|tensor| tensor.dtype.name == *dtype).count();
            assert_eq!(found, *count, "{name} {dtype}, {source}");
        }
        let all: usize = listed.iter().map(|(_, count)| count).sum();
        assert_eq!(card.tensors.len(), all, "{name}, {source}");
    }
}

/// "KV self size" and "KV buffer size" in published logs, in hundredths of a MiB.
#[test]
fn published_llama_cpp_caches_are_matched() {
    for (name, context, kv, printed, source) in [
        ("mistral-small-22b", 49_152, KvType::Q8_0, 571_200, "ollama/ollama#6160"),
        ("qwen3-235b-a22b", 16_384, KvType::Q8_0, 159_800, "ikawrakow/ik_llama.cpp#370"),
        ("qwen2.5-3b", 4096, KvType::F16, 14_400, "SciSharp/LLamaSharp#1099"),
        ("deepseek-v3", 32_768, KvType::Q8_0, 116_662, "ikawrakow/ik_llama.cpp#296"),
        (
            "llama-3-8b",
            8192,
            KvType::F16,
            102_400,
            "llama.cpp's log of Llama 3.1 8B, 4 requests of 2048",
        ),
    ] {
        let cache = bytes(&llama(&read_gguf(name), context, kv).all.kv);
        assert!(hundredths(cache).abs_diff(printed) <= 1, "{name}: {cache}, {source}");
    }
}

/// "CUDA0 compute buffer size" in published logs, in hundredths of a MiB. The estimate is above
/// it by at most a tenth of the total. Two of the logs are of versions that kept the scores of a
/// whole batch of 512 tokens, which are subtracted: 4 bytes for each of 151,936 tokens.
#[test]
fn published_compute_buffers_are_lower_bounds() {
    const SCORES: u64 = 29_675;
    for (name, context, printed, source) in [
        // The log has two GPUs; this one computes the output.
        ("qwen3-235b-a22b", 16_384, 31_275 - SCORES, "ikawrakow/ik_llama.cpp#370"),
        ("qwen2.5-3b", 4096, 30_075 - SCORES, "SciSharp/LLamaSharp#1099"),
        ("mistral-small-22b", 49_152, 19_200, "ollama/ollama#6160"),
    ] {
        let estimate = llama(&read_gguf(name), context, KvType::Q8_0);
        let compute = hundredths(bytes(&estimate.all.compute));
        assert!(compute >= printed, "{name}: {compute}, {source}");
        let total = hundredths(bytes(&estimate.all.weights) + bytes(&estimate.all.kv)) + printed;
        assert!(compute - printed <= total / 10, "{name}: {compute}, {source}");
    }
}

/// The models' parameter counts, which give the bytes of a model with a single type. They were
/// written from memory and not looked up.
#[test]
fn published_parameter_counts_are_matched() {
    for (name, parameters, each) in [
        ("llama-3-8b", 8_030_261_248, 2),
        ("mistral-7b-v0.3", 7_248_023_552, 2),
        ("mixtral-8x7b", 46_702_792_704, 2),
        ("qwen2.5-3b", 3_085_938_688, 2),
        ("qwen3-8b", 8_190_735_360, 2),
        ("qwen3-30b-a3b", 30_532_122_624, 2),
        ("gemma-2-9b", 9_241_705_984, 4),
        ("gemma-3-12b", 12_187_325_040, 2),
        ("deepseek-v2-lite", 15_706_484_224, 2),
        ("phi-3-mini", 3_821_079_552, 2),
        ("phi-4", 14_659_507_200, 2),
        ("nemotron-nano-9b-v2", 8_888_227_328, 2),
        // `metadata.total_size` of its index, in bytes; also from memory.
        ("gpt-oss-20b", 13_761_264_768, 1),
    ] {
        let golden = Golden::safetensors(name).expect(name);
        assert_eq!(
            tensor_bytes(&read_safetensors(golden, 2, Body::Missing)),
            parameters * each,
            "{name}"
        );
    }
}

/// "#tokens" and "K size" in a log of SGLang, which pages its cache as vLLM does. The keys are half
/// of the estimated cache.
#[test]
fn published_paged_caches_are_matched() {
    // 122420 tokens, K size 5.60 GiB, V size 5.60 GiB: kvcache-ai/ktransformers#1971.
    let shape = read_safetensors(
        Golden::safetensors("qwen3-30b-a3b").expect("the card exists"),
        1,
        Body::Missing,
    );
    let settings = Settings::new(RuntimeKind::Vllm, 122_420);
    let cache = bytes(&estimate(&shape, &settings).expect("estimates").all.kv);
    let printed = 2 * 560;
    let gib_hundredths = (u128::from(cache) * 100) >> 30;
    assert!(gib_hundredths.abs_diff(printed) * 50 <= printed, "{gib_hundredths}");
}
