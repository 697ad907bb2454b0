//! Compares one estimate with llama.cpp's answer to the same question.

use std::collections::BTreeMap;
use std::io::Cursor;

use anyhow::{Context, Result, ensure};
use plimsoll_core::units::Bytes;
use plimsoll_goldens::gguf;
use plimsoll_goldens::judged::{Judged, JudgedDevices, OnDevice, Question};
use plimsoll_goldens::list::Golden;
use plimsoll_models::estimate::{Breakdown, Part, estimate};
use plimsoll_models::gguf::{header, shape};
use plimsoll_models::settings::{RuntimeKind, Scores, Settings};
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
    let mut shapes = Shapes::default();
    let compared = record.iter().map(|judged| {
        let shape = shapes.read(&judged.question.model)?;
        compare(judged, shape).with_context(|| judged.to_string())
    });
    compared.collect()
}

/// The shapes of golden models, each read once: a record asks hundreds of questions about a model.
#[derive(Default)]
struct Shapes(BTreeMap<String, Shape>);

impl Shapes {
    fn read(&mut self, model: &str) -> Result<&Shape> {
        if !self.0.contains_key(model) {
            self.0.insert(model.to_string(), read_golden(model)?);
        }
        Ok(&self.0[model])
    }
}

/// Reads the header of a golden model.
pub(super) fn read_golden(model: &str) -> Result<Shape> {
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

/// An estimate and llama.cpp's answer for the server on each GPU.
pub(super) struct ComparedDevices<'a> {
    pub(super) question: &'a Question,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows the sum"))]
    pub(super) weights: Vec<Pair>,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page shows the sum"))]
    pub(super) cache: Vec<Pair>,
    /// The sums of weights, cache and compute buffers.
    pub(super) all: Vec<Pair>,
}

impl ComparedDevices<'_> {
    /// Returns the sum over all GPUs.
    pub(super) fn whole(&self) -> Pair {
        self.all.iter().fold(Pair::default(), |sum, gpu| sum.plus(*gpu))
    }
}

/// Compares all lines of a record with one answer per device.
pub(super) fn compare_all_devices(record: &[JudgedDevices]) -> Result<Vec<ComparedDevices<'_>>> {
    let mut shapes = Shapes::default();
    let compared = record.iter().map(|judged| {
        let shape = shapes.read(&judged.question.model)?;
        compare_devices(judged, shape).with_context(|| judged.to_string())
    });
    compared.collect()
}

fn compare_devices<'a>(judged: &'a JudgedDevices, shape: &Shape) -> Result<ComparedDevices<'a>> {
    let JudgedDevices { question, devices } = judged;
    let estimate = estimate(shape, &server_settings(question)?)?;
    ensure!(estimate.gpus.len() == devices.len(), "another number of devices");
    let pairs = |estimated: fn(&Breakdown) -> &Part, booked: fn(&OnDevice) -> u64| {
        let gpus = estimate.gpus.iter().zip(devices);
        let pairs = gpus.map(|(gpu, device)| {
            Ok(Pair { estimate: bytes(estimated(gpu))?, llama_cpp: booked(device) })
        });
        pairs.collect::<Result<Vec<Pair>>>()
    };
    let weights = pairs(|gpu| &gpu.weights, |device| device.weights)?;
    let cache = pairs(|gpu| &gpu.kv, |device| device.cache)?;
    let compute = pairs(|gpu| &gpu.compute, |device| device.compute)?;
    let parts = weights.iter().zip(&cache).zip(&compute);
    let all = parts.map(|((weights, cache), compute)| weights.plus(*cache).plus(*compute));
    let all = all.collect();
    Ok(ComparedDevices { question, weights, cache, all })
}

/// Returns the settings of a slot that serves a question.
pub(super) fn server_settings(question: &Question) -> Result<Settings> {
    let context_per_request = question.context / question.parallel;
    Ok(Settings {
        kv: question.kv.parse()?,
        parallel: question.parallel,
        gpus: question.gpus,
        ubatch: question.ubatch,
        flash_attention: question.flash,
        ..Settings::new(RuntimeKind::LlamaCpp, context_per_request)
    })
}

fn bytes(part: &Part) -> Result<u64> {
    part.bytes.map(Bytes::get).context("a part is unknown")
}

/// Returns the settings of the library, which keeps the scores of a whole batch.
fn settings(question: &Question) -> Result<Settings> {
    let scores = Scores::WholePass;
    Ok(Settings { batch: question.ubatch, scores, ..server_settings(question)? })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use plimsoll_goldens::judged;

    fn check(record: &str) {
        let record: Vec<Judged> = judged::parse(record).expect("the record is valid");
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

    /// Returns the reason why an answer is outside the promise of the page.
    fn outside_the_promise(compared: &ComparedDevices<'_>) -> Option<String> {
        let ComparedDevices { question, weights, cache, all, .. } = compared;
        if all.iter().any(|gpu| gpu.estimate < gpu.llama_cpp) {
            return Some(format!("{question}: below on a GPU: {all:?}"));
        }
        // llama.cpp aligns tensors of odd sizes, and has a norm of LFM2 on the other GPU. Small
        // tensors of no layer are counted on every GPU.
        let aligned = |pair: &Pair| {
            let below = pair.llama_cpp.saturating_sub(pair.estimate);
            below <= ALIGNMENT && pair.estimate.saturating_sub(pair.llama_cpp) <= 8 * ALIGNMENT
        };
        if !weights.iter().all(aligned) || cache.iter().any(|pair| pair.estimate != pair.llama_cpp)
        {
            return Some(format!("{question}: weights {weights:?}, cache {cache:?}"));
        }
        let (whole, limit) = (compared.whole(), if question.flash { 1000 } else { 1500 });
        let is_small = whole.estimate - whole.llama_cpp <= question.gpus * SMALL_EXCESS;
        (whole.error() > limit && !is_small).then(|| format!("{question}: above: {all:?}"))
    }

    /// The bytes that alignment and a small norm add to the tensors of a GPU.
    const ALIGNMENT: u64 = 8192;

    /// The bytes on each GPU that matter for no model, but are more than a tenth of a small one.
    const SMALL_EXCESS: u64 = 64 << 20;

    #[test]
    fn no_gpu_of_a_server_gets_more_than_its_estimate_which_is_at_most_a_tenth_above() {
        let record: Vec<JudgedDevices> = judged::parse(judged::RPC).expect("the record is valid");
        let compared = compare_all_devices(&record).expect("all questions have estimates");
        let outside: Vec<String> = compared.iter().filter_map(outside_the_promise).collect();
        assert!(
            outside.is_empty(),
            "{} of {}\n{}",
            outside.len(),
            record.len(),
            outside.join("\n")
        );
    }

    #[test]
    fn servers_on_up_to_eight_gpus_are_judged_for_sixty_architectures() {
        let record: Vec<JudgedDevices> = judged::parse(judged::RPC).expect("the record is valid");
        for gpus in [1, 2, 3, 4, 8] {
            let about = record.iter().filter(|judged| judged.question.gpus == gpus);
            let models: BTreeSet<&str> =
                about.map(|judged| judged.question.model.as_str()).collect();
            let shapes = models.into_iter().map(|model| read_golden(model).expect(model));
            let architectures: BTreeSet<String> = shapes.map(|shape| shape.architecture).collect();
            assert!(architectures.len() >= 60, "{gpus} GPUs: {}", architectures.len());
        }
    }
}
