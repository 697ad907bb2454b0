//! The reverse question: the largest settings that fit a device of a given size.
//!
//! The search calls [`estimate`] and nothing else. A formula solved for the context would be
//! faster, but it would be a second computation that could disagree with the first; so every
//! proposal is one that the estimate itself accepts.

use plimsoll_core::units::Bytes;

use crate::estimate::{EstimateError, MAX_PARALLEL, MAX_TOKENS, estimate};
use crate::settings::{KvType, KvTypes, RuntimeKind, Settings};
use crate::shape::Shape;

/// The largest number of parallel sequences in llama.cpp: `LLAMA_MAX_SEQ`.
const LLAMA_MAX_PARALLEL: u64 = 256;

/// The largest number of GPUs that is tried. llama.cpp supports no more.
const MAX_TRIED_GPUS: u64 = 15;

/// Returns the longest context that fits GPUs with `device` bytes each; `None` if not even one
/// token fits. It is searched up to the trained context or the given one, whichever is longer.
pub fn longest_context(
    shape: &Shape,
    settings: &Settings,
    device: Bytes,
) -> Result<Option<u64>, EstimateError> {
    let trained = shape.trained_context.get().copied();
    let limit = trained.map_or(MAX_TOKENS, |trained| trained.max(settings.context).min(MAX_TOKENS));
    largest_satisfying(limit, |context| {
        fits(shape, &Settings { context, ..settings.clone() }, device)
    })
}

/// Returns the largest number of parallel requests that fits GPUs with `device` bytes each; `None`
/// if not even one request fits.
pub fn largest_parallel(
    shape: &Shape,
    settings: &Settings,
    device: Bytes,
) -> Result<Option<u64>, EstimateError> {
    let limit = match settings.runtime {
        RuntimeKind::LlamaCpp | RuntimeKind::Ollama => LLAMA_MAX_PARALLEL,
        RuntimeKind::Vllm => MAX_PARALLEL,
    };
    largest_satisfying(limit, |parallel| {
        fits(shape, &Settings { parallel, ..settings.clone() }, device)
    })
}

/// Returns the most precise KV cache type that fits GPUs with `device` bytes each: the given one,
/// or a smaller one for keys and values. Types that the model cannot use are skipped.
pub fn kv_type_that_fits(
    shape: &Shape,
    settings: &Settings,
    device: Bytes,
) -> Result<Option<KvTypes>, EstimateError> {
    if fits(shape, settings, device)? {
        return Ok(Some(settings.kv));
    }
    let current = settings.kv.k.bytes_of_32() + settings.kv.v.bytes_of_32();
    let smaller = KvType::ALL
        .into_iter()
        .filter(|kind| kind.is_known_to(settings.runtime) && 2 * kind.bytes_of_32() < current);
    for kind in smaller {
        let candidate = Settings { kv: KvTypes::both(kind), ..settings.clone() };
        match fits(shape, &candidate, device) {
            Ok(true) => return Ok(Some(candidate.kv)),
            Ok(false)
            | Err(EstimateError::KvBlocks { .. } | EstimateError::NeedsFlashAttention { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the smallest number of GPUs with `device` bytes each that the model fits, from the given
/// number on. Numbers that the runtime cannot split the model over are skipped.
pub fn fewest_gpus(
    shape: &Shape,
    settings: &Settings,
    device: Bytes,
) -> Result<Option<u64>, EstimateError> {
    for gpus in settings.gpus..=MAX_TRIED_GPUS {
        match fits(shape, &Settings { gpus, ..settings.clone() }, device) {
            Ok(true) => return Ok(Some(gpus)),
            Ok(false) | Err(EstimateError::Heads { .. } | EstimateError::SeveralPasses { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn fits(shape: &Shape, settings: &Settings, device: Bytes) -> Result<bool, EstimateError> {
    match estimate(shape, settings) {
        Ok(estimate) => Ok(estimate.fits(device).unwrap_or(false)),
        // A size beyond 64 bits fits no device.
        Err(EstimateError::Overflow { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the largest number from 1 to `limit` that satisfies a monotonic condition: if a number
/// satisfies it, so do all smaller ones. Returns `None` if 1 does not.
///
/// This is a binary search. `good` always satisfies the condition and `bad` never does or is beyond
/// the limit; each step halves the distance, so it ends after at most 64 calls. Estimates grow with
/// context and with parallel requests, which a property test checks; without that, the result
/// would satisfy the condition, but might not be the largest.
pub fn largest_satisfying<E>(
    limit: u64,
    condition: impl Fn(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    if limit == 0 || !condition(1)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (1, limit.saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if condition(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Some(good))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_search_finds_the_boundary_in_few_calls() {
        for (limit, boundary, expected) in [
            (u64::MAX, 1, Some(1)),
            (1000, 700, Some(700)),
            (1000, 2000, Some(1000)),
            (1000, 0, None),
            (0, 1, None),
        ] {
            let calls = Cell::new(0);
            let found = largest_satisfying(limit, |number| {
                calls.set(calls.get() + 1);
                Ok::<_, Infallible>(number <= boundary)
            });
            assert_eq!(found, Ok(expected), "{limit} {boundary}");
            assert!(calls.get() <= 65, "{} calls", calls.get());
        }
    }
}
