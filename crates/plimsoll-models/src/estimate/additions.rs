//! The memory of the files that llama-server loads beside a model.
//!
//! - A projector is on the first GPU, with buffers of its own.
//! - The tensors of a LoRA adapter are beside those that they change. Its results are added to
//!   those of the model, in the same pass.
//! - A draft model is a second model with caches and buffers of its own, split in the same
//!   proportions. The model then keeps the scores of all drafted tokens, and its recurrent states
//!   after each of them.

use plimsoll_core::units::Bytes;

use super::error::EstimateError;
use super::parts::Part;
use super::split::{LayerCounts, Split};
use super::{Estimate, compute, estimate_on, kv};
use crate::settings::{KvType, KvTypes, RuntimeKind, Settings};
use crate::shape::{Addition, Cache, Contents, Shape, Weights};

/// The memory that is added to the parts of one GPU.
#[derive(Clone)]
pub(super) struct Addend {
    pub(super) weights: Part,
    pub(super) kv: Part,
    pub(super) compute: Part,
}

impl Addend {
    fn none() -> Addend {
        let none = Part::computed(Bytes::ZERO, "no file beside the model");
        Addend { weights: none.clone(), kv: none.clone(), compute: none }
    }

    fn plus(&self, weights: &Part, kv: &Part, compute: &Part) -> Result<Addend, EstimateError> {
        Ok(Addend {
            weights: self.weights.plus(weights)?,
            kv: self.kv.plus(kv)?,
            compute: self.compute.plus(compute)?,
        })
    }
}

/// Returns the caches of the layers. With a draft model, llama.cpp keeps a copy of each recurrent
/// state for every drafted token, so that rejected ones can be taken back.
pub(super) fn caches_with_drafts(shape: &Shape, layers: &[Cache]) -> Vec<Cache> {
    let copies = shape.drafted_tokens() + 1;
    let layer = |cache: &Cache| match *cache {
        Cache::Recurrent { bytes } => Cache::Recurrent { bytes: bytes.saturating_mul(copies) },
        Cache::GroupedWithState { kv_heads, key_length, value_length, state } => {
            let state = Bytes::new(state.get().saturating_mul(copies));
            Cache::GroupedWithState { kv_heads, key_length, value_length, state }
        }
        other => other,
    };
    layers.iter().map(layer).collect()
}

/// Checks that the files are what they are loaded as, and that the runtime loads them.
pub(super) fn check(shape: &Shape, settings: &Settings) -> Result<(), EstimateError> {
    let option = match shape.contents {
        Contents::Model => None,
        Contents::Projector(_) => Some("mmproj"),
        Contents::Adapter(_) => Some("lora"),
    };
    if let Some(option) = option {
        return Err(EstimateError::NotAModel { found: shape.contents.name(), option });
    }
    if !shape.additions.is_empty() && settings.runtime != RuntimeKind::LlamaCpp {
        return Err(EstimateError::Additions { runtime: settings.runtime });
    }
    shape.additions.iter().try_for_each(|addition| {
        let (option, expected, file, is_expected) = match addition {
            Addition::Projector(file) => {
                ("mmproj", "a projector", file, matches!(file.contents, Contents::Projector(_)))
            }
            Addition::Adapter(file) => {
                ("lora", "a LoRA adapter", file, matches!(file.contents, Contents::Adapter(_)))
            }
            Addition::Draft(file) => ("draft", "a model", file, file.contents == Contents::Model),
        };
        match is_expected {
            true => Ok(()),
            false => {
                let found = file.contents.name();
                Err(EstimateError::NotThisAddition { option, expected, found })
            }
        }
    })
}

/// Returns a note that the numbers include a file.
pub(super) fn remark(addition: &Addition) -> String {
    let (what, file) = match addition {
        Addition::Projector(file) => ("projector", file),
        Addition::Adapter(file) => ("LoRA adapter", file),
        Addition::Draft(file) => ("draft model", file),
    };
    match &file.identity.name {
        Some(name) => format!("the {what} {name} is included"),
        None => format!("the {what} is included"),
    }
}

