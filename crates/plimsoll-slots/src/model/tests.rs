//! Valid and invalid declarations, and the fields that errors name.

use super::*;

fn declare(text: &str) -> Result<Model, String> {
    let text = format!("name: m\n{text}");
    let declared: Declaration = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
    Model::try_from(declared).map_err(|error| error.to_string())
}

fn declare_command(rest: &str) -> Result<Model, String> {
    declare(&format!("runtime: {{command: {{argv: [serve]}}}}\n{rest}"))
}

fn assert_rejected(declare: fn(&str) -> Result<Model, String>, cases: &[(&str, &str)]) {
    for (text, part) in cases {
        let error = declare(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_total_is_split_evenly_and_rounded_up() {
    let model = declare_command("memory: 10\ntensor_parallel: [1, 3]").expect("it is valid");
    let on = |gpus| {
        let sizes = model.memory_on(gpus).expect("it is declared");
        sizes.iter().map(|size| size.0.get()).collect::<Vec<_>>()
    };
    assert_eq!((on(1), on(3)), (vec![10], vec![4, 4, 4]));
    assert_eq!(model.sizes(), [1, 3]);
}

#[test]
fn a_list_states_the_number_of_gpus() {
    let sizes = |rest| declare_command(rest).expect("it is valid").sizes().to_vec();
    assert_eq!(sizes("memory: [1GiB, 2GiB]"), [2]);
    assert_eq!(sizes("gpus: 0"), [0_u16; 0]);
    assert_eq!(declare_command("").expect("unknown memory is valid").memory_on(1), None);
}

#[test]
fn an_invalid_declaration_is_rejected_with_its_field() {
    assert_rejected(
        declare_command,
        &[
            ("memroy: 1", "memroy"),
            ("memory: 8 gigs", "8 gigs"),
            ("memory: -1", "-1"),
            ("concurrency: 0", "concurrency: must be at least 1"),
            ("max_slots: 0", "max_slots: must be at least 1"),
            ("gpus: 2\ntensor_parallel: [1]", "gpus: is 2, but tensor_parallel is [1]"),
            ("tensor_parallel: [0, 1]", "contains 0"),
            ("memory: 1GiB\ntensor_parallel: [0]", "tensor_parallel: [0] contains 0"),
            ("memory: 0", "memory: must not be 0"),
            ("memory: [1GiB, 0]", "memory: must not be 0"),
            ("memory: []", "memory: a model with gpus: 0"),
            ("tensor_parallel: [65]", "65 GPUs"),
            ("gpus: 0\nmemory: 1GiB", "memory: a model with gpus: 0"),
            ("gpus: 0\nmemory: measure", "memory: a model with gpus: 0"),
            ("gpus: 3\nmemory: [1GiB, 1GiB]", "lists 2 GPUs"),
            ("idle_limit: 5", "5"),
            ("tensor_parallel: []", "must not be an empty list"),
            ("where: []", "mapping"),
            ("where: {required: []}", "mapping"),
            ("where: {required: {uuids: []}}", "must not be an empty list"),
            ("vendor: \"\"", "vendor: must not be empty"),
            ("where: {required: {label: {a: b}}}", "label"),
            (
                "where: {required: {gpu_models: [A]}, preferred: {gpu_models: [B]}}",
                "where.preferred.gpu_models: required also",
            ),
        ],
    );
    assert_rejected(
        |name| {
            let valid = declare_command("").expect("it is valid").declared().clone();
            let renamed = Declaration { name: name.to_string(), ..valid };
            Model::try_from(renamed).map_err(|error| error.to_string())
        },
        &[("", "name: must have 1 to 200"), ("a b", "name: must not contain ' '")],
    );
}

#[test]
fn files_beside_a_model_are_llama_cpps_and_have_absolute_paths() {
    let declared = |runtime: &str, option: &str| {
        declare(&format!("file: /m\ncontext: 1\nruntime: {{{runtime}: {{model: m, {option}}}}}"))
    };
    for option in ["mmproj: /p", "lora: [/a, /b]", "draft: /d"] {
        let llama_cpp = format!("file: /m\ncontext: 1\nruntime: {{llama_cpp: {{{option}}}}}");
        assert!(declare(&llama_cpp).is_ok(), "{option}");
        for runtime in ["vllm", "ollama"] {
            let error = declared(runtime, option).expect_err("is rejected");
            let name = option.split(':').next().expect("a name");
            let expected = format!("runtime.{runtime}.{name}: is not supported by {runtime}");
            assert!(error.contains(&expected), "{error}");
        }
    }
    for (option, field) in
        [("mmproj: p", "mmproj"), ("lora: [/a, b]", "lora"), ("draft: \"\"", "draft")]
    {
        let text = format!("file: /m\ncontext: 1\nruntime: {{llama_cpp: {{{option}}}}}");
        let error = declare(&text).expect_err("is rejected");
        assert!(error.contains(&format!("runtime.llama_cpp.{field}")), "{error}");
        assert!(error.contains("is not an absolute path"), "{error}");
    }
}

#[test]
fn vllm_cannot_be_measured_because_it_uses_what_it_is_given() {
    let declared = |runtime: &str| {
        declare(&format!("context: 4096\nmemory: measure\nruntime: {{{runtime}: {{model: x}}}}"))
    };
    assert!(declared("llama_cpp").is_ok() && declared("ollama").is_ok());
    let error = declared("vllm").expect_err("it is invalid");
    assert!(error.contains("memory: vLLM uses all memory that it is given"), "{error}");
}

#[test]
fn a_command_uses_only_known_placeholders() {
    fn declare_argv(command: &str) -> Result<Model, String> {
        declare(&format!("memory: 1GiB\nruntime: {{command: {command}}}"))
    }
    let valid = r#"{argv: [serve, "--port={port}", "{{literal}}"], ready: /health, grace: 1s}"#;
    assert!(declare_argv(valid).is_ok(), "{:?}", declare_argv(valid));
    assert_rejected(
        declare_argv,
        &[
            ("{argv: []}", "runtime.command: argv is empty"),
            (r#"{argv: [serve, "{prot}"]}"#, "unknown placeholder {prot}"),
            (r#"{argv: [serve, "{context}"]}"#, "declares no context"),
            (r#"{argv: [serve, "{port"]}"#, "{port"),
            (r#"{argv: [serve], graec: 1s}"#, "graec"),
            (
                "{argv: [serve], ready: /health}",
                "runtime.command.ready: no argument and no variable contains {port}",
            ),
            (
                r#"{argv: [serve, "{{port}}"], ready: /health}"#,
                "runtime.command.ready: no argument and no variable contains {port}",
            ),
            (r#"{argv: [serve, "{port}"], ready: health}"#, "must be a path such as /health"),
            (r#"{argv: [serve, "{port}"], ready: "/a b"}"#, "must be a path such as /health"),
            (
                r#"{argv: [serve, "{port}"], ready: "/a\r\nHost: b"}"#,
                "runtime.command.ready: \"/a\\r\\nHost: b\" contains '\\r'",
            ),
            (r#"{argv: [serve, "a\0b"]}"#, "runtime.command.argv: \"a\\0b\" contains '\\0'"),
            (r#"{argv: [serve], env: {A: "a\0b"}}"#, "runtime.command.env"),
            (r#"{argv: [serve], env: {"": b}}"#, "runtime.command.env: has the variable \"\""),
            (r#"{argv: [serve], env: {"A=B": c}}"#, "has the variable \"A=B\""),
            (
                r#"{argv: [serve], env: {CUDA_VISIBLE_DEVICES: "0"}}"#,
                "runtime.command.env: sets CUDA_VISIBLE_DEVICES",
            ),
        ],
    );
}

#[test]
fn the_examples_are_valid_and_read_back_as_they_are_written() {
    for (file, text) in [
        ("vllm", include_str!("../../../../examples/models-vllm.yaml")),
        ("llama-cpp", include_str!("../../../../examples/models-llama-cpp.yaml")),
        ("ollama", include_str!("../../../../examples/models-ollama.yaml")),
    ] {
        let models: Vec<Model> =
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for model in models {
            let json = serde_json::to_string(&model).expect("it is serialised");
            let read: Model = serde_json::from_str(&json).expect("it is deserialised");
            assert_eq!(read, model, "{file}");
        }
    }
}

#[test]
fn settings_that_a_runtime_does_not_support_are_rejected_with_their_field() {
    assert_rejected(
        |runtime| declare(&format!("context: 4096\n{runtime}")),
        &[
            (
                "memory: 8GiB\nkv: q8_0\nruntime: {vllm: {model: a/b}}",
                "kv: vllm does not support KV cache type q8_0",
            ),
            ("kv: q9\nruntime: {vllm: {model: a/b}}", "unknown KV cache type `q9`"),
            (
                "memory: 1GiB\nruntime: {vllm: {model: a/b}}",
                "memory: the charge of 1 GiB leaves nothing for the model",
            ),
            ("gpus: 0\nruntime: {vllm: {model: a/b}}", "gpus: vllm needs a GPU"),
            (
                "tensor_parallel: [2, 3]\nruntime: {vllm: {model: a/b, heads: 64}}",
                "tensor_parallel: 3 GPUs do not divide the model's 64 attention heads",
            ),
            (
                "runtime: {vllm: {model: a/b, args: [--gpu-mem=0.95]}}",
                "runtime.vllm.args: --gpu-mem means --gpu-memory-utilization, which is set from \
                 `memory`",
            ),
            (
                "runtime: {vllm: {model: a/b, env: {VLLM_DP_SIZE: '2'}}}",
                "runtime.vllm.env: VLLM_DP_SIZE is not allowed",
            ),
            (
                "runtime: {vllm: {model: a/b, env: {CUDA_VISIBLE_DEVICES: '0'}}}",
                "runtime.vllm.env: sets CUDA_VISIBLE_DEVICES",
            ),
            ("runtime: {vllm: {}}", "runtime.vllm.model: is missing"),
            ("runtime: {vllm: {model: --config}}", "runtime.vllm.model: model is \"--config\""),
            ("runtime: {vllm: {model: a/b, ubatch: 1}}", "runtime.vllm.ubatch: is not supported"),
            ("file: /m\nruntime: {llama_cpp: {heads: 8}}", "llama_cpp.heads: is not supported"),
            ("runtime: {ollama: {}}", "runtime.ollama.model: is missing"),
            ("runtime: {vllm: {model: a/b, overheda: 1GiB}}", "overheda"),
            ("file: /m.gguf\nruntime: {llama_cpp: {args: [-c, '1']}}", "-c is set from `context`"),
            ("file: m.gguf\nruntime: {llama_cpp: {}}", "file: \"m.gguf\" is not an absolute path"),
            ("file: /m\nruntime: {llama_cpp: {model: /n}}", "declare only one of the two"),
            (
                "file: /m\nkv: q8_0\nruntime: {llama_cpp: {flash_attention: false}}",
                "kv: KV cache type q8_0 for values requires flash attention",
            ),
            (
                "file: /m\ngpus: 16\nruntime: {llama_cpp: {}}",
                "gpus: llama.cpp supports at most 15 GPUs",
            ),
            ("runtime: {ollama: {model: q, args: [-v]}}", "args"),
            (
                "kv: f16/q8_0\nruntime: {ollama: {model: q}}",
                "kv: ollama supports only one KV cache type",
            ),
            ("runtime: {sglang: {model: q}}", "sglang"),
        ],
    );
    assert_rejected(
        declare,
        &[
            ("runtime: {vllm: {model: a/b}}", "context: is missing"),
            ("context: 0\nruntime: {vllm: {model: a/b}}", "context: context is 0"),
        ],
    );
}

#[test]
fn a_model_with_unknown_memory_is_valid() {
    for rest in [
        "context: 4096\nruntime: {vllm: {model: a/b}}",
        "context: 4096\nfile: /m.gguf\nkv: q8_0/q4_0\nruntime: {llama_cpp: {}}",
        "context: 4096\ntensor_parallel: [1, 2]\nruntime: {ollama: {model: q}}",
        "file: /m.gguf\nkv: q8_0\nruntime: {command: {argv: [serve]}}",
    ] {
        assert!(declare(rest).is_ok(), "{rest}: {:?}", declare(rest));
    }
}
