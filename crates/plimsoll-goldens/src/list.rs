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

    /// Finds a GGUF card by name.
    pub fn gguf(name: &str) -> Option<&'static Golden> {
        GGUF.iter().find(|golden| golden.name == name)
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
        for golden in GGUF.iter().chain(SAFETENSORS) {
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
