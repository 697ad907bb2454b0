//! Properties of all estimates, and of all answers of the reverse search.

use plimsoll_core::units::Bytes;
use proptest::prelude::*;

use super::split::LayerCounts;
use super::{Breakdown, Estimate, EstimateError, estimate};
use crate::fit::{fewest_gpus, kv_type_that_fits, largest_parallel, longest_context};
use crate::gguf::sample;
use crate::settings::{KvType, KvTypes, RuntimeKind, Scores, Settings};
use crate::shape::{
    Cache, Contents, FlashAttention, Format, Gate, Identity, LayerPasses, ModelOutput, Shape,
    SplitInputs, Weights,
};
use crate::source::{Source, Sourced};

fn cache() -> impl Strategy<Value = Cache> {
    let grouped = (1_u64..=8, 1_u64..=4, 1_u64..=4, prop::option::of(1_u64..10_000)).prop_map(
        |(kv_heads, key, value, window)| Cache::Grouped {
            kv_heads,
            key_length: key * 64,
            value_length: value * 64,
            window,
        },
    );
    let indexer = prop::sample::select(vec![0, 128]);
    let latent =
        (indexer.clone(), prop::option::of(1_u64..10_000)).prop_map(|(indexer_length, window)| {
            Cache::Latent { kv_lora_rank: 512, rope_length: 64, indexer_length, window }
        });
    let state = (0_u64..1 << 24).prop_map(|bytes| Cache::Recurrent { bytes });
    let beside = (1_u64..=8, 0_u64..1 << 24).prop_map(|(kv_heads, bytes)| {
        let state = Bytes::new(bytes);
        Cache::GroupedWithState { kv_heads, key_length: 128, value_length: 64, state }
    });
    let ratio = prop::sample::select(vec![0, 4, 128]);
    let compressed = (indexer, 1_u64..10_000, ratio).prop_map(|(indexer_length, window, ratio)| {
        let state = Bytes::new(ratio * 4096);
        Cache::Compressed { key_length: 512, window, ratio, indexer_length, state }
    });
    let none = Just(Cache::None);
    prop_oneof![4 => grouped, 1 => latent, 1 => state, 1 => beside, 1 => compressed, 1 => none]
}

fn shape() -> impl Strategy<Value = Shape> {
    let sizes = (1_u64..1 << 16, 1_u64..1 << 18, 1_u64..1 << 16, 1_u64..1 << 40);
    (prop::collection::vec(cache(), 1..40), sizes).prop_map(
        |(layers, (embedding, vocabulary, network, bytes))| {
            let count = layers.len();
            let weights = Weights {
                layers: vec![Bytes::new(bytes); count],
                embedding: Bytes::new(bytes),
                output: Bytes::new(bytes / 2),
                vectors: Bytes::new(bytes / 8),
                ..Weights::default()
            };
            Shape {
                architecture: "any".to_string(),
                format: Format::Gguf,
                identity: Identity::default(),
                layers: Sourced::read(layers, "layers"),
                heads: Sourced::read(vec![32; count], "heads"),
                embedding: Sourced::read(embedding, "embedding"),
                feed_forward: Sourced::read(vec![network; count], "network"),
                vocabulary: Sourced::read(vocabulary, "vocabulary"),
                trained_context: Sourced::read(131_072, "context"),
                experts: Sourced::unknown("experts"),
                experts_used: Sourced::unknown("experts_used"),
                expert_feed_forward: Sourced::unknown("expert_feed_forward"),
                weights: Sourced::read(weights, "tensors"),
                flash_attention: FlashAttention::Supported,
                gate: Gate::Present,
                output: ModelOutput::Scores,
                split_inputs: SplitInputs::default(),
                absent: Bytes::ZERO,
                remarks: Vec::new(),
                passes: LayerPasses::Once,
                contents: Contents::Model,
                additions: Vec::new(),
            }
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    let runtime = prop::sample::select(&RuntimeKind::ALL[..]);
    let kv = prop::sample::select(vec![KvType::F16, KvType::Q8_0, KvType::Q4_0]);
    let gpus = prop::sample::select(vec![1, 2, 4, 8, 32]);
    let numbers = (1_u64..300_000, 1_u64..64, gpus, 1_u64..8192, 1_u64..8192);
    (runtime, kv, numbers, any::<bool>(), any::<bool>()).prop_map(
        |(runtime, kv, numbers, flash, unified)| {
            let (context, parallel, gpus, batch, ubatch) = numbers;
            let quantised = if runtime == RuntimeKind::Vllm { KvType::Fp8 } else { kv };
            let kv = KvTypes::both(if kv == KvType::F16 { kv } else { quantised });
            let flash_attention = flash || kv.v.is_quantised();
            Settings {
                runtime,
                context,
                kv,
                parallel,
                gpus,
                batch,
                ubatch,
                flash_attention,
                unified,
                ..Settings::new(runtime, context)
            }
        },
    )
}

/// Generates numbers of every magnitude; a uniform number is nearly always too large.
fn magnitude() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift)
}

