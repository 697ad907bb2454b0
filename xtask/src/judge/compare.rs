//! Our estimate beside what llama.cpp said, for one question.

use std::collections::BTreeMap;
use std::io::Cursor;

use anyhow::{Context, Result};
use plimsoll_core::units::Bytes;
use plimsoll_goldens::gguf;
use plimsoll_goldens::judged::{Answer, Judged, Question};
use plimsoll_goldens::list::Golden;
use plimsoll_models::estimate::{Part, estimate};
use plimsoll_models::gguf::{header, shape};
use plimsoll_models::settings::{KvTypes, RuntimeKind, Settings};
use plimsoll_models::shape::Shape;

/// Two numbers for the same thing, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) ours: u64,
    pub(super) theirs: u64,
}

impl Pair {
    /// How far ours is off, in hundredths of a percent of theirs: above it if positive.
    pub(super) fn off(self) -> i64 {
        let difference = i128::from(self.ours) - i128::from(self.theirs);
        let parts = difference * 10_000 / i128::from(self.theirs.max(1));
        i64::try_from(parts).unwrap_or(i64::MAX)
    }

    fn plus(self, other: Pair) -> Pair {
        Pair { ours: self.ours + other.ours, theirs: self.theirs + other.theirs }
    }
}

/// Our estimate beside theirs.
pub(super) struct Compared<'a> {
    pub(super) question: &'a Question,
    pub(super) weights: Pair,
    pub(super) cache: Pair,
    pub(super) compute: Pair,
    /// All that both sides count. What only we add, the fixed part and the reserve, is not in it.
    pub(super) all: Pair,
    /// The compute buffers of each device.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the page shows their sum, the test asks each")
    )]
    pub(super) devices: Vec<Pair>,
}

/// Compares every line of a record.
pub(super) fn all(record: &[Judged]) -> Result<Vec<Compared<'_>>> {
    let mut shapes = BTreeMap::new();
    let mut compared = Vec::new();
    for judged in record {
        let model = judged.question.model.as_str();
        if !shapes.contains_key(model) {
            shapes.insert(model, read(model)?);
        }
        compared.push(compare(judged, &shapes[model]).with_context(|| judged.to_string())?);
    }
    Ok(compared)
}

fn read(model: &str) -> Result<Shape> {
    let golden = Golden::gguf(model).with_context(|| format!("{model} has no card"))?;
    let header = gguf::header(&golden.card()?);
    let header = header::read(Cursor::new(header))?;
    Ok(shape::from_headers(&[header])?)
}

fn compare<'a>(judged: &'a Judged, shape: &Shape) -> Result<Compared<'a>> {
    let Judged { question, answer } = judged;
    let estimate = estimate(shape, &settings(question)?)?;
    let bytes = |part: &Part| part.bytes.map(Bytes::get).context("a part is unknown");
    let device = bytes(&estimate.all.weights)?;
    let tied = shape.weights.get().and_then(|weights| weights.tied).map_or(0, Bytes::get);
    let Answer { weights, cache, compute, device_weights, device_compute } = answer;
    // Without a device there is no second copy of a table that is embedding and output.
    let (weights, compute) = match device_weights {
        0 => (Pair { ours: device + bytes(&estimate.host)? - tied, theirs: *weights }, *compute),
        _ => (Pair { ours: device, theirs: *device_weights }, device_compute.iter().sum()),
    };
    let ours = estimate.gpus.iter().map(|gpu| bytes(&gpu.compute));
    let pairs =
        ours.zip(device_compute).map(|(ours, theirs)| Ok(Pair { ours: ours?, theirs: *theirs }));
    let devices = pairs.collect::<Result<_>>()?;
    let cache = Pair { ours: bytes(&estimate.all.kv)?, theirs: *cache };
    let compute = Pair { ours: bytes(&estimate.all.compute)?, theirs: compute };
    let all = weights.plus(cache).plus(compute);
    Ok(Compared { question, weights, cache, compute, all, devices })
}

fn settings(question: &Question) -> Result<Settings> {
    let kv: KvTypes = question.kv.parse()?;
    let each = question.context / question.parallel;
    Ok(Settings {
        kv,
        parallel: question.parallel,
        gpus: question.gpus,
        batch: question.ubatch,
        ubatch: question.ubatch,
        flash_attention: question.flash,
        unified: false,
        ..Settings::new(RuntimeKind::LlamaCpp, each)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_goldens::judged;

    fn check(record: &str) {
        let record = judged::read(record).expect("the record is right");
        assert!(record.len() > 250, "{} lines", record.len());
        for compared in all(&record).expect("every question has an estimate") {
            let (weights, cache, all) = (compared.weights, compared.cache, compared.all);
            let at = compared.question;
            assert_eq!(weights.ours, weights.theirs, "{at:?}");
            // The record is rounded to a hundredth of a MiB for each kind of cache.
            assert!(cache.ours.abs_diff(cache.theirs) <= 2 * 5243, "{at:?}: {cache:?}");
            assert!((0..=1000).contains(&all.off()), "{at:?}: {all:?}");
            // Command R computes attention and network of a layer at once: two matrices on the first of two devices.
            let two_matrices = at.model == "command-r7b" && at.gpus == 2 && !at.flash;
            let devices = &compared.devices;
            assert!(
                two_matrices || devices.iter().all(|device| device.off() >= 0),
                "{at:?}: {devices:?}"
            );
        }
    }

    #[test]
    fn estimates_are_never_below_llama_cpp_and_at_most_a_tenth_above() {
        check(judged::CPU);
    }

    #[test]
    fn estimates_are_never_below_what_is_on_a_device_and_at_most_a_tenth_above() {
        check(judged::VULKAN);
    }
}
