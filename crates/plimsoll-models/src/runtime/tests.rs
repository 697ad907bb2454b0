//! Tests of the launch commands: rendered flags, rejected records, reserved options.

use proptest::prelude::*;

use super::*;
use crate::estimate::LayerCounts;
use crate::settings::KvType;
use crate::shape::Cache;
use overhead::Overhead;
use plimsoll_core::units::Bytes;

fn spec(runtime: RuntimeKind, gpus: usize, charge: Bytes, total: Bytes) -> LaunchSpec {
    let settings = Settings { gpus: gpus as u64, parallel: 4, ..Settings::new(runtime, 8192) };
    let devices = vec![DeviceCharge { charge, total: Some(total) }; gpus];
    let overhead = Overhead::declared(Bytes::gib(1));
    let layers = LayerSplit::Equal;
    let model = "m".to_string();
    let memory = MemoryBasis::Known;
    let additions = AddedPaths::default();
    let heads = None;
    LaunchSpec {
        program: None,
        model,
        settings,
        devices,
        memory,
        overhead,
        additions,
        heads,
        layers,
    }
}

fn on_one_gpu(runtime: RuntimeKind) -> LaunchSpec {
    spec(runtime, 1, Bytes::gib(39), Bytes::gib(80))
}

fn rendered(spec: &LaunchSpec) -> LaunchCommand {
    render(spec, &UserOptions::default()).expect("renders")
}

fn rejection(spec: &LaunchSpec) -> (&'static str, String) {
    let error = render(spec, &UserOptions::default()).expect_err("is rejected");
    (error.field(), error.to_string())
}

fn user_options(args: &[&str], env: &[&str]) -> UserOptions {
    UserOptions {
        args: args.iter().map(ToString::to_string).collect(),
        env: env.iter().map(|name| (name.to_string(), "1".to_string())).collect(),
    }
}

/// Returns the word after a flag.
fn value<'a>(argv: &'a [String], flag: &str) -> &'a str {
    let index = argv
        .iter()
        .position(|word| word == flag)
        .unwrap_or_else(|| panic!("{flag} is in {argv:?}"));
    &argv[index + 1]
}

#[test]
fn vllm_flags_follow_the_spec() {
    let mut spec = spec(RuntimeKind::Vllm, 2, Bytes::gib(70), Bytes::gib(80));
    spec.settings.kv = KvTypes::both(KvType::Fp8);
    let command = rendered(&spec);
    assert_eq!(
        command.argv.join(" "),
        "vllm serve m --host {host} --port {port} --tensor-parallel-size 2 --max-model-len 8192 --max-num-seqs 4 \
         --max-num-batched-tokens 2048 --kv-cache-dtype fp8 --gpu-memory-utilization 0.8625"
    );
    assert_eq!((command.ready, command.memory_ratio.as_deref()), ("/health", Some("0.8625")));
    assert_eq!(command.env["VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"], "1");
}

#[test]
fn the_share_excludes_the_overhead() {
    let ratio = |gpus, charge, overhead| {
        let mut spec = spec(RuntimeKind::Vllm, gpus, Bytes::gib(charge), Bytes::gib(80));
        spec.overhead = Overhead::declared(Bytes::gib(overhead));
        rendered(&spec).memory_ratio.expect("vLLM has a share")
    };
    assert_eq!((ratio(1, 39, 0), ratio(1, 39, 2)), ("0.4875".to_string(), "0.4625".to_string()));
    assert_eq!((ratio(2, 70, 0), ratio(2, 70, 2)), ("0.8750".to_string(), "0.8500".to_string()));
}

#[test]
fn the_smallest_share_is_used_for_unequal_gpus() {
    let mut spec = spec(RuntimeKind::Vllm, 2, Bytes::gib(21), Bytes::gib(80));
    spec.devices[1].total = Some(Bytes::gib(24));
    assert_eq!(rendered(&spec).memory_ratio.as_deref(), Some("0.2500"));
}

#[test]
fn a_charge_above_the_gpu_is_rejected_and_not_clamped() {
    for runtime in RuntimeKind::ALL {
        let (field, reason) = rejection(&spec(runtime, 1, Bytes::gib(16), Bytes::gib(12)));
        assert_eq!(
            (field, reason.as_str()),
            ("memory", "the charge of 16 GiB exceeds the GPU's 12 GiB")
        );
    }
}