/// Returns a device with this percentage of the memory that the model needs.
fn device(shape: &Shape, settings: &Settings, percent: u64) -> Bytes {
    let largest = estimate(shape, settings).expect("estimates").largest().expect("is known");
    Bytes::new(largest.get() / 100 * percent)
}

fn sum(parts: &Breakdown) -> u128 {
    parts.named().iter().map(|(_, part)| u128::from(part.bytes.expect("is known").get())).sum()
}

fn total(estimate: &Estimate) -> Bytes {
    estimate.all.total.expect("is known")
}

proptest! {
    #[test]
    fn an_estimate_is_the_exact_sum_of_its_parts(shape in shape(), settings in settings()) {
        let estimate = estimate(&shape, &settings).expect("estimates");
        let totals: u128 = estimate.gpus.iter().map(|gpu| u128::from(gpu.total.expect("is known").get())).sum();
        prop_assert_eq!(totals, u128::from(total(&estimate).get()));
        prop_assert_eq!(sum(&estimate.all), totals);
        for gpu in &estimate.gpus {
            prop_assert_eq!(sum(gpu), u128::from(gpu.total.expect("is known").get()));
        }
        prop_assert_eq!(estimate.gpus.len() as u64, settings.gpus);
    }

    #[test]
    fn an_estimate_grows_with_context_and_parallel_requests(
        shape in shape(),
        settings in settings(),
        more in 0_u64..100_000,
        further in 0_u64..64,
    ) {
        let small = estimate(&shape, &settings).expect("estimates");
        let context = settings.context + more;
        let long = estimate(&shape, &Settings { context, ..settings.clone() }).expect("estimates");
        let parallel = settings.parallel + further;
        let wide = estimate(&shape, &Settings { parallel, ..settings.clone() }).expect("estimates");
        for (one, other) in small.gpus.iter().zip(&long.gpus).chain(small.gpus.iter().zip(&wide.gpus)) {
            prop_assert!(one.total <= other.total);
            prop_assert!(one.kv.bytes <= other.kv.bytes);
        }
    }

    /// Arithmetic that wraps would panic in a test build; a sum beyond 64 bits must be an error.
    #[test]
    fn huge_numbers_never_wrap(
        shape in shape(),
        settings in settings(),
        huge in prop::collection::vec(magnitude(), 10),
    ) {
        let mut shape = shape;
        let (kv_heads, key_length, value_length, window) = (huge[0], huge[1] / 64 * 64, huge[2] / 64 * 64, Some(huge[3]));
        shape.layers = Sourced::read(vec![Cache::Grouped { kv_heads, key_length, value_length, window }; 3], "layers");
        let layers = vec![Bytes::new(huge[9]); 3];
        shape.weights = Sourced::read(Weights { layers, ..Weights::default() }, "tensors");
        shape.embedding = Sourced::read(huge[4], "embedding");
        shape.vocabulary = Sourced::read(huge[5], "vocabulary");
        shape.heads = Sourced::read(vec![huge[8] / 32 * 32; 3], "heads");
        let settings = Settings { context: huge[6], ubatch: huge[7], batch: huge[7], ..settings };
        match estimate(&shape, &settings) {
            Ok(estimate) => prop_assert_eq!(sum(&estimate.all), u128::from(total(&estimate).get())),
            Err(EstimateError::Overflow { .. } | EstimateError::OutOfRange { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn the_longest_context_fits_and_the_next_longer_does_not(
        shape in shape(),
        settings in settings(),
        percent in 1_u64..300,
    ) {
        let device = device(&shape, &settings, percent);
        let fits = |context| {
            let settings = Settings { context, ..settings.clone() };
            estimate(&shape, &settings).expect("estimates").fits(device).expect("is known")
        };
        match longest_context(&shape, &settings, device).expect("searches") {
            Some(context) => {
                prop_assert!(fits(context));
                let limit = settings.context.max(131_072);
                prop_assert!(context == limit || !fits(context + 1));
            }
            None => prop_assert!(!fits(1)),
        }
    }

    #[test]
    fn the_fewest_gpus_fit_and_one_less_does_not(
        shape in shape(),
        settings in settings(),
        percent in 1_u64..300,
    ) {
        let device = device(&shape, &settings, percent);
        let fits = |gpus| {
            let settings = Settings { gpus, ..settings.clone() };
            estimate(&shape, &settings).is_ok_and(|estimate| estimate.fits(device) == Some(true))
        };
        match fewest_gpus(&shape, &settings, device).expect("searches") {
            Some(gpus) => {
                prop_assert!(fits(gpus));
                prop_assert!((settings.gpus..gpus).all(|fewer| !fits(fewer)));
            }
            None => prop_assert!((settings.gpus..=15).all(|gpus| !fits(gpus))),
        }
    }

    #[test]
    fn the_largest_parallel_fits_and_one_more_does_not(
        shape in shape(),
        settings in settings(),
        percent in 1_u64..300,
    ) {
        let device = device(&shape, &settings, percent);
        let fits = |parallel| {
            let settings = Settings { parallel, ..settings.clone() };
            estimate(&shape, &settings).expect("estimates").fits(device).expect("is known")
        };
        match largest_parallel(&shape, &settings, device).expect("searches") {
            Some(parallel) => {
                prop_assert!(fits(parallel));
                prop_assert!([256, 65_536].contains(&parallel) || !fits(parallel + 1));
            }
            None => prop_assert!(!fits(1)),
        }
    }

    #[test]
    fn the_proposed_kv_type_fits(
        shape in shape(),
        settings in settings(),
        percent in 1_u64..300,
    ) {
        let device = device(&shape, &settings, percent);
        if let Some(kv) = kv_type_that_fits(&shape, &settings, device).expect("searches") {
            let settings = Settings { kv, ..settings };
            prop_assert_eq!(estimate(&shape, &settings).expect("estimates").fits(device), Some(true));
        }
    }
}

#[test]
fn an_unknown_part_makes_the_sum_unknown_and_names_the_field() {
    let mut shape = sample::llama().shape().expect("reads the model");
    shape.weights = Sourced::unknown("the tensors");
    let estimate =
        estimate(&shape, &Settings::new(RuntimeKind::LlamaCpp, 4096)).expect("estimates");
    assert_eq!((estimate.all.total, estimate.missing()), (None, Some("the tensors")));
    assert_eq!(estimate.all.kv.bytes, Some(Bytes::new(2 * 2 * 2 * 64 * 2 * 4096)));
    assert_eq!(estimate.fits(Bytes::MAX), None);
}

#[test]
fn layers_are_divided_in_equal_runs_with_the_output_last() {
    for (layers, gpus, counts) in
        [(3, 2, "2,2"), (2, 1, "3"), (4, 2, "3,2"), (36, 2, "19,18"), (1, 3, "1,1,0")]
    {
        assert_eq!(LayerCounts::equal(layers, gpus).to_string(), counts, "{layers} layers");
    }
}

/// Returns the GPU of each layer and of the output, as llama.cpp computes it from `--tensor-split`
/// (`llama_model::load_tensors`): sums in 32-bit floats, and the first one above `i / n`.
fn assigned_by_llama_cpp(tensor_split: &str, items: usize) -> Vec<usize> {
    let mut sum = 0.0_f32;
    let parts = tensor_split.split(',').map(|part| part.parse::<f32>().expect("a number"));
    let sums: Vec<f32> = parts
        .map(|part| {
            sum += part;
            sum
        })
        .collect();
    let first_above = |item: usize| {
        let position = item as f32 / items as f32;
        sums.iter().position(|end| end / sum > position).expect("it is below 1")
    };
    (0..items).map(first_above).collect()
}

#[test]
fn llama_cpp_assigns_the_layers_that_are_charged() {
    for layers in 1..200 {
        for gpus in 1..=15 {
            let counts = LayerCounts::equal(layers, gpus);
            let items = usize::try_from(layers + 1).expect("few");
            let charged: Vec<_> = (0..items).filter_map(|item| counts.gpu_of(item)).collect();
            assert_eq!(assigned_by_llama_cpp(&counts.to_string(), items), charged, "{counts}");
            // A model whose layers are not known is split equally, and charged the same.
            let equal = vec!["1"; charged[items - 1] + 1].join(",");
            if equal.split(',').count() as u64 == gpus {
                assert_eq!(assigned_by_llama_cpp(&equal, items), charged, "{counts}");
            }
        }
    }
}

#[test]
fn the_output_is_computed_by_the_gpu_that_holds_it() {
    let mut shape = sample::llama().shape().expect("reads the model");
    shape.vocabulary = Sourced::read(1 << 17, "vocabulary");
    let settings = Settings { gpus: 8, ..Settings::new(RuntimeKind::Ollama, 4096) };
    let estimate = estimate(&shape, &settings).expect("estimates");
    let output = LayerCounts::for_shape(&shape, 8).output_gpu().expect("there is one");
    let compute = |gpu: usize| estimate.gpus[gpu].compute.bytes.expect("is known");
    assert!(output < 7, "more GPUs than layers");
    assert!((0..8).filter(|gpu| *gpu != output).all(|gpu| compute(gpu) < compute(output)));
}

#[test]
fn grok_is_estimated_without_flash_attention() {
    let mut shape = sample::llama().shape().expect("reads the model");
    let asked = Settings::new(RuntimeKind::LlamaCpp, 131_072);
    let off = Settings { flash_attention: false, ..asked.clone() };
    let expected = estimate(&shape, &off).expect("estimates").all;
    shape.architecture = "grok".to_string();
    shape.flash_attention = FlashAttention::SwitchedOff;
    let grok = estimate(&shape, &asked).expect("estimates");
    assert_eq!(grok.all, expected);
    assert!(grok.remarks.iter().any(|remark| remark.contains("for grok models")));
    let kv = KvType::Q8_0;
    let quantised = Settings { kv: KvTypes::both(kv), ..asked };
    assert_eq!(estimate(&shape, &quantised), Err(EstimateError::NeedsFlashAttention { kv }));
}

#[test]
fn llama_cpp_keeps_the_embeddings_on_the_host_and_vllm_does_not() {
    let shape = sample::llama().shape().expect("reads the model");
    let (matrix, table, norm) = (256 * 512 * 2, 256 * 1000 * 2, 512);
    let estimate_for =
        |runtime| estimate(&shape, &Settings::new(runtime, 4096)).expect("estimates");
    let llama = estimate_for(RuntimeKind::LlamaCpp);
    assert_eq!(llama.all.weights.bytes, Some(Bytes::new(2 * matrix + table + norm)));
    assert_eq!(llama.host.bytes, Some(Bytes::new(table)));
    let vllm = estimate_for(RuntimeKind::Vllm);
    assert_eq!(vllm.all.weights.bytes, Some(Bytes::new(2 * matrix + 2 * table + norm)));
    assert!(matches!(vllm.all.weights.source, Source::Read { .. }));
}

#[test]
fn invalid_settings_are_rejected_with_their_name() {
    let shape = sample::llama().shape().expect("reads the model");
    let plain = Settings::new(RuntimeKind::Vllm, 4096);
    let rejection =
        |settings: &Settings| estimate(&shape, settings).expect_err("is rejected").to_string();
    assert!(rejection(&Settings { context: 0, ..plain.clone() }).starts_with("context is 0"));
    assert!(
        rejection(&Settings { gpus: 3, ..plain.clone() })
            .contains("3 GPUs do not divide the model's 8")
    );
    assert!(rejection(&Settings { parallel: 1 << 20, ..plain }).starts_with("parallel is 1048576"));
    let config = Shape { format: Format::Config, ..shape.clone() };
    let error = estimate(&config, &Settings::new(RuntimeKind::Ollama, 4096));
    assert_eq!(error, Err(EstimateError::Format { runtime: RuntimeKind::Ollama }));
}

#[test]
fn a_compressed_cache_has_one_type() {
    let shape = sample::llama().shape().expect("reads the model");
    let latent =
        Cache::Latent { kv_lora_rank: 512, rope_length: 64, indexer_length: 0, window: None };
    let latent = Shape { layers: Sourced::read(vec![latent; 2], "layers"), ..shape.clone() };
    let kv = KvTypes { k: KvType::Q8_0, v: KvType::F16 };
    let mixed = Settings { kv, ..Settings::new(RuntimeKind::LlamaCpp, 4096) };
    assert_eq!(estimate(&latent, &mixed), Err(EstimateError::KvTypesDiffer { kv }));
    assert!(estimate(&shape, &mixed).is_ok());
}

/// Gemma 3 1B as llama.cpp of November 2026 reports it for `llama-server`: 55 MiB of compute
/// buffers for one request of 4096 tokens, of which the vocabulary of 262,144 tokens is 1 MiB.
#[test]
fn llama_server_keeps_the_scores_of_one_token_per_request() {
    let numbers = [
        ("block_count", 26),
        ("embedding_length", 1152),
        ("feed_forward_length", 6912),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 1),
        ("attention.key_length", 256),
        ("attention.value_length", 256),
        ("attention.sliding_window", 512),
        ("vocab_size", 262_144),
    ];
    let shape = sample::Sample::with_numbers("gemma3", &numbers).shape().expect("reads the model");
    let compute = |settings: &Settings| {
        estimate(&shape, settings).expect("estimates").all.compute.bytes.expect("is known")
    };
    let server = Settings::new(RuntimeKind::LlamaCpp, 4096);
    let library = Settings { scores: Scores::WholePass, ..server.clone() };
    assert!(compute(&server) >= Bytes::mib(55), "{}", compute(&server));
    assert!(compute(&server) < Bytes::mib(80), "{}", compute(&server));
    assert!(compute(&library) > Bytes::mib(500), "{}", compute(&library));
}

/// Qwen2.5-3B without flash attention in LLamaSharp#1099: 300.75 MiB, all of it for the output.
#[test]
fn a_published_compute_buffer_is_a_lower_bound() {
    let numbers = [
        ("block_count", 36),
        ("embedding_length", 2048),
        ("feed_forward_length", 11_008),
        ("attention.head_count", 16),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 128),
        ("attention.value_length", 128),
    ];
    let sample =
        sample::Sample::with_numbers("qwen2", &numbers).number("qwen2.vocab_size", 151_936);
    let shape = sample.shape().expect("reads the model");
    let library =
        Settings { scores: Scores::WholePass, ..Settings::new(RuntimeKind::LlamaCpp, 4096) };
    let estimate = estimate(&shape, &library).expect("estimates");
    let compute = estimate.all.compute.bytes.expect("is known");
    let published = Bytes::new(4 * 512 * (151_936 + 2048));
    assert!(
        compute >= published && compute.less(published).get() <= published.get() / 10,
        "{compute}"
    );
}
