//! The memory that llama.cpp itself reports for the golden models: one recorded line per question.

use std::fmt;
use std::str::FromStr;

/// The answers without a GPU.
pub const CPU: &str = include_str!("../judged/cpu.txt");

/// The answers with all layers on one Vulkan device, or split over two.
pub const VULKAN: &str = include_str!("../judged/vulkan.txt");

/// The answers for 1, 2, 3, 4 and 8 devices of the RPC backend, with the flags of a real server.
pub const RPC: &str = include_str!("../judged/rpc.txt");

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

/// The memory that llama.cpp reports for one device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDevice {
    pub weights: u64,
    /// KV caches and recurrent states.
    pub cache: u64,
    pub compute: u64,
}

/// A question with its answer for each device, written as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedDevices {
    pub question: Question,
    pub devices: Vec<OnDevice>,
}

/// The error for an invalid line of a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid line `{0}`")]
pub struct InvalidLine(String);

/// Parses all lines of a record, in order, without comments.
pub fn parse<Line: FromStr<Err = InvalidLine>>(record: &str) -> Result<Vec<Line>, InvalidLine> {
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
    let question = parse_question(question)?;
    let &[weights, cache, compute, device_weights, ref devices @ ..] = answer else { return None };
    let answer = Answer {
        weights: weights.parse().ok()?,
        cache: cache.parse().ok()?,
        compute: compute.parse().ok()?,
        device_weights: device_weights.parse().ok()?,
        device_compute: devices.iter().map(|device| device.parse().ok()).collect::<Option<_>>()?,
    };
    Some(Judged { question, answer })
}

fn parse_question(words: &[&str]) -> Option<Question> {
    let &[model, context, ubatch, parallel, flash, kv, gpus] = words else { return None };
    Some(Question {
        model: model.to_owned(),
        context: context.parse().ok()?,
        ubatch: ubatch.parse().ok()?,
        parallel: parallel.parse().ok()?,
        flash: flash == "flash",
        kv: kv.to_owned(),
        gpus: gpus.parse().ok()?,
    })
}

impl FromStr for JudgedDevices {
    type Err = InvalidLine;

    fn from_str(line: &str) -> Result<Self, InvalidLine> {
        let parse = || {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (question, devices) = words.split_at_checked(7)?;
            let devices = devices.iter().map(|device| device.parse().ok()).collect::<Option<_>>();
            Some(JudgedDevices { question: parse_question(question)?, devices: devices? })
        };
        parse().ok_or_else(|| InvalidLine(line.to_owned()))
    }
}

impl FromStr for OnDevice {
    type Err = InvalidLine;

    /// Parses weights, caches and compute buffers: `1,2,3`.
    fn from_str(text: &str) -> Result<Self, InvalidLine> {
        let numbers: Option<Vec<u64>> = text.split(',').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[weights, cache, compute]) => Ok(OnDevice { weights, cache, compute }),
            _ => Err(InvalidLine(text.to_owned())),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question { model, context, ubatch, parallel, flash, kv, gpus } = self;
        let flash = if *flash { "flash" } else { "plain" };
        write!(f, "{model} {context} {ubatch} {parallel} {flash} {kv} {gpus}")
    }
}

impl fmt::Display for JudgedDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.question)?;
        self.devices.iter().try_for_each(|OnDevice { weights, cache, compute }| {
            write!(f, " {weights},{cache},{compute}")
        })
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.question)?;
        let Answer { weights, cache, compute, device_weights, device_compute } = &self.answer;
        write!(f, " {weights} {cache} {compute} {device_weights}")?;
        device_compute.iter().try_for_each(|device| write!(f, " {device}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Golden;

    fn check_round_trip<Line: FromStr<Err = InvalidLine> + ToString>(record: &str) {
        let lines: Vec<Line> = parse(record).expect("the record is valid");
        let written: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let read: Vec<&str> = record.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(written, read);
    }

    #[test]
    fn a_record_is_written_as_it_was_read() {
        check_round_trip::<Judged>(CPU);
        check_round_trip::<Judged>(VULKAN);
        check_round_trip::<JudgedDevices>(RPC);
        let invalid = Err(InvalidLine("llama 1 2".to_owned()));
        assert_eq!(parse::<Judged>("llama 1 2"), invalid);
    }

    #[test]
    fn llama_cpp_reports_the_tensor_bytes_of_each_card() {
        for judged in parse::<Judged>(CPU).expect("the record is valid") {
            let model = judged.question.model.as_str();
            let golden = Golden::gguf(model).expect(model);
            assert_eq!(judged.answer.weights, golden.card().expect(model).weights(), "{model}");
        }
    }
}
