//! The table of architectures that llama.cpp serves: one row for each.
//!
//! Metadata alone does not determine the caches. Whether a sliding window applies to every second
//! or every sixth layer, for example, is code in llama.cpp and not a key in the file. A generic
//! rule would be wrong by a factor of up to six for the cache of such models, without any sign of
//! it. So each architecture has a row, and the cache of one without a row is unknown.
//!
//! Source: llama.cpp of November 2026, `load_arch_hparams` (windows, patterns) and
//! `create_memory` (kind of cache) of each model.

use super::rules::Indexer;
use super::rules::Pattern::{FirstOfEach, LastOfEach, Listed};
use super::rules::RecurrentLayers::{Interval, WithoutHeads, WithoutHeadsOrFeedForward};
use super::rules::Rule::{self, *};
use super::rules::Width::{
    Default, FixedIfSet, FixedUnlessZero, OnlyWithLayers, Optional, Required,
};
use super::rules::{Attention, Sharing};
use crate::shape::{FlashAttention, ModelOutput};

/// An architecture, as the row of the table describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The value of `general.architecture`.
    pub name: &'static str,
    pub caches: Rule,
    pub sharing: Sharing,
    pub output: ModelOutput,
    pub matrix: OutputMatrix,
    pub prediction_layers: PredictionLayers,
    pub flash_attention: FlashAttention,
    /// The key with the number of times that a pass goes through the layers.
    pub passes: Option<&'static str>,
}

/// The output matrix of a model whose file has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMatrix {
    /// A second copy of the token embeddings. An encoder does not use it, and llama.cpp loads it.
    Embeddings,
    /// The token embeddings on the host.
    OnHost,
    /// None: the model returns its hidden state.
    Absent,
}

/// The layers for multi-token prediction, unless a flag for speculative decoding asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictionLayers {
    Loaded,
    /// They stay in the file.
    Left,
}

/// Finds the row of an architecture.
pub fn find(name: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|row| row.name == name)
}

/// Returns what an architecture is that llama.cpp reads and cannot serve as a model of its own.
pub fn unserved(name: &str) -> Option<&'static str> {
    UNSERVED.iter().find(|(unserved, _)| *unserved == name).map(|(_, what)| *what)
}

/// Returns the names of all architectures with a row.
#[cfg(test)]
pub(crate) fn names() -> Vec<&'static str> {
    ARCHITECTURES.iter().map(|row| row.name).collect()
}

const fn row(name: &'static str, caches: Rule) -> Architecture {
    Architecture {
        name,
        caches,
        sharing: Sharing::None,
        output: ModelOutput::Scores,
        matrix: OutputMatrix::Embeddings,
        prediction_layers: PredictionLayers::Loaded,
        flash_attention: FlashAttention::Supported,
        passes: None,
    }
}

/// Returns the row of an encoder, which has no output matrix.
const fn encoder(name: &'static str) -> Architecture {
    let output = ModelOutput::Embeddings;
    Architecture { output, matrix: OutputMatrix::Absent, ..row(name, NoCache) }
}

impl Architecture {
    const fn with_matrix(self, matrix: OutputMatrix) -> Architecture {
        Architecture { matrix, ..self }
    }

    const fn leaves_prediction_layers(self) -> Architecture {
        Architecture { prediction_layers: PredictionLayers::Left, ..self }
    }

    /// llama.cpp switches flash attention off, whatever its flags are.
    const fn without_flash_attention(self) -> Architecture {
        Architecture { flash_attention: FlashAttention::SwitchedOff, ..self }
    }

    const fn passes_layers(self, key: &'static str) -> Architecture {
        Architecture { passes: Some(key), ..self }
    }

    const fn shares_caches(self, sharing: Sharing) -> Architecture {
        Architecture { sharing, ..self }
    }
}

