//! The reverse question: what would fit a device of a given size. Every answer was checked by the one estimate.

use plimsoll_core::units::Bytes;

use crate::estimate::{EstimateError, PARALLEL_MOST, TOKENS_MOST, estimate};
use crate::settings::{KvType, KvTypes, RuntimeKind, Settings};
use crate::shape::Shape;

/// The longest context with which every GPU of this size holds its share; `None` when not even the shortest does.
///
/// It is at most what the model was trained for, where that is known.
pub fn longest_context(
    shape: &Shape,
    settings: &Settings,
    device: Bytes,
) -> Result<Option<u64>, EstimateError> {
    let most = shape.trained_context.get().copied().unwrap_or(TOKENS_MOST).min(TOKENS_MOST);
    largest(most, |context| fits(shape, &Settings { context, ..settings.clone() }, device))
}

/// The most requests at once with which every GPU of this size holds its share; `None` when not even one does.
pub fn largest_parallel(
    shape: &Shape,
    settings: &Settings,
    device: Bytes,
) -> Result<Option<u64>, EstimateError> {
    let most = most_parallel(settings.runtime);
    largest(most, |parallel| fits(shape, &Settings { parallel, ..settings.clone() }, device))
}

/// The most exact type of cache, not larger than the one asked for, with which every GPU of this size holds its share.
pub fn kv_type_that_fits(
    shape: &Shape,
    settings: &Settings,
    device: Bytes,
) -> Result<Option<KvTypes>, EstimateError> {
    let most = settings.kv.k.bytes_of_32() + settings.kv.v.bytes_of_32();
    if fits(shape, settings, device)? {
        return Ok(Some(settings.kv));
    }
    for kind in KvType::ALL.into_iter().filter(|kind| kind.is_known_to(settings.runtime)) {
        let smaller = Settings { kv: KvTypes::both(kind), ..settings.clone() };
        if 2 * kind.bytes_of_32() >= most {
            continue;
        }
        match fits(shape, &smaller, device) {
            Ok(true) => return Ok(Some(smaller.kv)),
            Ok(false)
            | Err(EstimateError::KvBlocks { .. } | EstimateError::NeedsFlashAttention { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// llama.cpp has a limit of its own; the others are asked for no more than an estimate takes.
fn most_parallel(runtime: RuntimeKind) -> u64 {
    match runtime {
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => 256,
        RuntimeKind::Vllm => PARALLEL_MOST,
    }
}

fn fits(shape: &Shape, settings: &Settings, device: Bytes) -> Result<bool, EstimateError> {
    match estimate(shape, settings) {
        Ok(estimate) => Ok(estimate.fits(device).unwrap_or(false)),
        // What cannot even be counted does not fit.
        Err(EstimateError::Overflow { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The largest number from 1 to `most` that holds, where every smaller one holds too.
pub fn largest<E>(most: u64, holds: impl Fn(u64) -> Result<bool, E>) -> Result<Option<u64>, E> {
    if most == 0 || !holds(1)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (1, most.saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Some(good))
}
