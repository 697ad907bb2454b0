//! Which layers of an architecture keep what, as llama.cpp decides it; an architecture that is not listed is refused.
//!
//! Looked up in llama.cpp of September 2026: what `load_arch_hparams` of each model sets, and what `create_memory` makes of it.

/// What the layers of an architecture keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Keys and values of every token, in every layer.
    Plain,
    /// Nothing: the model reads its whole input at once.
    Nothing,
    /// A compressed vector where the file has the lengths for it, else keys and values.
    Latent,
    /// Keys and values, in some layers only those of a window.
    Windowed(Width, Pattern),
    /// A state of fixed size, in every layer.
    Recurrent,
    /// A state of fixed size in some layers, keys and values in others.
    Hybrid(Choice),
}

/// Where the width of a window stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Under `attention.sliding_window`, which must be there.
    Required,
    /// Under `attention.sliding_window`; without it, or with 0, there is no window.
    Optional,
    /// Under `attention.sliding_window`, else this.
    Default(u64),
    /// Always this, unless `attention.sliding_window` is 0.
    UnlessZero(u64),
    /// Always this where `attention.sliding_window` is there and not 0, else there is no window.
    WhereGiven(u64),
    /// This or what the key says in models of so many layers; no window in others.
    Sized(u64, u64),
}

/// Which layers have a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// All but the last of so many, unless the file has a list.
    LastFull(u64),
    /// All but the first of so many, unless the file has a list.
    FirstFull(u64),
    /// Those that the file lists.
    Listed,
}

/// Which layers of a hybrid keep a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Those without heads for keys and values.
    WithoutHeads,
    /// Those without such heads and without a feed-forward network; a layer with a network keeps nothing.
    WithoutHeadsOrNetwork,
    /// All but the last of every `full_attention_interval`.
    Interval,
}

const PLAIN: &[&str] = &[
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
];

const NOTHING: &[&str] = &[
    "bert",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "eurobert",
    "gemma-embedding",
    "dream",
    "llada",
    "llada-moe",
    "rnd1",
];

const OTHERS: &[(&str, Rule)] = &[
    ("deepseek2", Rule::Latent),
    ("gemma2", Rule::Windowed(Width::Default(4096), Pattern::LastFull(2))),
    ("gemma3", Rule::Windowed(Width::Optional, Pattern::LastFull(6))),
    ("gemma3n", Rule::Windowed(Width::Required, Pattern::LastFull(5))),
    ("gemma4", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("cohere2", Rule::Windowed(Width::Required, Pattern::LastFull(4))),
    ("cohere2moe", Rule::Windowed(Width::Required, Pattern::FirstFull(4))),
    ("gpt-oss", Rule::Windowed(Width::Required, Pattern::LastFull(2))),
    ("llama4", Rule::Windowed(Width::UnlessZero(8192), Pattern::LastFull(4))),
    ("exaone4", Rule::Windowed(Width::Sized(64, 4096), Pattern::LastFull(4))),
    ("exaone-moe", Rule::Windowed(Width::Required, Pattern::LastFull(4))),
    ("olmo2", Rule::Windowed(Width::Optional, Pattern::LastFull(4))),
    ("afmoe", Rule::Windowed(Width::Optional, Pattern::LastFull(4))),
    ("smallthinker", Rule::Windowed(Width::WhereGiven(4096), Pattern::FirstFull(4))),
    ("plamo3", Rule::Windowed(Width::Optional, Pattern::LastFull(8))),
    ("mellum", Rule::Windowed(Width::Optional, Pattern::LastFull(4))),
    ("mimo2", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("step35", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("granite_swa", Rule::Windowed(Width::Required, Pattern::Listed)),
    ("mamba", Rule::Recurrent),
    ("mamba2", Rule::Recurrent),
    ("rwkv6", Rule::Recurrent),
    ("rwkv6qwen2", Rule::Recurrent),
    ("rwkv7", Rule::Recurrent),
    ("arwkv7", Rule::Recurrent),
    ("jamba", Rule::Hybrid(Choice::WithoutHeads)),
    ("granitehybrid", Rule::Hybrid(Choice::WithoutHeads)),
    ("plamo2", Rule::Hybrid(Choice::WithoutHeads)),
    ("lfm2", Rule::Hybrid(Choice::WithoutHeads)),
    ("lfm2moe", Rule::Hybrid(Choice::WithoutHeads)),
    ("nemotron_h", Rule::Hybrid(Choice::WithoutHeadsOrNetwork)),
    ("nemotron_h_moe", Rule::Hybrid(Choice::WithoutHeadsOrNetwork)),
    ("qwen3next", Rule::Hybrid(Choice::Interval)),
    ("qwen35", Rule::Hybrid(Choice::Interval)),
    ("qwen35moe", Rule::Hybrid(Choice::Interval)),
];

/// The rule of an architecture; `None` for one that nobody looked up.
pub fn of(architecture: &str) -> Option<Rule> {
    if PLAIN.contains(&architecture) {
        return Some(Rule::Plain);
    }
    if NOTHING.contains(&architecture) {
        return Some(Rule::Nothing);
    }
    OTHERS.iter().find(|(name, _)| *name == architecture).map(|(_, rule)| *rule)
}