const ARCHITECTURES: &[Architecture] = &[
    row("llama", Full),
    row("deci", Full),
    row("falcon", Full),
    row("grok", Full).without_flash_attention(),
    row("gpt2", Full),
    row("gptneox", Full),
    row("mpt", Full),
    row("baichuan", Full),
    row("starcoder", Full),
    row("refact", Full),
    row("bloom", Full),
    row("stablelm", Full),
    row("qwen", Full),
    row("qwen2", Full),
    row("qwen2moe", Full),
    row("qwen2vl", Full),
    row("qwen3", Full),
    row("qwen3moe", Full),
    row("qwen3vl", Full),
    row("qwen3vlmoe", Full),
    row("phi2", Full),
    row("phi3", Full),
    row("phimoe", Full),
    row("plamo", Full),
    row("codeshell", Full),
    row("orion", Full),
    row("internlm2", Full),
    row("minicpm", Full),
    row("minicpm3", Full),
    row("gemma", Full),
    row("starcoder2", Full),
    row("xverse", Full),
    row("command-r", Full),
    row("dbrx", Full),
    row("olmo", Full),
    row("olmoe", Full),
    row("openelm", Full),
    row("arctic", Full),
    row("deepseek", Full),
    row("chatglm", Full),
    row("glm4", Full).leaves_prediction_layers(),
    row("glm4moe", Full).leaves_prediction_layers(),
    row("bitnet", Full).with_matrix(OutputMatrix::OnHost),
    row("jais", Full),
    row("jais2", Full),
    row("nemotron", Full),
    row("exaone", Full),
    row("granite", Full),
    row("granitemoe", Full),
    row("chameleon", Full),
    row("plm", Full),
    row("bailingmoe", Full),
    row("bailingmoe2", Full).leaves_prediction_layers(),
    row("dots1", Full),
    row("arcee", Full),
    row("ernie4_5", Full),
    row("ernie4_5-moe", Full),
    row("hunyuan-moe", Full),
    row("hunyuan-dense", Full),
    row("smollm3", Full),
    row("seed_oss", Full),
    row("grovemoe", Full),
    row("apertus", Full),
    row("minimax-m2", Full),
    row("cogvlm", Full),
    row("pangu-embedded", Full),
    row("mistral3", Full),
    row("maincoder", Full),
    row("hunyuan_vl", Full),
    row("hy_v3", Full).leaves_prediction_layers(),
    row("llama-embed", Full),
    row("paddleocr", Full),
    row("deepseek2-ocr", Full),
    row("deepseek2", Latent(Indexer::None)).leaves_prediction_layers(),
    row("mistral4", Latent(Indexer::None)),
    row("deepseek32", Latent(Indexer::Always)).leaves_prediction_layers(),
    row("glm-dsa", Latent(Indexer::Listed)).leaves_prediction_layers(),
    row("gemma2", Windowed(Default(4096), LastOfEach(2))),
    row("gemma3", Windowed(Optional, LastOfEach(6))),
    row("gemma3n", Windowed(Required, LastOfEach(5)))
        .shares_caches(Sharing::After(GEMMA3N_LAYERS_WITH_CACHE)),
    row("gemma4", Windowed(Required, Listed)).shares_caches(Sharing::LastOnes),
    row("cohere2", Windowed(Required, LastOfEach(4))),
    row("cohere2moe", Windowed(Required, FirstOfEach(4))).leaves_prediction_layers(),
    row("gpt-oss", Windowed(Required, LastOfEach(2))),
    row("llama4", Windowed(FixedUnlessZero(8192), LastOfEach(4))),
    row("exaone4", Windowed(OnlyWithLayers { layers: 64, default: 4096 }, LastOfEach(4)))
        .leaves_prediction_layers(),
    row("exaone-moe", Windowed(Required, LastOfEach(4))).leaves_prediction_layers(),
    row("olmo2", Windowed(Optional, LastOfEach(4))),
    row("afmoe", Windowed(Optional, LastOfEach(4))),
    row("smallthinker", Windowed(FixedIfSet(4096), FirstOfEach(4))),
    row("plamo3", Windowed(Optional, LastOfEach(8))),
    row("mellum", Windowed(Optional, LastOfEach(4))),
    row("mimo2", Windowed(Required, Listed)).leaves_prediction_layers(),
    row("step35", Windowed(Required, Listed)).leaves_prediction_layers(),
    row("granite_swa", Windowed(Required, Listed)),
    row("laguna", Windowed(Optional, FirstOfEach(4))),
    row("spark2_5", Windowed(Required, Listed)),
    row("muse-glimmer", Windowed(Required, LastOfEach(4))),
    row("mamba", Recurrent),
    row("mamba2", Recurrent),
    row("rwkv6", Recurrent),
    row("rwkv6qwen2", Recurrent),
    row("rwkv7", Recurrent),
    row("arwkv7", Recurrent),
    row("jamba", Hybrid(WithoutHeads, Attention::Grouped)),
    row("granitehybrid", Hybrid(WithoutHeads, Attention::Grouped)),
    row("plamo2", Hybrid(WithoutHeads, Attention::Grouped)),
    row("lfm2", Hybrid(WithoutHeads, Attention::Windowed)),
    row("lfm2moe", Hybrid(WithoutHeads, Attention::Grouped)),
    row("nemotron_h", Hybrid(WithoutHeadsOrFeedForward, Attention::Grouped))
        .leaves_prediction_layers(),
    row("nemotron_h_moe", Hybrid(WithoutHeadsOrFeedForward, Attention::Grouped))
        .leaves_prediction_layers(),
    row("qwen3next", Hybrid(Interval(4), Attention::Grouped)).leaves_prediction_layers(),
    row("qwen35", Hybrid(Interval(4), Attention::Grouped)).leaves_prediction_layers(),
    row("qwen35moe", Hybrid(Interval(4), Attention::Grouped)).leaves_prediction_layers(),
    row("falcon-h1", Parallel),
    row("talkie", Full),
    row("maple", Windowed(Required, Listed)),
    row("kimi-linear", Hybrid(WithoutHeads, Attention::Latent(Indexer::None)))
        .leaves_prediction_layers(),
    row("bailingmoe3", Hybrid(WithoutHeads, Attention::Latent(Indexer::None)))
        .leaves_prediction_layers(),
    row("kimi-k3", Hybrid(WithoutHeads, Attention::Latent(Indexer::None))),
    row("glm5-next", Hybrid(WithoutHeads, Attention::Latent(Indexer::Pooled)))
        .leaves_prediction_layers(),
    row("minimax-m3", Indexed),
    row("minimax-01", Hybrid(Interval(8), Attention::Grouped)),
    row("hy_v4", Latent(Indexer::Optional)),
    row("dots3note", LatentWindowed).leaves_prediction_layers(),
    row("deepseek4", Compressed).leaves_prediction_layers(),
    row("nanbeige", Looped).passes_layers(NANBEIGE_PASSES),
    row("hrm_text", Full).passes_layers("hrm.h_cycles"),
    encoder("bert"),
    encoder("modern-bert"),
    encoder("nomic-bert"),
    encoder("nomic-bert-moe"),
    encoder("neo-bert"),
    encoder("jina-bert-v2"),
    encoder("jina-bert-v3"),
    encoder("eurobert"),
    encoder("clef"),
    encoder("gemma-embedding").with_matrix(OutputMatrix::Embeddings),
    row("dream", NoCache),
    row("llada", NoCache),
    row("llada-moe", NoCache),
    row("rnd1", NoCache),
];

