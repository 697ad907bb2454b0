//! The memory that llama.cpp itself reports for the golden models: one recorded line per question.

use std::fmt;
use std::str::FromStr;

/// The answers without a GPU.
pub const CPU: &str = include_str!("../judged/cpu.txt");

/// The answers with all layers on one Vulkan device, or split over two.
pub const VULKAN: &str = include_str!("../judged/vulkan.txt");

/// The settings of one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name of the golden model.
    pub model: String,
    /// Tokens over all requests: llama.cpp's `n_ctx`.
    pub context: u64,
    pub ubatch: u64,
    /// Parallel requests, each with its own cache.
    pub parallel: u64,
    pub flash: bool,
    /// The type of keys and values.
    pub kv: String,
    /// The number of devices that the layers are split over.
    pub gpus: u64,
}

/// The memory that llama.cpp reports, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// All tensors, on the host and on devices.
    pub weights: u64,
    /// KV caches and recurrent states, rounded to a hundredth of a MiB.
    pub cache: u64,
    /// All compute buffers, on the host and on devices.
    pub compute: u64,
    /// The tensors on all devices.
    pub device_weights: u64,
    /// The compute buffers on each device; empty without one.
    pub device_compute: Vec<u64>,
}

/// A question with its answer, written as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub question: Question,
    pub answer: Answer,
}

/// The error for an invalid line of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid line `{0}`")]
pub struct InvalidLine(String);

/// Parses all lines of a record, in order, without comments.
pub fn parse(record: &str) -> Result<Vec<Judged>, InvalidLine> {
    record
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::parse)
        .collect()
}

impl FromStr for Judged {
    type Err = InvalidLine;

    fn from_str(line: &str) -> Result<Self, InvalidLine> {
        parse_line(line).ok_or_else(|| InvalidLine(line.to_owned()))
    }
}

fn parse_line(line: &str) -> Option<Judged> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (question, answer) = words.split_at_checked(7)?;
    let &[model, context, ubatch, parallel, flash, kv, gpus] = question else { return None };
    let &[weights, cache, compute, device_weights, ref devices @ ..] = answer else { return None };
    let question = Question {
        model: model.to_owned(),
        context: context.parse().ok()?,
        ubatch: ubatch.parse().ok()?,
        parallel: parallel.parse().ok()?,
        flash: flash == "flash",
        kv: kv.to_owned(),
        gpus: gpus.parse().ok()?,
    };
    let answer = Answer {
        weights: weights.parse().ok()?,
        cache: cache.parse().ok()?,
        compute: compute.parse().ok()?,
        device_weights: device_weights.parse().ok()?,
        device_compute: devices.iter().map(|device| device.parse().ok()).collect::<Option<_>>()?,
    };
    Some(Judged { question, answer })
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question { model, context, ubatch, parallel, flash, kv, gpus } = &self.question;
        let flash = if *flash { "flash" } else { "plain" };
        write!(f, "{model} {context} {ubatch} {parallel} {flash} {kv} {gpus}")?;
        let Answer { weights, cache, compute, device_weights, device_compute } = &self.answer;
        write!(f, " {weights} {cache} {compute} {device_weights}")?;
        device_compute.iter().try_for_each(|device| write!(f, " {device}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Golden;

    #[test]
    fn a_record_is_written_as_it_was_read() {
        for record in [CPU, VULKAN] {
            let lines = parse(record).expect("the record is valid");
            let written: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let read: Vec<&str> = record.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(written, read);
        }
        assert_eq!(parse("llama 1 2"), Err(InvalidLine("llama 1 2".to_owned())));
    }

    #[test]
    fn llama_cpp_reports_the_tensor_bytes_of_each_card() {
        for judged in parse(CPU).expect("the record is valid") {
            let model = judged.question.model.as_str();
            let golden = Golden::gguf(model).expect(model);
            assert_eq!(judged.answer.weights, golden.card().expect(model).weights(), "{model}");
        }
    }
}
