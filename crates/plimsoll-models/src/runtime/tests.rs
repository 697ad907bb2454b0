//! What each runtime is told, and what it is not told.

use proptest::prelude::*;

use super::*;
use crate::settings::KvType;

fn record(runtime: RuntimeKind, gpus: usize, charge: Bytes, total: Bytes) -> Record {
    let settings = Settings { gpus: gpus as u64, parallel: 4, ..Settings::new(runtime, 8192) };
    let devices = vec![Booked { charge, total: Some(total) }; gpus];
    let outside = Outside::declared(Bytes::gib(1));
    Record { program: None, model: "m".to_string(), settings, devices, outside, heads: None }
}

fn on_one(runtime: RuntimeKind) -> Record {
    record(runtime, 1, Bytes::gib(39), Bytes::gib(80))
}

fn told(record: &Record) -> Rendered {
    render(record, &Extra::default()).expect("it can be told")
}

fn refused(record: &Record) -> (&'static str, String) {
    let refusal = render(record, &Extra::default()).expect_err("it cannot be told");
    (refusal.field(), refusal.to_string())
}

fn with(args: &[&str], env: &[&str]) -> Extra {
    Extra {
        args: args.iter().map(ToString::to_string).collect(),
        env: env.iter().map(|name| (name.to_string(), "1".to_string())).collect(),
    }
}

/// What stands after a flag.
fn value<'a>(argv: &'a [String], flag: &str) -> &'a str {
    let at = argv
        .iter()
        .position(|word| word == flag)
        .unwrap_or_else(|| panic!("{flag} is in {argv:?}"));
    &argv[at + 1]
}

#[test]
fn vllm_is_told_the_record() {
    let mut record = record(RuntimeKind::Vllm, 2, Bytes::gib(70), Bytes::gib(80));
    record.settings.kv = KvTypes::both(KvType::Fp8);
    let told = told(&record);
    assert_eq!(
        told.argv.join(" "),
        "vllm serve m --host {host} --port {port} --tensor-parallel-size 2 --max-model-len 8192 --max-num-seqs 4 \
         --max-num-batched-tokens 2048 --kv-cache-dtype fp8 --gpu-memory-utilization 0.8625"
    );
    assert_eq!((told.ready, told.memory_ratio.as_deref()), ("/health", Some("0.8625")));
    assert_eq!(told.env["VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"], "1");
}

#[test]
fn a_share_of_the_gpu_leaves_out_what_vllm_takes_beside_it() {
    let ratio = |gpus, charge, outside| {
        let mut record = record(RuntimeKind::Vllm, gpus, Bytes::gib(charge), Bytes::gib(80));
        record.outside = Outside::declared(Bytes::gib(outside));
        told(&record).memory_ratio.expect("vLLM takes one")
    };
    assert_eq!((ratio(1, 39, 0), ratio(1, 39, 2)), ("0.4875".to_string(), "0.4625".to_string()));
    assert_eq!((ratio(2, 70, 0), ratio(2, 70, 2)), ("0.8750".to_string(), "0.8500".to_string()));
}

#[test]
fn one_share_holds_on_gpus_of_different_size() {
    let mut record = record(RuntimeKind::Vllm, 2, Bytes::gib(21), Bytes::gib(80));
    record.devices[1].total = Some(Bytes::gib(24));
    assert_eq!(told(&record).memory_ratio.as_deref(), Some("0.2500"));
}

#[test]
fn what_is_larger_than_the_gpu_is_refused_and_not_cut() {
    for runtime in RuntimeKind::ALL {
        let (field, reason) = refused(&record(runtime, 1, Bytes::gib(16), Bytes::gib(12)));
        assert_eq!(
            (field, reason.as_str()),
            ("memory", "16 GiB are booked on a GPU that has 12 GiB")
        );
    }
}

#[test]
fn a_charge_that_leaves_nothing_for_the_model_is_refused() {
    for runtime in RuntimeKind::ALL {
        let (field, reason) = refused(&record(runtime, 1, Bytes::gib(1), Bytes::gib(80)));
        assert_eq!(field, "memory");
        assert!(reason.contains("takes 1 GiB") && reason.contains("declared"), "{reason}");
    }
    let mut unknown = on_one(RuntimeKind::Vllm);
    unknown.devices[0].total = None;
    assert_eq!(refused(&unknown).0, "memory");
}

