//! Compares one estimate with llama.cpp's answer to the same question.

use std::collections::BTreeMap;
use std::io::Cursor;

use anyhow::{Context, Result};
use plimsoll_core::units::Bytes;
use plimsoll_goldens::gguf;
use plimsoll_goldens::judged::{Judged, Question};
use plimsoll_goldens::list::Golden;
use plimsoll_models::estimate::{Part, estimate};
use plimsoll_models::gguf::{header, shape};
use plimsoll_models::settings::{KvTypes, RuntimeKind, Scores, Settings};
use plimsoll_models::shape::Shape;

/// An estimate and llama.cpp's number for the same quantity, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) estimate: u64,
    pub(super) llama_cpp: u64,
}

impl Pair {
    /// Returns the error of the estimate in hundredths of a percent; positive if it is too high.
    pub(super) fn error(self) -> i64 {
        let difference = i128::from(self.estimate) - i128::from(self.llama_cpp);
        let parts = difference * 10_000 / i128::from(self.llama_cpp.max(1));
        i64::try_from(parts).unwrap_or(i64::MAX)
    }

    fn plus(self, other: Pair) -> Pair {
        Pair {
            estimate: self.estimate + other.estimate,
            llama_cpp: self.llama_cpp + other.llama_cpp,
        }
    }
}

/// An estimate and llama.cpp's answer, part by part.
pub(super) struct Compared<'a> {
    pub(super) question: &'a Question,
    pub(super) weights: Pair,
    pub(super) cache: Pair,
    pub(super) compute: Pair,
    /// The sum of the parts above. The fixed part and the reserve have no counterpart in llama.cpp.
    pub(super) all: Pair,
    /// The compute buffers on each device.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the page shows the sum, the test checks each")
    )]
    pub(super) devices: Vec<Pair>,
}

/// Compares all lines of a record.
pub(super) fn compare_all(record: &[Judged]) -> Result<Vec<Compared<'_>>> {
    let mut shapes = BTreeMap::new();
    let mut compared = Vec::new();
    for judged in record {
        let model = judged.question.model.as_str();
        if !shapes.contains_key(model) {
            shapes.insert(model, read_golden(model)?);
        }
        compared.push(compare(judged, &shapes[model]).with_context(|| judged.to_string())?);
    }
    Ok(compared)
}

fn read_golden(model: &str) -> Result<Shape> {
    let golden = Golden::gguf(model).with_context(|| format!("{model} has no card"))?;
    let header = gguf::header(&golden.card()?);
    let header = header::read(Cursor::new(header))?;
    Ok(shape::from_headers(&[header])?)
}

fn compare<'a>(judged: &'a Judged, shape: &Shape) -> Result<Compared<'a>> {
    let Judged { question, answer } = judged;
    let estimate = estimate(shape, &settings(question)?)?;
    let device_part = bytes(&estimate.all.weights)?;
    let (weights, compute) = if answer.device_weights == 0 {
        // Without a device, tied embeddings have no second copy.
        let tied = shape.weights.get().and_then(|weights| weights.tied).map_or(0, Bytes::get);
        let all = device_part + bytes(&estimate.host)? - tied;
        (Pair { estimate: all, llama_cpp: answer.weights }, answer.compute)
    } else {
        let weights = Pair { estimate: device_part, llama_cpp: answer.device_weights };
        (weights, answer.device_compute.iter().sum())
    };
    let cache = Pair { estimate: bytes(&estimate.all.kv)?, llama_cpp: answer.cache };
    let compute = Pair { estimate: bytes(&estimate.all.compute)?, llama_cpp: compute };
    let all = weights.plus(cache).plus(compute);
    let mut devices = Vec::new();
    for (gpu, llama_cpp) in estimate.gpus.iter().zip(&answer.device_compute) {
        devices.push(Pair { estimate: bytes(&gpu.compute)?, llama_cpp: *llama_cpp });
    }
    Ok(Compared { question, weights, cache, compute, all, devices })
}

fn bytes(part: &Part) -> Result<u64> {
    part.bytes.map(Bytes::get).context("a part is unknown")
}

fn settings(question: &Question) -> Result<Settings> {
    let kv: KvTypes = question.kv.parse()?;
    let context_per_request = question.context / question.parallel;
    Ok(Settings {
        kv,
        parallel: question.parallel,
        gpus: question.gpus,
        batch: question.ubatch,
        ubatch: question.ubatch,
        flash_attention: question.flash,
        unified: false,
        scores: Scores::WholePass,
        ..Settings::new(RuntimeKind::LlamaCpp, context_per_request)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_goldens::judged;

    fn check(record: &str) {
        let record = judged::parse(record).expect("the record is valid");
        assert!(record.len() > 250, "{} lines", record.len());
        for compared in compare_all(&record).expect("all questions have estimates") {
            let (weights, cache, all) = (compared.weights, compared.cache, compared.all);
            let question = compared.question;
            assert_eq!(weights.estimate, weights.llama_cpp, "{question:?}");
            // The record has each of up to two kinds of cache rounded to a hundredth of a MiB.
            let difference = cache.estimate.abs_diff(cache.llama_cpp);
            assert!(difference <= 2 * 5243, "{question:?}: {cache:?}");
            assert!((0..=1000).contains(&all.error()), "{question:?}: {all:?}");
            // Command R computes attention and network of a layer in parallel, which needs two
            // score matrices on the first of two devices.
            let two_matrices =
                question.model == "command-r7b" && question.gpus == 2 && !question.flash;
            let devices = &compared.devices;
            assert!(
                two_matrices || devices.iter().all(|device| device.error() >= 0),
                "{question:?}: {devices:?}"
            );
        }
    }

    #[test]
    fn cpu_estimates_are_never_below_llama_cpp_and_at_most_a_tenth_above() {
        check(judged::CPU);
    }

    #[test]
    fn device_estimates_are_never_below_llama_cpp_and_at_most_a_tenth_above() {
        check(judged::VULKAN);
    }
}
