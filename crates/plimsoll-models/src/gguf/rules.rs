//! The kind of cache that each layer of an architecture keeps, as llama.cpp decides it.
//!
//! Metadata alone does not determine the caches. Whether a sliding window applies to every second
//! or every sixth layer, for example, is code in llama.cpp and not a key in the file. A generic
//! rule would be wrong by a factor of up to six for the cache of such models, without any sign of
//! it. So each architecture is looked up, and the cache of one that is not listed here is unknown.
//!
//! Source: llama.cpp of September 2026, `load_arch_hparams` (windows, patterns) and
//! `create_memory` (kind of cache) of each model.

use crate::shape::ModelOutput;

/// The caches of an architecture's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Keys and values of all tokens in all layers.
    Full,
    /// No cache: an encoder or diffusion model that processes its whole input at once.
    NoCache,
    /// One compressed vector per token if the file has the MLA lengths, else keys and values.
    Latent,
    /// Like `Latent`, and the key of an indexer that selects tokens.
    LatentWithIndexer,
    /// Keys and values; some layers keep only those of a sliding window.
    Windowed(Width, Pattern),
    /// A state of fixed size in all layers.
    Recurrent,
    /// A state of fixed size in some layers, keys and values in the others.
    Hybrid(RecurrentLayers),
}

/// The width of the sliding window. The key is `attention.sliding_window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The key, which must be present.
    Required,
    /// The key; there is no window if it is absent or 0.
    Optional,
    /// The key, or this default.
    Default(u64),
    /// This constant, unless the key is 0.
    FixedUnlessZero(u64),
    /// This constant if the key is present and not 0, else there is no window.
    FixedIfSet(u64),
    /// The key or this default in models with exactly this number of layers, else no window.
    OnlyWithLayers { layers: u64, default: u64 },
}

/// The layers that have full attention; all others have the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The last layer of each group of this size, unless the file has a list.
    LastOfEach(u64),
    /// The first layer of each group of this size, unless the file has a list.
    FirstOfEach(u64),
    /// The layers that the file lists.
    Listed,
}

/// The layers of a hybrid architecture that keep a recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentLayers {
    /// Layers without KV heads.
    WithoutHeads,
    /// Layers without KV heads and without a feed-forward network. A layer with a feed-forward
    /// network keeps nothing.
    WithoutHeadsOrFeedForward,
    /// All layers except the last of each `full_attention_interval`.
    Interval,
}

const FULL_ATTENTION: &[&str] = &[
    "llama",
    "deci",
    "falcon",
    "grok",
    "gpt2",
    "gptneox",
    "mpt",
    "baichuan",
    "starcoder",
    "refact",
    "bloom",
    "stablelm",
    "qwen",
    "qwen2",
    "qwen2moe",
    "qwen2vl",
    "qwen3",
    "qwen3moe",
    "qwen3vl",
    "qwen3vlmoe",
    "phi2",
    "phi3",
    "phimoe",
    "plamo",
    "codeshell",
    "orion",
    "internlm2",
    "minicpm",
    "minicpm3",
    "gemma",
    "starcoder2",
    "xverse",
    "command-r",
    "dbrx",
    "olmo",
    "olmoe",
    "openelm",
    "arctic",
    "deepseek",
    "chatglm",
    "glm4",
    "glm4moe",
    "bitnet",
    "jais",
    "jais2",
    "nemotron",
    "exaone",
    "granite",
    "granitemoe",
    "chameleon",
    "plm",
    "bailingmoe",
    "bailingmoe2",
    "dots1",
    "arcee",
    "ernie4_5",
    "ernie4_5-moe",
    "hunyuan-moe",
    "hunyuan-dense",
    "smollm3",
    "seed_oss",
    "grovemoe",
    "apertus",
    "minimax-m2",
    "cogvlm",
    "pangu-embedded",
    "mistral3",
    "maincoder",
    "hunyuan_vl",
    "hy_v3",
    "llama-embed",
    "paddleocr",
    "deepseek2-ocr",
];

/// Encoders without an output matrix.
const ENCODERS: &[&str] = &[
    "bert",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "eurobert",
];

/// Encoders for which llama.cpp loads an output matrix that it does not use.
const ENCODERS_WITH_MATRIX: &[&str] = &["gemma-embedding"];

const DIFFUSION_MODELS: &[&str] = &["dream", "llada", "llada-moe", "rnd1"];

/// Architectures whose layers for multi-token prediction llama.cpp does not load, unless a flag for
/// speculative decoding asks for it.
const UNLOADED_PREDICTION_LAYERS: &[&str] = &[
    "bailingmoe2",
    "cohere2moe",
    "deepseek2",
    "deepseek32",
    "exaone-moe",
    "exaone4",
    "glm-dsa",
    "glm4",
    "glm4moe",
    "hy_v3",
    "mimo2",
    "nemotron_h",
    "nemotron_h_moe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "step35",
];

