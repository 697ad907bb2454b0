//! All cards, by name.

use crate::card::{Card, CardError};

/// A model with a card.
#[derive(Clone, Copy, Debug)]
pub struct Golden {
    /// The name of the model and of its files.
    pub name: &'static str,
    text: &'static str,
}

impl Golden {
    /// Parses the card.
    pub fn card(&self) -> Result<Card<'static>, CardError> {
        Card::parse(self.text)
    }

    /// Returns all models with a GGUF card.
    pub fn all_gguf() -> impl Iterator<Item = &'static Golden> {
        GGUF.iter().chain(SHAPES)
    }

    /// Finds a GGUF card by name.
    pub fn gguf(name: &str) -> Option<&'static Golden> {
        Golden::all_gguf().find(|golden| golden.name == name)
    }

    /// Finds a safetensors card by name.
    pub fn safetensors(name: &str) -> Option<&'static Golden> {
        SAFETENSORS.iter().find(|golden| golden.name == name)
    }
}

macro_rules! cards {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(Golden { name: $name, text: include_str!(concat!("../cards/", $folder, "/", $name, ".txt")) }),*]
    };
}

/// Models as GGUF files.
pub const GGUF: &[Golden] = cards!("gguf":
    "llama-3-8b",
    "mistral-7b-v0.3",
    "mistral-small-22b",
    "mixtral-8x7b",
    "qwen2.5-3b",
    "qwen3-8b",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "gemma-2-9b",
    "gemma-3-12b",
    "deepseek-v2-lite",
    "deepseek-v3",
    "phi-3-mini",
    "phi-4",
    "gpt-oss-20b",
    "nemotron-nano-9b-v2",
    "lfm2-1.2b",
    "qwen3-next-80b-a3b",
    "granite-4-h-tiny",
    "command-r7b",
    "llama-4-scout",
);

/// Models by the shape of their layers, with the tensors that llama.cpp lists for their metadata.
pub const SHAPES: &[Golden] = cards!("gguf":
    "afm-4.5b",
    "apertus-8b",
    "arctic",
    "baichuan2-13b",
    "bge-m3",
    "bitnet-2b",
    "bloom-7b1",
    "chameleon-7b",
    "command-r-35b",
    "dbrx",
    "deepseek-moe-16b",
    "deepseek-v3.2",
    "deepseek-v4-flash",
    "dots.llm1",
    "dots3-note",
    "embeddinggemma-300m",
    "ernie-4.5-0.3b",
    "ernie-4.5-21b-a3b",
    "exaone-3.5-7.8b",
    "exaone-4-32b",
    "falcon-7b",
    "falcon-h1-7b",
    "falcon-mamba-7b",
    "gemma-3-1b",
    "gemma-3-27b",
    "gemma-3n-e4b",
    "gemma-4-31b",
    "gemma-4-e2b",
    "gemma-4-e4b",
    "gemma-7b",
    "glm-4-32b",
    "glm-4-9b",
    "glm-4.5-air",
    "glm-5",
    "glm-5.3-flash",
    "gpt-neox-20b",
    "gpt-oss-120b",
    "gpt2-xl",
    "granite-3.1-3b-a800m",
    "granite-3.3-8b",
    "grok-2",
    "grovemoe-33b-a3b",
    "hrm-text-1b",
    "hunyuan-3",
    "hunyuan-4",
    "hunyuan-7b",
    "hunyuan-a13b",
    "internlm2-7b",
    "jais-13b",
    "jamba-mini",
    "kimi-k2",
    "kimi-k3",
    "kimi-linear-48b-a3b",
    "lfm2-8b-a1b",
    "ling-3-mini",
    "ling-mini-2.0",
    "llama-3.3-70b",
    "mamba2-2.7b",
    "maple",
    "mimo-v2-flash",
    "minicpm-2b",
    "minicpm3-4b",
    "minimax-01",
    "minimax-m2",
    "minimax-m3",
    "ministral-3-8b",
    "minitron-4b",
    "mistral-small-4",
    "modernbert-large",
    "mpt-7b",
    "nanbeige-3b",
    "nanbeige-3b-twice",
    "nemotron-3-nano-30b-a3b",
    "nemotron-super-49b",
    "olmo-7b",
    "olmo2-13b",
    "olmoe-7b-a1b",
    "phi-2",
    "phi-3.5-moe",
    "qwen-7b",
    "qwen2-57b-a14b",
    "qwen2-vl-7b",
    "qwen3-4b",
    "qwen3-vl-30b-a3b",
    "qwen3-vl-8b",
    "qwen3.5-35b-a3b",
    "qwen3.5-9b",
    "rwkv6-7b",
    "rwkv7-2.9b",
    "seed-oss-36b",
    "smallthinker-21b-a3b",
    "smollm3-3b",
    "stablelm-2-1.6b",
    "starcoder-15b",
    "starcoder2-7b",
    "step-3.5-flash",
    "talkie-13b",
    "trinity-mini",
);

/// Models as safetensors with their `config.json`.
pub const SAFETENSORS: &[Golden] = cards!("hf":
    "llama-3-8b",
    "mistral-7b-v0.3",
    "mixtral-8x7b",
    "qwen2.5-3b",
    "qwen3-8b",
    "qwen3-30b-a3b",
    "gemma-2-9b",
    "gemma-3-12b",
    "deepseek-v2-lite",
    "deepseek-v3",
    "phi-3-mini",
    "phi-4",
    "gpt-oss-20b",
    "nemotron-nano-9b-v2",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cards_are_valid_and_name_no_tensor_twice() {
        for golden in Golden::all_gguf().chain(SAFETENSORS) {
            let card = golden.card().expect(golden.name);
            let mut names: Vec<&str> =
                card.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{}", golden.name);
        }
    }
}
