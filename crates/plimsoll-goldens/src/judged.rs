//! What llama.cpp itself said that it books, as it was recorded: one line for each question.

use std::fmt;
use std::str::FromStr;

/// What was said without a GPU.
pub const CPU: &str = include_str!("../judged/cpu.txt");

/// What was said with all layers on one Vulkan device, or dealt to two.
pub const VULKAN: &str = include_str!("../judged/vulkan.txt");

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The golden model's name.
    pub model: String,
    /// Tokens over all requests: llama.cpp's `n_ctx`.
    pub context: u64,
    /// Tokens that are computed at once.
    pub ubatch: u64,
    /// Requests at once, each with a cache of its own.
    pub parallel: u64,
    /// Whether attention is computed without its full matrix.
    pub flash: bool,
    /// How keys and values are stored.
    pub kv: String,
    /// Over how many devices the layers are dealt.
    pub gpus: u64,
}

/// What llama.cpp books, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// All tensors, wherever they are.
    pub weights: u64,
    /// Keys, values and states, rounded to a hundredth of a MiB.
    pub cache: u64,
    /// Compute buffers, wherever they are.
    pub compute: u64,
    /// Tensors on all devices.
    pub device_weights: u64,
    /// Compute buffers on each device; none without one.
    pub device_compute: Vec<u64>,
}

/// A question with its answer. It reads back as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What was asked.
    pub question: Question,
    /// What was said.
    pub answer: Answer,
}

/// A line that is none of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a line of a record")]
pub struct NotRecorded(String);

/// Every line of a record, in order; comments are left out.
pub fn read(record: &str) -> Result<Vec<Judged>, NotRecorded> {
    record
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::parse)
        .collect()
}

impl FromStr for Judged {
    type Err = NotRecorded;

    fn from_str(line: &str) -> Result<Self, NotRecorded> {
        fields(line).ok_or_else(|| NotRecorded(line.to_owned()))
    }
}

fn fields(line: &str) -> Option<Judged> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [
        model,
        context,
        ubatch,
        parallel,
        flash,
        kv,
        gpus,
        weights,
        cache,
        compute,
        device_weights,
        devices @ ..,
    ] = words.as_slice()
    else {
        return None;
    };
    let number = |text: &str| text.parse().ok();
    let question = Question {
        model: (*model).to_owned(),
        context: number(context)?,
        ubatch: number(ubatch)?,
        parallel: number(parallel)?,
        flash: *flash == "flash",
        kv: (*kv).to_owned(),
        gpus: number(gpus)?,
    };
    let answer = Answer {
        weights: number(weights)?,
        cache: number(cache)?,
        compute: number(compute)?,
        device_weights: number(device_weights)?,
        device_compute: devices.iter().map(|device| number(device)).collect::<Option<_>>()?,
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
    fn a_record_reads_back_as_it_is_written() {
        for record in [CPU, VULKAN] {
            let lines = read(record).expect("the record is right");
            let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let kept: Vec<&str> = record.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(text, kept);
        }
        assert_eq!(read("llama 1 2"), Err(NotRecorded("llama 1 2".to_owned())));
    }

    #[test]
    fn llama_cpp_counts_the_tensors_of_every_card_as_the_card_does() {
        for judged in read(CPU).expect("the record is right") {
            let model = judged.question.model.as_str();
            let golden = Golden::gguf(model).expect(model);
            assert_eq!(judged.answer.weights, golden.card().expect(model).weights(), "{model}");
        }
    }
}