/// The number of Gemma 3n layers with a cache of their own. llama.cpp hard-codes it
/// (`n_layer_kv_from_start = 20`), and files have no key for it. It matches `num_hidden_layers`
/// minus `num_kv_shared_layers` of both published sizes: 30 - 10 for E2B and 35 - 15 for E4B.
const GEMMA3N_LAYERS_WITH_CACHE: u64 = 20;

/// The key with the passes of Nanbeige. Each pass has caches of its own.
pub(super) const NANBEIGE_PASSES: &str = "num_loops";

const DRAFT: &str = "a draft model, which runs beside the model that it drafts for";
const SPEECH: &str = "a speech model, which llama-server cannot serve";

/// Architectures without a row, and what they are. `plimsoll` does not estimate them: a server with
/// only this file has nothing to answer with.
const UNSERVED: &[(&str, &str)] = &[
    ("eagle3", DRAFT),
    ("dflash", DRAFT),
    ("gemma4-assistant", DRAFT),
    ("qwen3tts", SPEECH),
    ("pockettts", SPEECH),
    ("wavtokenizer-dec", SPEECH),
    ("t5", "an encoder with a decoder, which llama-server cannot serve"),
    ("t5encoder", "the encoder of a model with a decoder, which llama-server cannot serve"),
    ("gptj", "a name that llama.cpp reserves; it cannot load such a model"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_architecture_has_one_row() {
        let rows = ARCHITECTURES.iter().map(|row| row.name);
        let names = rows.chain(UNSERVED.iter().map(|(name, _)| *name));
        let unique: BTreeSet<_> = names.clone().collect();
        assert_eq!(unique.len(), names.count());
    }
}