#[test]
fn vllm_splits_a_model_only_by_what_divides_its_heads() {
    let of = |gpus: usize, attention, kv| {
        let mut record = record(RuntimeKind::Vllm, gpus, Bytes::gib(39), Bytes::gib(80));
        record.heads = Some(Heads { attention, kv });
        render(&record, &Extra::default()).map(|_| ()).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(
        of(3, 64, None),
        Err("3 GPUs do not divide the model's 64 attention heads".to_string())
    );
    assert!(
        of(6, 48, Some(8)).is_err_and(|reason| reason.contains("8 heads with keys and values"))
    );
    assert_eq!(
        [of(2, 64, Some(8)), of(8, 64, Some(4)), of(1, 7, Some(7))],
        [Ok(()), Ok(()), Ok(())]
    );
    assert!(
        refused(&record(RuntimeKind::Vllm, 0, Bytes::ZERO, Bytes::ZERO)).1.contains("needs a GPU")
    );
}

#[test]
fn heads_are_those_that_every_layer_has() {
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
fn llama_server_is_told_the_record() {
    let mut record = on_one(RuntimeKind::LlamaCpp);
    record.settings.kv = KvTypes { k: KvType::Q8_0, v: KvType::Q4_0 };
    assert_eq!(
        told(&record).argv.join(" "),
        "llama-server --model m --host {host} --port {port} --ctx-size 32768 --parallel 4 --no-kv-unified \
         --cache-type-k q8_0 --cache-type-v q4_0 --flash-attn on --batch-size 2048 --ubatch-size 512 --fit off \
         --n-gpu-layers all --split-mode none --main-gpu 0"
    );
}

#[test]
fn llama_server_divides_layers_as_the_charges_are() {
    let mut record = record(RuntimeKind::LlamaCpp, 2, Bytes::gib(21), Bytes::gib(80));
    record.devices[1].charge = Bytes::gib(11);
    let argv = told(&record).argv;
    assert_eq!(
        (value(&argv, "--split-mode"), value(&argv, "--tensor-split")),
        ("layer", "20480,10240")
    );
    record.devices = vec![record.devices[0]; 16];
    assert!(refused(&record).1.contains("at most 15"));
}

#[test]
fn requests_share_a_cache_only_where_the_record_says_so() {
    for (unified, flag, word) in [(true, "--kv-unified", "on"), (false, "--no-kv-unified", "off")] {
        let of = |runtime| {
            let mut record = on_one(runtime);
            record.settings.unified = unified;
            told(&record)
        };
        assert!(of(RuntimeKind::LlamaCpp).argv.contains(&flag.to_string()));
        assert_eq!(of(RuntimeKind::Ollama).env["LLAMA_ARG_KV_UNIFIED"], word);
    }
}

#[test]
fn what_nobody_declares_is_what_an_estimate_has_in_it() {
    for runtime in RuntimeKind::ALL {
        let outside = Outside::of(runtime);
        assert!(
            outside.bytes >= Bytes::mib(512) && outside.source.starts_with("table: "),
            "{outside:?}"
        );
    }
}

#[test]
fn without_a_gpu_no_layer_goes_to_one() {
    let told_of = |runtime| told(&record(runtime, 0, Bytes::ZERO, Bytes::ZERO));
    let argv = told_of(RuntimeKind::LlamaCpp).argv;
    assert_eq!((value(&argv, "--n-gpu-layers"), value(&argv, "--device")), ("0", "none"));
    let env = told_of(RuntimeKind::Ollama).env;
    assert_eq!((&env["LLAMA_ARG_N_GPU_LAYERS"][..], &env["LLAMA_ARG_DEVICE"][..]), ("0", "none"));
}

#[test]
fn ollama_is_told_the_record_in_its_environment() {
    let mut record = record(RuntimeKind::Ollama, 2, Bytes::gib(39), Bytes::gib(80));
    record.model = "qwen3:8b".to_string();
    record.settings.kv = KvTypes::both(KvType::Q8_0);
    let told = told(&record);
    assert_eq!(told.argv, ["ollama", "serve"]);
    let said: Vec<String> =
        told.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        said.join("\n"),
        "LLAMA_ARG_FIT=off\nLLAMA_ARG_KV_UNIFIED=off\nLLAMA_ARG_N_GPU_LAYERS=all\nLLAMA_ARG_SPLIT_MODE=layer\n\
         LLAMA_ARG_TENSOR_SPLIT=38912,38912\nOLLAMA_CONTEXT_LENGTH=8192\nOLLAMA_FLASH_ATTENTION=1\n\
         OLLAMA_HOST={host}:{port}\nOLLAMA_KEEP_ALIVE=-1\nOLLAMA_KV_CACHE_TYPE=q8_0\nOLLAMA_MAX_LOADED_MODELS=1\n\
         OLLAMA_NUM_PARALLEL=4\nOLLAMA_SCHED_SPREAD=1\nOLLAMA_VULKAN=0"
    );
    let preload = told.preload.expect("Ollama loads when it is asked");
    assert_eq!((told.ready, preload.path), ("/api/version", "/api/generate"));
    assert_eq!(
        preload.body, r#"{{"keep_alive":-1,"model":"qwen3:8b","options":{{"num_batch":512}}}}"#,
        "its braces are doubled, as in every text that the runner fills in"
    );
    assert!(!told.remarks.is_empty(), "what its callers can change is said");
}

#[test]
fn a_cache_is_of_a_type_that_the_runtime_has() {
    use KvType::{Bf16, F16, F32, Fp8, Iq4Nl, Q4_0, Q8_0};
    let of = |runtime, k, v| {
        let mut record = on_one(runtime);
        record.settings.kv = KvTypes { k, v };
        render(&record, &Extra::default()).map(|_| ()).map_err(|refusal| refusal.to_string())
    };
    for kv in [F16, Bf16, Fp8] {
        assert_eq!(of(RuntimeKind::Vllm, kv, kv), Ok(()));
    }
    for kv in [F32, F16, Q8_0, Iq4Nl] {
        assert_eq!(of(RuntimeKind::LlamaCpp, kv, kv), Ok(()));
    }
    let no = "vllm cannot store its cache as q8_0; it takes f16, bf16, fp8".to_string();
    assert_eq!(of(RuntimeKind::Vllm, Q8_0, Q8_0), Err(no));
    assert!(of(RuntimeKind::LlamaCpp, Fp8, Fp8).is_err());
    assert!(of(RuntimeKind::Ollama, Bf16, Bf16).is_err());
    assert!(
        of(RuntimeKind::Ollama, Q8_0, Q4_0).is_err_and(|no| no.contains("q8_0/q4_0 are two types"))
    );
    let mut slow = on_one(RuntimeKind::LlamaCpp);
    (slow.settings.kv.v, slow.settings.flash_attention) = (Q8_0, false);
    assert_eq!(
        refused(&slow),
        ("kv", "values can be stored as q8_0 only with flash attention".to_string())
    );
    slow.settings.kv = KvTypes { k: Q8_0, v: F16 };
    assert_eq!(value(&told(&slow).argv, "--flash-attn"), "off", "keys need none");
}

#[test]
fn numbers_outside_what_a_runtime_counts_in_are_refused() {
    let mut long = on_one(RuntimeKind::LlamaCpp);
    (long.settings.context, long.settings.parallel) = (1 << 30, 2);
    assert_eq!(
        refused(&long),
        ("context", "context is 1073741824, and must be from 1 to 1073741823".to_string())
    );
    let mut none = on_one(RuntimeKind::Vllm);
    none.settings.context = 0;
    assert_eq!(refused(&none).0, "context");
    let mut many = on_one(RuntimeKind::Vllm);
    many.settings.parallel = 4096;
    assert_eq!(refused(&many).0, "batch");
    let mut uneven = on_one(RuntimeKind::Ollama);
    uneven.settings.ubatch = 256;
    assert_eq!(refused(&uneven).0, "ubatch");
}

#[test]
fn a_model_that_would_be_read_as_a_flag_is_refused() {
    for runtime in RuntimeKind::ALL {
        for word in ["", "--config", "a\nb"] {
            let no = Record { model: word.to_string(), ..on_one(runtime) };
            assert_eq!(refused(&no).0, "model");
            let no = Record { program: Some(word.to_string()), ..on_one(runtime) };
            assert_eq!(refused(&no).0, "program");
        }
    }
}

#[test]
fn arguments_that_are_the_records_are_refused_however_they_are_written() {
    for (runtime, args, part) in [
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
        (RuntimeKind::Vllm, &["--swap-space", "4"], "nothing is booked"),
        (RuntimeKind::Vllm, &["--config", "a.yaml"], "a file can hold any flag"),
        (RuntimeKind::Vllm, &["--kv-transfer-config.kv_role", "both"], "outside the share"),
        (RuntimeKind::LlamaCpp, &["-c", "1"], "-c is set from `context`"),
        (RuntimeKind::LlamaCpp, &["--ctx_size", "1"], "`context`"),
        (RuntimeKind::LlamaCpp, &["--ctx-size=1"], "`context`"),
        (RuntimeKind::LlamaCpp, &["-ngl", "1"], "booked GPUs"),
        (RuntimeKind::LlamaCpp, &["-fit", "on"], "the context is the one that was charged"),
        (RuntimeKind::LlamaCpp, &["--threads", "4", "-md", "draft.gguf"], "second model"),
        (RuntimeKind::LlamaCpp, &["--gpt-oss-20b-default"], "at once"),
        (RuntimeKind::Ollama, &["--verbose"], "takes no arguments"),
    ] {
        let refusal = render(&on_one(runtime), &with(args, &[])).expect_err(&args.join(" "));
        assert_eq!(refusal.field(), "args");
        assert!(refusal.to_string().contains(part), "{args:?}: {refusal}");
    }
}

#[test]
fn other_arguments_follow_ours_as_they_were_written() {
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
    let argv =
        render(&on_one(RuntimeKind::Vllm), &with(&mine, &[])).expect("they are the user's").argv;
    assert_eq!(argv[argv.len() - mine.len()..], mine);
    let mine =
        ["--threads", "8", "--chat-template-kwargs", r#"{"a":{}}"#, "-ctxcp", "4", "-cram", "0"];
    let argv = render(&on_one(RuntimeKind::LlamaCpp), &with(&mine, &[]))
        .expect("they are the user's")
        .argv;
    assert_eq!(value(&argv, "--chat-template-kwargs"), r#"{{"a":{{}}}}"#);
}

#[test]
fn variables_that_are_the_records_are_refused() {
    for (runtime, name, part) in [
        (RuntimeKind::Vllm, "VLLM_ENABLE_STARTUP_PLAN", "measured at every start"),
        (RuntimeKind::Vllm, "VLLM_DP_SIZE", "one server"),
        (RuntimeKind::LlamaCpp, "LLAMA_ARG_CTX_SIZE", "stands for a flag"),
        (RuntimeKind::Ollama, "LLAMA_ARG_CTX_SIZE", "stands for a flag"),
        (RuntimeKind::Ollama, "OLLAMA_CONTEXT_LENGTH", "`context`"),
        (RuntimeKind::Ollama, "OLLAMA_VULKAN", "confined"),
    ] {
        let refusal = render(&on_one(runtime), &with(&[], &[name])).expect_err(name);
        assert_eq!(refusal.field(), "env");
        assert!(refusal.to_string().contains(part), "{name}: {refusal}");
    }
    for (runtime, name) in [
        (RuntimeKind::Vllm, "HF_TOKEN"),
        (RuntimeKind::LlamaCpp, "HF_TOKEN"),
        (RuntimeKind::Ollama, "OLLAMA_MODELS"),
    ] {
        let told = render(&on_one(runtime), &with(&[], &[name])).expect("it is the user's");
        assert_eq!(told.env[name], "1");
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let gpu = (1..1_u64 << 40, 0.0..1.2_f64).prop_map(|(total, of)| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let charge = (total as f64 * of) as u64;
        Booked { charge: Bytes::new(charge), total: Some(Bytes::new(total)) }
    });
    let kv = proptest::sample::select(&KvType::ALL[..]);
    let runtime = proptest::sample::select(&RuntimeKind::ALL[..]);
    let devices = proptest::collection::vec(gpu, 1..5);
    (runtime, devices, 0..4_u64 << 30, 1..1_u64 << 24, 1..512_u64, kv).prop_map(
        |(runtime, devices, outside, context, parallel, kv)| {
            let gpus = devices.len() as u64;
            let settings = Settings {
                gpus,
                parallel,
                kv: KvTypes::both(kv),
                ..Settings::new(runtime, context)
            };
            let outside = Outside::declared(Bytes::new(outside));
            Record {
                program: None,
                model: "m".to_string(),
                settings,
                devices,
                outside,
                heads: None,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_told_is_the_record_and_its_share_is_in_the_charge(record in any_record()) {
        let Ok(told) = render(&record, &Extra::default()) else { return Ok(()) };
        let Settings { context, parallel, kv, .. } = record.settings;
        let (argv, env) = (&told.argv, &told.env);
        match record.settings.runtime {
            RuntimeKind::Vllm => {
                let ratio: f64 = value(argv, "--gpu-memory-utilization").parse().expect("a number");
                for device in &record.devices {
                    let total = device.total.expect("known").get() as f64;
                    let taken = (total * ratio).ceil() + record.outside.bytes.get() as f64;
                    prop_assert!(taken <= device.charge.get() as f64, "{taken} of {:?}", device.charge);
                }
                prop_assert_eq!(value(argv, "--max-model-len"), context.to_string());
                prop_assert_eq!(value(argv, "--max-num-seqs"), parallel.to_string());
                prop_assert_eq!(value(argv, "--tensor-parallel-size"), record.devices.len().to_string());
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
    fn more_than_a_gpu_has_or_less_than_the_runtime_takes_is_never_told(record in any_record()) {
        let cannot = |device: &Booked| {
            device.charge > device.total.expect("known") || device.charge <= record.outside.bytes
        };
        if record.devices.iter().any(cannot) {
            prop_assert!(render(&record, &Extra::default()).is_err());
        }
    }
}
