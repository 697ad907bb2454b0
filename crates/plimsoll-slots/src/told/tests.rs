//! What a declaration with a runtime may say, and what is refused when it is declared.

use crate::model::Model;

fn read(rest: &str) -> Result<Model, String> {
    serde_saphyr::from_str(&format!("name: m\n{rest}")).map_err(|error| error.to_string())
}

#[test]
fn the_examples_can_be_declared_and_written_back() {
    for (file, text) in [
        ("vllm", include_str!("../../../../examples/models-vllm.yaml")),
        ("llama-cpp", include_str!("../../../../examples/models-llama-cpp.yaml")),
        ("ollama", include_str!("../../../../examples/models-ollama.yaml")),
    ] {
        let models: Vec<Model> =
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for model in models {
            let json = serde_json::to_string(&model).expect("it can be written");
            assert_eq!(
                serde_json::from_str::<Model>(&json).expect("it can be read back"),
                model,
                "{file}"
            );
        }
    }
}

#[test]
fn what_a_runtime_cannot_be_told_is_refused_with_its_field() {
    const VLLM: &str = "runtime: {vllm: {model: a/b}}";
    for (rest, part) in [
        (
            "context: 4096\nmemory: 8GiB\nkv: q8_0\nruntime: {vllm: {model: a/b}}",
            "kv: vllm does not support KV cache type q8_0",
        ),
        ("context: 4096\nkv: q9\nruntime: {vllm: {model: a/b}}", "unknown KV cache type `q9`"),
        (VLLM, "context: it is missing"),
        ("context: 0\nruntime: {vllm: {model: a/b}}", "context: context is 0"),
        (
            "context: 4096\nmemory: 1GiB\nruntime: {vllm: {model: a/b}}",
            "memory: the charge of 1 GiB leaves nothing for the model",
        ),
        ("context: 4096\ngpus: 0\nruntime: {vllm: {model: a/b}}", "gpus: vllm needs a GPU"),
        (
            "context: 4096\ntensor_parallel: [2, 3]\nruntime: {vllm: {model: a/b, heads: 64}}",
            "tensor_parallel: 3 GPUs do not divide the model's 64 attention heads",
        ),
        (
            "context: 4096\nruntime: {vllm: {model: a/b, args: [--gpu-mem=0.95]}}",
            "runtime.vllm.args: --gpu-mem means --gpu-memory-utilization, which is set from `memory`",
        ),
        (
            "context: 4096\nruntime: {vllm: {model: a/b, env: {VLLM_DP_SIZE: '2'}}}",
            "runtime.vllm.env: VLLM_DP_SIZE is not allowed",
        ),
        (
            "context: 4096\nruntime: {vllm: {model: a/b, env: {CUDA_VISIBLE_DEVICES: '0'}}}",
            "runtime.vllm.env: it sets CUDA_VISIBLE_DEVICES",
        ),
        ("context: 4096\nruntime: {vllm: {}}", "runtime.vllm.model: it is missing"),
        (
            "context: 4096\nruntime: {vllm: {model: --config}}",
            "runtime.vllm.model: model is \"--config\"",
        ),
        ("context: 4096\nruntime: {vllm: {model: a/b, ubatch: 1}}", "ubatch"),
        (
            "context: 4096\nfile: /m.gguf\nruntime: {llama_cpp: {args: [-c, '1']}}",
            "-c is set from `context`",
        ),
        (
            "context: 4096\nfile: m.gguf\nruntime: {llama_cpp: {}}",
            "file: \"m.gguf\" is not a path from the root",
        ),
        ("context: 4096\nfile: /m\nruntime: {llama_cpp: {model: /n}}", "write one of the two"),
        (
            "context: 4096\nfile: /m\nkv: q8_0\nruntime: {llama_cpp: {flash_attention: false}}",
            "kv: KV cache type q8_0 for values requires flash attention",
        ),
        (
            "context: 4096\nfile: /m\ngpus: 16\nruntime: {llama_cpp: {}}",
            "gpus: llama.cpp supports at most 15 GPUs",
        ),
        ("context: 4096\nruntime: {ollama: {model: q, args: [-v]}}", "args"),
        (
            "context: 4096\nkv: f16/q8_0\nruntime: {ollama: {model: q}}",
            "kv: ollama supports only one KV cache type",
        ),
        ("context: 4096\nruntime: {sglang: {model: q}}", "sglang"),
    ] {
        let error = read(rest).expect_err(rest);
        assert!(error.contains(part), "{rest}: {error}");
    }
}

#[test]
fn a_model_whose_memory_is_not_known_yet_can_be_declared() {
    for rest in [
        "context: 4096\nruntime: {vllm: {model: a/b}}",
        "context: 4096\nfile: /m.gguf\nkv: q8_0/q4_0\nruntime: {llama_cpp: {}}",
        "context: 4096\ntensor_parallel: [1, 2]\nruntime: {ollama: {model: q}}",
        "file: /m.gguf\nkv: q8_0\nruntime: {command: {argv: [serve]}}",
    ] {
        assert!(read(rest).is_ok(), "{rest}: {:?}", read(rest));
    }
}
