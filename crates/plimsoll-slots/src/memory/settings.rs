//! The settings that decide the memory of a model, and the changes that outdate a measurement.

use std::collections::BTreeMap;

use plimsoll_models::settings::RuntimeKind;
use serde::{Deserialize, Serialize};

use crate::model::Declaration;
use crate::runtime::{Kv, Runtime};

/// The settings that decide the memory of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingSettings {
    /// `None` for a program whose flags Plimsoll does not render.
    pub runtime: Option<RuntimeKind>,
    pub context: Option<u64>,
    pub kv: Option<Kv>,
    pub concurrency: u32,
    pub file: Option<String>,
    /// `None` in a measurement of a version that did not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<MemoryOptions>,
}

/// The options of a runtime that can change its memory. Times, and what Plimsoll only calculates
/// with, cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ubatch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash_attention: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mmproj: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lora: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// The user's arguments, or all of those of a `command`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

impl From<&Runtime> for MemoryOptions {
    fn from(runtime: &Runtime) -> Self {
        match runtime {
            Runtime::Command(command) => MemoryOptions {
                args: command.argv.clone(),
                env: command.env.clone(),
                ..MemoryOptions::default()
            },
            Runtime::Vllm(options) | Runtime::LlamaCpp(options) | Runtime::Ollama(options) => {
                MemoryOptions {
                    program: options.program.clone(),
                    model: options.model.clone(),
                    batch: options.batch,
                    ubatch: options.ubatch,
                    flash_attention: options.flash_attention,
                    mmproj: options.mmproj.clone(),
                    lora: options.lora.clone(),
                    draft: options.draft.clone(),
                    args: options.args.clone(),
                    env: options.env.clone(),
                }
            }
        }
    }
}

impl MemoryOptions {
    /// Returns the name of the first option that differs.
    fn change_to(&self, declared: &MemoryOptions) -> Option<&'static str> {
        let MemoryOptions { program, model, batch, ubatch, flash_attention, .. } = declared;
        let MemoryOptions { mmproj, lora, draft, args, env, .. } = declared;
        let changes = [
            ("program", self.program != *program),
            ("model", self.model != *model),
            ("batch", self.batch != *batch),
            ("ubatch", self.ubatch != *ubatch),
            ("flash_attention", self.flash_attention != *flash_attention),
            ("mmproj", self.mmproj != *mmproj),
            ("lora", self.lora != *lora),
            ("draft", self.draft != *draft),
            ("args", self.args != *args),
            ("env", self.env != *env),
        ];
        changes.into_iter().find_map(|(name, is_changed)| is_changed.then_some(name))
    }
}

impl From<&Declaration> for ServingSettings {
    fn from(declared: &Declaration) -> Self {
        ServingSettings {
            runtime: declared.runtime.kind(),
            context: declared.context,
            kv: declared.kv,
            concurrency: declared.concurrency,
            file: declared.file.clone(),
            options: Some(MemoryOptions::from(&declared.runtime)),
        }
    }
}

impl ServingSettings {
    /// Returns the first setting that differs from the declared ones.
    pub(super) fn change_to(&self, declared: &ServingSettings) -> Option<SettingChange> {
        let ServingSettings { runtime, context, kv, concurrency, file, options } = declared;
        if self.runtime != *runtime {
            Some(SettingChange::Runtime { measured: self.runtime, declared: *runtime })
        } else if self.context != *context {
            Some(SettingChange::Context { measured: self.context, declared: *context })
        } else if self.kv != *kv {
            Some(SettingChange::Kv { measured: self.kv, declared: *kv })
        } else if self.concurrency != *concurrency {
            let (measured, declared) = (self.concurrency, *concurrency);
            Some(SettingChange::Concurrency { measured, declared })
        } else if self.file != *file {
            Some(SettingChange::File { measured: self.file.clone(), declared: file.clone() })
        } else {
            match (&self.options, options) {
                (Some(measured), Some(declared)) => {
                    let option = measured.change_to(declared)?;
                    Some(SettingChange::Option { option })
                }
                (None, _) | (_, None) => Some(SettingChange::UnknownOptions),
            }
        }
    }
}

/// A setting that was changed since a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    Runtime {
        measured: Option<RuntimeKind>,
        declared: Option<RuntimeKind>,
    },
    Context {
        measured: Option<u64>,
        declared: Option<u64>,
    },
    Kv {
        measured: Option<Kv>,
        declared: Option<Kv>,
    },
    Concurrency {
        measured: u32,
        declared: u32,
    },
    File {
        measured: Option<String>,
        declared: Option<String>,
    },
    /// An option of the runtime, by its name in the declaration.
    Option {
        option: &'static str,
    },
    /// The measurement does not record the options of the runtime.
    UnknownOptions,
}
