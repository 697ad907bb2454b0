//! Every card there is, by name.

use crate::card::{Card, CardError};

/// A model that has a card.
#[derive(Clone, Copy, Debug)]
pub struct Golden {
    /// Its name, and its file's.
    pub name: &'static str,
    text: &'static str,
}

impl Golden {
    /// Reads the card.
    pub fn card(&self) -> Result<Card<'static>, CardError> {
        Card::read(self.text)
    }

    /// The GGUF card of this name.
    pub fn gguf(name: &str) -> Option<&'static Golden> {
        GGUF.iter().find(|golden| golden.name == name)
    }

    /// The safetensors card of this name.
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
    fn every_card_is_right_and_names_no_tensor_twice() {
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