const OTHER_RULES: &[(&str, Rule)] = &[
    ("deepseek2", Rule::Latent),
    ("mistral4", Rule::Latent),
    ("deepseek32", Rule::LatentWithIndexer),
    ("glm-dsa", Rule::LatentWithIndexer),
    ("gemma2", Rule::Windowed(Width::Default(4096), Pattern::LastOfEach(2))),
    ("gemma3", Rule::Windowed(Width::Optional, Pattern::LastOfEach(6))),
    ("gemma3n", Rule::Windowed(Width::Required, Pattern::LastOfEach(5))),
    ("gemma4", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("cohere2", Rule::Windowed(Width::Required, Pattern::LastOfEach(4))),
    ("cohere2moe", Rule::Windowed(Width::Required, Pattern::FirstOfEach(4))),
    ("gpt-oss", Rule::Windowed(Width::Required, Pattern::LastOfEach(2))),
    ("llama4", Rule::Windowed(Width::FixedUnlessZero(8192), Pattern::LastOfEach(4))),
    (
        "exaone4",
        Rule::Windowed(Width::OnlyWithLayers { layers: 64, default: 4096 }, Pattern::LastOfEach(4)),
    ),
    ("exaone-moe", Rule::Windowed(Width::Required, Pattern::LastOfEach(4))),
    ("olmo2", Rule::Windowed(Width::Optional, Pattern::LastOfEach(4))),
    ("afmoe", Rule::Windowed(Width::Optional, Pattern::LastOfEach(4))),
    ("smallthinker", Rule::Windowed(Width::FixedIfSet(4096), Pattern::FirstOfEach(4))),
    ("plamo3", Rule::Windowed(Width::Optional, Pattern::LastOfEach(8))),
    ("mellum", Rule::Windowed(Width::Optional, Pattern::LastOfEach(4))),
    ("mimo2", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("step35", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("granite_swa", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("laguna", Rule::Windowed(Width::Optional, Pattern::FirstOfEach(4))),
    ("spark2_5", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("muse-glimmer", Rule::Windowed(Width::Required, Pattern::LastOfEach(4))),
    ("mamba", Rule::Recurrent),
    ("mamba2", Rule::Recurrent),
    ("rwkv6", Rule::Recurrent),
    ("rwkv6qwen2", Rule::Recurrent),
    ("rwkv7", Rule::Recurrent),
    ("arwkv7", Rule::Recurrent),
    ("jamba", Rule::Hybrid(RecurrentLayers::WithoutHeads)),
    ("granitehybrid", Rule::Hybrid(RecurrentLayers::WithoutHeads)),
    ("plamo2", Rule::Hybrid(RecurrentLayers::WithoutHeads)),
    ("lfm2", Rule::Hybrid(RecurrentLayers::WithoutHeads)),
    ("lfm2moe", Rule::Hybrid(RecurrentLayers::WithoutHeads)),
    ("nemotron_h", Rule::Hybrid(RecurrentLayers::WithoutHeadsOrFeedForward)),
    ("nemotron_h_moe", Rule::Hybrid(RecurrentLayers::WithoutHeadsOrFeedForward)),
    ("qwen3next", Rule::Hybrid(RecurrentLayers::Interval)),
    ("qwen35", Rule::Hybrid(RecurrentLayers::Interval)),
    ("qwen35moe", Rule::Hybrid(RecurrentLayers::Interval)),
];

/// Returns the rule of an architecture; `None` if it is not listed.
pub fn for_architecture(architecture: &str) -> Option<Rule> {
    if FULL_ATTENTION.contains(&architecture) {
        return Some(Rule::Full);
    }
    if [ENCODERS, ENCODERS_WITH_MATRIX, DIFFUSION_MODELS].concat().contains(&architecture) {
        return Some(Rule::NoCache);
    }
    OTHER_RULES.iter().find(|(name, _)| *name == architecture).map(|(_, rule)| *rule)
}

/// Returns what an architecture computes.
pub fn output_of(architecture: &str) -> ModelOutput {
    match [ENCODERS, ENCODERS_WITH_MATRIX].concat().contains(&architecture) {
        true => ModelOutput::Embeddings,
        false => ModelOutput::Scores,
    }
}

/// Returns true if a model without an output matrix uses its token embeddings as one.
pub fn ties_embeddings(architecture: &str) -> bool {
    !ENCODERS.contains(&architecture)
}

/// Returns true if the layers for multi-token prediction stay in the file.
pub fn leaves_prediction_layers(architecture: &str) -> bool {
    UNLOADED_PREDICTION_LAYERS.contains(&architecture)
}