/// Returns the memory that the files add on each GPU.
pub(super) fn per_gpu(
    shape: &Shape,
    settings: &Settings,
    split: &Split,
) -> Result<Vec<Addend>, EstimateError> {
    let mut gpus = vec![Addend::none(); split.gpus()];
    for addition in &shape.additions {
        match addition {
            Addition::Projector(file) => add_projector(&mut gpus, file, settings)?,
            Addition::Adapter(file) => add_adapter(&mut gpus, file, (shape, settings, split))?,
            Addition::Draft(file) => {
                let draft = draft(shape, file, settings)?;
                for (gpu, parts) in gpus.iter_mut().zip(&draft.gpus) {
                    *gpu = gpu.plus(&parts.weights, &parts.kv, &parts.compute)?;
                }
            }
        }
    }
    Ok(gpus)
}

fn add_projector(
    gpus: &mut [Addend],
    file: &Shape,
    settings: &Settings,
) -> Result<(), EstimateError> {
    let (Contents::Projector(facts), Some(first)) = (&file.contents, gpus.first_mut()) else {
        return Ok(());
    };
    let weights = file.weights.get().map(|weights| weights.other);
    let compute = facts.compute.get().map(|bytes| match settings.flash_attention {
        true => *bytes,
        false => bytes.plus(facts.scores),
    });
    *first = first.plus(
        &part(weights, file.weights.source()),
        &Addend::none().kv,
        &part(compute, facts.compute.source()),
    )?;
    Ok(())
}

fn part(bytes: Option<Bytes>, source: &crate::source::Source) -> Part {
    match bytes {
        Some(bytes) => Part::with_source(bytes, source),
        None => Part::unknown_like(source),
    }
}

/// Adds an adapter. Its buffers on a GPU are rounded up to a MiB, because backends align each of
/// its many small tensors.
fn add_adapter(
    gpus: &mut [Addend],
    file: &Shape,
    (shape, settings, split): (&Shape, &Settings, &Split),
) -> Result<(), EstimateError> {
    let (Contents::Adapter(facts), Some(weights)) = (&file.contents, file.weights.get()) else {
        return Ok(());
    };
    let overflow = || EstimateError::Overflow { what: "an adapter" };
    let sums = sums(weights, split).ok_or_else(overflow)?;
    let results = facts.widest.checked_mul(2).and_then(|widest| widest.checked_add(facts.rank));
    let results = u128::from(results.ok_or_else(overflow)?);
    // Changed embeddings are passed to the first GPU, once for each pipeline copy, and added.
    let has_embeddings = !weights.embedding.is_zero();
    let width = shape.embedding.get().copied().filter(|_| has_embeddings).unwrap_or(0);
    let vocabulary = u128::from(shape.vocabulary.get().copied().unwrap_or(0));
    let scores = vocabulary.checked_mul(2 * compute::scored_tokens(shape, settings));
    let tokens = kv::tokens_per_pass(settings);
    for (gpu, (addend, weights)) in gpus.iter_mut().zip(sums).enumerate() {
        let elements = if gpu == 0 { results + 8 * u128::from(width) } else { results };
        let scores = if split.has_output(gpu) { scores } else { Some(0) };
        let elements = elements.checked_mul(tokens).zip(scores);
        let bytes = elements.and_then(|(pass, scores)| pass.checked_add(scores)?.checked_mul(4));
        let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(overflow)?;
        *addend = addend.plus(
            &Part::with_source(weights.ceil_mib(), file.weights.source()),
            &Addend::none().kv,
            &Part::computed(Bytes::new(bytes), "the results of the adapter"),
        )?;
    }
    Ok(())
}

/// Returns the tensors of an adapter on each GPU. Those of the token embeddings are on the host.
fn sums(weights: &Weights, split: &Split) -> Option<Vec<Bytes>> {
    let mut sums = split.sum_layers(&weights.layers, weights.other)?;
    let first = sums.first_mut()?;
    *first = first.checked_add(weights.input)?;
    let last = (0..sums.len()).rev().find(|gpu| split.has_output(*gpu))?;
    sums[last] = sums[last].checked_add(weights.output)?;
    Some(sums)
}

/// Estimates the draft model with the settings that llama-server gives it.
fn draft(shape: &Shape, file: &Shape, settings: &Settings) -> Result<Estimate, EstimateError> {
    let settings = Settings { kv: KvTypes::both(KvType::F16), ..settings.clone() };
    let model = LayerCounts::for_shape(shape, settings.gpus);
    let layers = file.layer_count().unwrap_or(0) as u64;
    estimate_on(file, &settings, &Split::by_layer(model.proportional(layers)))
}