#[test]
fn a_charge_within_the_overhead_is_rejected() {
    for runtime in RuntimeKind::ALL {
        let (field, reason) = rejection(&spec(runtime, 1, Bytes::gib(1), Bytes::gib(80)));
        assert_eq!(field, "memory");
        assert!(reason.contains("uses 1 GiB (declared)"), "{reason}");
    }
    let mut unknown = on_one_gpu(RuntimeKind::Vllm);
    unknown.devices[0].total = None;
    assert_eq!(rejection(&unknown).0, "memory");
}

#[test]
fn vllm_gpus_must_divide_the_heads() {
    let split = |gpus: usize, attention, kv| {
        let mut spec = spec(RuntimeKind::Vllm, gpus, Bytes::gib(39), Bytes::gib(80));
        spec.heads = Some(Heads { attention, kv });
        render(&spec, &UserOptions::default()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(
        split(3, 64, None),
        Err("3 GPUs do not divide the model's 64 attention heads".to_string())
    );
    assert!(split(6, 48, Some(8)).is_err_and(|reason| reason.contains("8 KV heads")));
    assert_eq!(
        [split(2, 64, Some(8)), split(8, 64, Some(4)), split(1, 7, Some(7))],
        [Ok(()), Ok(()), Ok(())]
    );
    assert!(
        rejection(&spec(RuntimeKind::Vllm, 0, Bytes::ZERO, Bytes::ZERO)).1.contains("needs a GPU")
    );
}

#[test]
fn heads_are_the_common_divisor_of_all_layers() {
    let layers = |kv_heads: &[u64]| -> Vec<Cache> {
        let cache = |kv_heads: &u64| Cache::Grouped {
            kv_heads: *kv_heads,
            key_length: 128,
            value_length: 128,
            window: None,
        };
        kv_heads.iter().map(cache).collect()
    };
    let heads = |attention, kv| Some(Heads { attention, kv });
    assert_eq!(Heads::common(&[64, 64], &layers(&[8, 8])), heads(64, Some(8)));
    assert_eq!(Heads::common(&[64, 48, 0], &layers(&[8, 4])), heads(16, None));
    assert_eq!(Heads::common(&[], &layers(&[8])), None);
}

#[test]
fn llama_server_flags_follow_the_spec() {
    let mut spec = on_one_gpu(RuntimeKind::LlamaCpp);
    spec.settings.kv = KvTypes { k: KvType::Q8_0, v: KvType::Q4_0 };
    assert_eq!(
        rendered(&spec).argv.join(" "),
        "llama-server --model m --host {host} --port {port} --ctx-size 32768 --parallel 4 --no-kv-unified \
         --cache-type-k q8_0 --cache-type-v q4_0 --flash-attn on --batch-size 2048 --ubatch-size 512 --fit off \
         --cache-ram 0 --n-gpu-layers all --split-mode none --main-gpu 0"
    );
}

#[test]
fn prompts_are_kept_in_host_memory_only_if_the_user_says_how_much() {
    let spec = on_one_gpu(RuntimeKind::LlamaCpp);
    for given in ["--cache-ram", "-cram", "--cache_ram"] {
        let args = [given, "4096"].map(str::to_string).to_vec();
        let user = UserOptions { args, ..UserOptions::default() };
        let argv = render(&spec, &user).expect("renders").argv;
        assert!(argv.ends_with(&[given.to_string(), "4096".to_string()]), "{argv:?}");
        let limits = argv.iter().filter(|word| ["--cache-ram", given].contains(&word.as_str()));
        assert_eq!(limits.count(), 1, "{argv:?}");
    }
}

#[test]
fn files_beside_a_model_are_declared_as_such_or_need_declared_memory() {
    let mut spec = on_one_gpu(RuntimeKind::LlamaCpp);
    for (flag, answer) in [
        ("--mmproj", "declare that instead"),
        ("--lora", "declare that instead"),
        ("-md", "declare that instead"),
        ("--spec-type", "needs declared `memory`"),
        ("--control-vector", "needs declared `memory`"),
        ("--image-max-tokens", "needs declared `memory`"),
    ] {
        let args = [flag, "value"].map(str::to_string).to_vec();
        let user = UserOptions { args, ..UserOptions::default() };
        spec.memory = MemoryBasis::Known;
        let error = render(&spec, &user).expect_err("is rejected").to_string();
        assert!(error.contains(answer), "{error}");
        spec.memory = MemoryBasis::Declared;
        assert!(render(&spec, &user).expect("renders").argv.contains(&flag.to_string()));
    }
}

#[test]
fn declared_files_beside_a_model_become_flags() {
    let mut spec = on_one_gpu(RuntimeKind::LlamaCpp);
    let alone = render(&spec, &UserOptions::default()).expect("renders").argv;
    spec.additions = AddedPaths {
        projector: Some("/m/mmproj.gguf".to_string()),
        adapters: vec!["/m/a.gguf".to_string(), "/m/b.gguf".to_string()],
        draft: Some("/m/draft.gguf".to_string()),
    };
    let argv = render(&spec, &UserOptions::default()).expect("renders").argv.join(" ");
    let added = argv.strip_prefix(&alone.join(" ")).expect("they follow the other flags");
    assert_eq!(
        added,
        " --mmproj /m/mmproj.gguf --lora /m/a.gguf,/m/b.gguf --spec-draft-model /m/draft.gguf \
         --spec-type draft-simple --spec-draft-n-max 3 --spec-draft-ngl all \
         --spec-draft-type-k f16 --spec-draft-type-v f16"
    );
}

#[test]
fn the_layers_are_split_as_they_are_charged() {
    let split = |layers: LayerSplit| {
        let mut spec = spec(RuntimeKind::LlamaCpp, 2, Bytes::gib(21), Bytes::gib(80));
        spec.devices[1].charge = Bytes::gib(11);
        spec.layers = layers;
        let argv = rendered(&spec).argv;
        spec.settings = Settings { gpus: 2, ..Settings::new(RuntimeKind::Ollama, 8192) };
        let variable = rendered(&spec).env["LLAMA_ARG_TENSOR_SPLIT"].clone();
        assert_eq!(value(&argv, "--split-mode"), "layer");
        assert_eq!(value(&argv, "--tensor-split"), variable, "Ollama gets the same");
        variable
    };
    assert_eq!(split(LayerSplit::Counted(LayerCounts::equal(36, 2))), "19,18");
    assert_eq!(split(LayerSplit::Equal), "1,1");
    assert_eq!(split(LayerSplit::ByCharge), "20480,10240");
}

#[test]
fn llama_server_supports_fifteen_gpus() {
    let spec = spec(RuntimeKind::LlamaCpp, 16, Bytes::gib(21), Bytes::gib(80));
    assert!(rejection(&spec).1.contains("at most 15 GPUs, not 16"));
}

#[test]
fn a_unified_cache_is_used_only_if_declared() {
    for (unified, flag, word) in [(true, "--kv-unified", "on"), (false, "--no-kv-unified", "off")] {
        let of = |runtime| {
            let mut spec = on_one_gpu(runtime);
            spec.settings.unified = unified;
            rendered(&spec)
        };
        assert!(of(RuntimeKind::LlamaCpp).argv.contains(&flag.to_string()));
        assert_eq!(of(RuntimeKind::Ollama).env["LLAMA_ARG_KV_UNIFIED"], word);
    }
}

#[test]
fn the_default_overhead_is_the_fixed_part_of_an_estimate() {
    for runtime in RuntimeKind::ALL {
        let overhead = Overhead::default_of(runtime);
        assert!(
            overhead.bytes >= Bytes::mib(512) && overhead.source.starts_with("table: "),
            "{overhead:?}"
        );
    }
}

#[test]
fn without_a_gpu_no_layer_is_offloaded() {
    let on_cpu = |runtime| rendered(&spec(runtime, 0, Bytes::ZERO, Bytes::ZERO));
    let argv = on_cpu(RuntimeKind::LlamaCpp).argv;
    assert_eq!((value(&argv, "--n-gpu-layers"), value(&argv, "--device")), ("0", "none"));
    let env = on_cpu(RuntimeKind::Ollama).env;
    assert_eq!((&env["LLAMA_ARG_N_GPU_LAYERS"][..], &env["LLAMA_ARG_DEVICE"][..]), ("0", "none"));
}

#[test]
fn ollama_variables_follow_the_spec() {
    let mut spec = spec(RuntimeKind::Ollama, 2, Bytes::gib(39), Bytes::gib(80));
    spec.model = "qwen3:8b".to_string();
    spec.settings.kv = KvTypes::both(KvType::Q8_0);
    let command = rendered(&spec);
    assert_eq!(command.argv, ["ollama", "serve"]);
    let variables: Vec<String> =
        command.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        variables.join("\n"),
        "LLAMA_ARG_CACHE_RAM=0\nLLAMA_ARG_FIT=off\nLLAMA_ARG_KV_UNIFIED=off\nLLAMA_ARG_N_GPU_LAYERS=all\nLLAMA_ARG_SPLIT_MODE=layer\n\
         LLAMA_ARG_TENSOR_SPLIT=1,1\nOLLAMA_CONTEXT_LENGTH=8192\nOLLAMA_FLASH_ATTENTION=1\n\
         OLLAMA_HOST={host}:{port}\nOLLAMA_KEEP_ALIVE=-1\nOLLAMA_KV_CACHE_TYPE=q8_0\nOLLAMA_MAX_LOADED_MODELS=1\n\
         OLLAMA_NUM_PARALLEL=4\nOLLAMA_SCHED_SPREAD=1\nOLLAMA_VULKAN=0"
    );
    let preload = command.preload.expect("Ollama needs a preload");
    assert_eq!((command.ready, preload.path), ("/api/version", "/api/generate"));
    assert_eq!(
        preload.body, r#"{{"keep_alive":-1,"model":"qwen3:8b","options":{{"num_batch":512}}}}"#,
        "braces are doubled, as in all templates of the runner"
    );
    assert!(!command.remarks.is_empty(), "the effect of requests is remarked");
}

#[test]
fn only_supported_kv_types_are_rendered() {
    use KvType::{Bf16, F16, F32, Fp8, Iq4Nl, Q4_0, Q8_0};
    let of = |runtime, k, v| {
        let mut spec = on_one_gpu(runtime);
        spec.settings.kv = KvTypes { k, v };
        render(&spec, &UserOptions::default()).map(|_| ()).map_err(|error| error.to_string())
    };
    for kv in [F16, Bf16, Fp8] {
        assert_eq!(of(RuntimeKind::Vllm, kv, kv), Ok(()));
    }
    for kv in [F32, F16, Q8_0, Iq4Nl] {
        assert_eq!(of(RuntimeKind::LlamaCpp, kv, kv), Ok(()));
    }
    let no = "vllm does not support KV cache type q8_0; it supports f16, bf16, fp8".to_string();
    assert_eq!(of(RuntimeKind::Vllm, Q8_0, Q8_0), Err(no));
    assert!(of(RuntimeKind::LlamaCpp, Fp8, Fp8).is_err());
    assert!(of(RuntimeKind::Ollama, Bf16, Bf16).is_err());
    assert!(
        of(RuntimeKind::Ollama, Q8_0, Q4_0).is_err_and(
            |no| no.contains("only one KV cache type for keys and values, not q8_0/q4_0")
        )
    );
    let mut slow = on_one_gpu(RuntimeKind::LlamaCpp);
    (slow.settings.kv.v, slow.settings.flash_attention) = (Q8_0, false);
    assert_eq!(
        rejection(&slow),
        ("kv", "KV cache type q8_0 for values requires flash attention".to_string())
    );
    slow.settings.kv = KvTypes { k: Q8_0, v: F16 };
    assert_eq!(
        value(&rendered(&slow).argv, "--flash-attn"),
        "off",
        "keys do not need flash attention"
    );
}

#[test]
fn numbers_outside_a_runtimes_range_are_rejected() {
    let mut long = on_one_gpu(RuntimeKind::LlamaCpp);
    (long.settings.context, long.settings.parallel) = (1 << 30, 2);
    assert_eq!(
        rejection(&long),
        ("context", "context is 1073741824, but must be from 1 to 1073741823".to_string())
    );
    let mut none = on_one_gpu(RuntimeKind::Vllm);
    none.settings.context = 0;
    assert_eq!(rejection(&none).0, "context");
    let mut many = on_one_gpu(RuntimeKind::Vllm);
    many.settings.parallel = 4096;
    assert_eq!(rejection(&many).0, "batch");
    let mut uneven = on_one_gpu(RuntimeKind::Ollama);
    uneven.settings.ubatch = 256;
    assert_eq!(rejection(&uneven).0, "ubatch");
}

#[test]
fn a_model_name_that_looks_like_a_flag_is_rejected() {
    for runtime in RuntimeKind::ALL {
        for word in ["", "--config", "a\nb"] {
            let no = LaunchSpec { model: word.to_string(), ..on_one_gpu(runtime) };
            assert_eq!(rejection(&no).0, "model");
            let no = LaunchSpec { program: Some(word.to_string()), ..on_one_gpu(runtime) };
            assert_eq!(rejection(&no).0, "program");
        }
    }
}

#[test]
fn reserved_arguments_are_rejected_in_every_spelling() {
    for (runtime, args, message) in [
        (RuntimeKind::Vllm, &["--gpu-memory-utilization", "0.95"][..], "is set from `memory`"),
        (
            RuntimeKind::Vllm,
            &["--gpu-memory-utilization=0.95"],
            "--gpu-memory-utilization is set from `memory`",
        ),
        (RuntimeKind::Vllm, &["--gpu_memory_utilization=0.95"], "means --gpu-memory-utilization"),
        (
            RuntimeKind::Vllm,
            &["--gpu-mem", "0.95"],
            "--gpu-mem means --gpu-memory-utilization, which is set",
        ),
        (RuntimeKind::Vllm, &["--device-mem=1"], "`memory`"),
        (RuntimeKind::Vllm, &["--kv-cache-mem", "8G"], "`memory`"),
        (RuntimeKind::Vllm, &["--max-model-len", "1"], "`context`"),
        (RuntimeKind::Vllm, &["-tp", "4"], "`tensor_parallel`"),
        (RuntimeKind::Vllm, &["-tp=4"], "`tensor_parallel`"),
        (RuntimeKind::Vllm, &["-n2"], "-n2 means -n"),
        (RuntimeKind::Vllm, &["-dp", "2"], "one server"),
        (RuntimeKind::Vllm, &["--swap-space", "4"], "host memory is not charged"),
        (RuntimeKind::Vllm, &["--config", "a.yaml"], "a file can set any flag"),
        (RuntimeKind::Vllm, &["--kv-transfer-config.kv_role", "both"], "outside vLLM's limit"),
        (RuntimeKind::LlamaCpp, &["-c", "1"], "-c is set from `context`"),
        (RuntimeKind::LlamaCpp, &["--ctx_size", "1"], "`context`"),
        (RuntimeKind::LlamaCpp, &["--ctx-size=1"], "`context`"),
        (RuntimeKind::LlamaCpp, &["-ngl", "1"], "charged GPUs"),
        (RuntimeKind::LlamaCpp, &["-fit", "on"], "the context is the charged one"),
        (
            RuntimeKind::LlamaCpp,
            &["--threads", "4", "-md", "draft.gguf"],
            "runtime.llama_cpp.draft",
        ),
        (RuntimeKind::LlamaCpp, &["--spec-type", "draft-mtp"], "second model"),
        (RuntimeKind::LlamaCpp, &["--gpt-oss-20b-default"], "it sets model, context and batch"),
        (RuntimeKind::Ollama, &["--verbose"], "takes no arguments"),
    ] {
        let error =
            render(&on_one_gpu(runtime), &user_options(args, &[])).expect_err(&args.join(" "));
        assert_eq!(error.field(), "args");
        assert!(error.to_string().contains(message), "{args:?}: {error}");
    }
}

#[test]
fn other_arguments_are_appended_literally() {
    let mine = [
        "--enforce-eager",
        "--seed",
        "-1",
        "-q",
        "awq",
        "--config-format",
        "hf",
        "-O3",
        "--spec-model",
        "d",
    ];
    let argv = render(&on_one_gpu(RuntimeKind::Vllm), &user_options(&mine, &[]))
        .expect("the user may set them")
        .argv;
    assert_eq!(argv[argv.len() - mine.len()..], mine);
    let mine =
        ["--threads", "8", "--chat-template-kwargs", r#"{"a":{}}"#, "-ctxcp", "4", "-cram", "0"];
    let argv = render(&on_one_gpu(RuntimeKind::LlamaCpp), &user_options(&mine, &[]))
        .expect("the user may set them")
        .argv;
    assert_eq!(value(&argv, "--chat-template-kwargs"), r#"{{"a":{{}}}}"#);
}

#[test]
fn reserved_variables_are_rejected() {
    for (runtime, name, message) in [
        (RuntimeKind::Vllm, "VLLM_ENABLE_STARTUP_PLAN", "measured at every start"),
        (RuntimeKind::Vllm, "VLLM_DP_SIZE", "one server"),
        (RuntimeKind::LlamaCpp, "LLAMA_ARG_CTX_SIZE", "it sets a flag"),
        (RuntimeKind::Ollama, "LLAMA_ARG_CTX_SIZE", "it sets a flag"),
        (RuntimeKind::Ollama, "OLLAMA_CONTEXT_LENGTH", "`context`"),
        (RuntimeKind::Ollama, "OLLAMA_VULKAN", "charged GPUs only"),
    ] {
        let error = render(&on_one_gpu(runtime), &user_options(&[], &[name])).expect_err(name);
        assert_eq!(error.field(), "env");
        assert!(error.to_string().contains(message), "{name}: {error}");
    }
    for (runtime, name) in [
        (RuntimeKind::Vllm, "HF_TOKEN"),
        (RuntimeKind::LlamaCpp, "HF_TOKEN"),
        (RuntimeKind::Ollama, "OLLAMA_MODELS"),
    ] {
        let command =
            render(&on_one_gpu(runtime), &user_options(&[], &[name])).expect("the user may set it");
        assert_eq!(command.env[name], "1");
    }
}

fn any_spec() -> impl Strategy<Value = LaunchSpec> {
    let gpu = (1..1_u64 << 40, 0.0..1.2_f64).prop_map(|(total, of)| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let charge = (total as f64 * of) as u64;
        DeviceCharge { charge: Bytes::new(charge), total: Some(Bytes::new(total)) }
    });
    let kv = proptest::sample::select(&KvType::ALL[..]);
    let runtime = proptest::sample::select(&RuntimeKind::ALL[..]);
    let devices = proptest::collection::vec(gpu, 1..5);
    (runtime, devices, 0..4_u64 << 30, 1..1_u64 << 24, 1..512_u64, kv).prop_map(
        |(runtime, devices, overhead, context, parallel, kv)| {
            let gpus = devices.len() as u64;
            let settings = Settings {
                gpus,
                parallel,
                kv: KvTypes::both(kv),
                ..Settings::new(runtime, context)
            };
            let overhead = Overhead::declared(Bytes::new(overhead));
            LaunchSpec {
                program: None,
                model: "m".to_string(),
                settings,
                devices,
                memory: MemoryBasis::Known,
                overhead,
                additions: AddedPaths::default(),
                heads: None,
                layers: LayerSplit::Equal,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn flags_follow_the_spec_and_the_share_is_within_the_charge(spec in any_spec()) {
        let Ok(command) = render(&spec, &UserOptions::default()) else { return Ok(()) };
        let Settings { context, parallel, kv, .. } = spec.settings;
        let (argv, env) = (&command.argv, &command.env);
        match spec.settings.runtime {
            RuntimeKind::Vllm => {
                let ratio: f64 = value(argv, "--gpu-memory-utilization").parse().expect("a number");
                for device in &spec.devices {
                    let total = device.total.expect("known").get() as f64;
                    let used = (total * ratio).ceil() + spec.overhead.bytes.get() as f64;
                    prop_assert!(used <= device.charge.get() as f64, "{used} of {:?}", device.charge);
                }
                prop_assert_eq!(value(argv, "--max-model-len"), context.to_string());
                prop_assert_eq!(value(argv, "--max-num-seqs"), parallel.to_string());
                prop_assert_eq!(value(argv, "--tensor-parallel-size"), spec.devices.len().to_string());
            }
            RuntimeKind::LlamaCpp => {
                prop_assert_eq!(value(argv, "--ctx-size"), (context * parallel).to_string());
                prop_assert_eq!(value(argv, "--parallel"), parallel.to_string());
                prop_assert_eq!(value(argv, "--cache-type-v"), kv.v.name());
                prop_assert_eq!(value(argv, "--fit"), "off");
            }
            RuntimeKind::Ollama => {
                prop_assert_eq!(&env["OLLAMA_CONTEXT_LENGTH"], &context.to_string());
                prop_assert_eq!(&env["OLLAMA_NUM_PARALLEL"], &parallel.to_string());
                prop_assert_eq!(&env["OLLAMA_KV_CACHE_TYPE"], kv.k.name());
            }
        }
    }

    #[test]
    fn charges_outside_the_possible_range_are_never_rendered(spec in any_spec()) {
        let is_impossible = |device: &DeviceCharge| {
            device.charge > device.total.expect("known") || device.charge <= spec.overhead.bytes
        };
        if spec.devices.iter().any(is_impossible) {
            prop_assert!(render(&spec, &UserOptions::default()).is_err());
        }
    }
}
