//! The page that shows the errors of the estimates.

use std::fmt::Write;

use anyhow::Result;
use plimsoll_goldens::judged::{self, Judged, JudgedDevices, Question};
use plimsoll_goldens::list::Golden;

use super::compare::{self, Compared, Pair};

const OPENING: &str = include_str!("../../judge/opening.md");

/// Renders the page from both records.
pub(super) fn page(cpu: &str, vulkan: &str, rpc: &str) -> Result<String> {
    let mut page = OPENING.to_owned();
    for (title, record, gpus) in [
        ("Without a GPU", cpu, 1),
        ("On one device", vulkan, 1),
        ("Split over two devices", vulkan, 2),
    ] {
        let mut lines: Vec<Judged> = judged::parse(record)?;
        lines.retain(|judged| judged.question.gpus == gpus);
        let compared = compare::compare_all(&lines)?;
        let versions = record.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        write!(page, "\n## {title}\n\n{versions}. {} questions.\n", compared.len())?;
        page.push_str(&errors_by_model(&compared)?);
        page.push_str(&sizes_by_model(&compared)?);
        page.push_str(&errors_by_question(&compared, &lines)?);
    }
    page.push_str(&servers(rpc)?);
    Ok(page)
}

/// The numbers of GPUs, in the order of the columns.
const GPUS: [u64; 5] = [1, 2, 3, 4, 8];

/// Renders one row per model with the errors of a server's sum for each number of GPUs, and the
/// least error of one GPU.
fn servers(record: &str) -> Result<String> {
    let lines: Vec<JudgedDevices> = judged::parse(record)?;
    let compared = compare::compare_all_devices(&lines)?;
    let mut out = "\n## llama-server on up to eight GPUs\n\n".to_owned();
    let version = record.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
    let models = compared.chunk_by(|one, other| one.question.model == other.question.model);
    writeln!(
        out,
        "{version}. {} questions about {} models. The error of the sum in percent, by number of \
        GPUs; the last column is the least error of one GPU.\n\n\
        | model | architecture | 1 | 2 | 3 | 4 | 8 | one GPU |\n\
        |---|---|---:|---:|---:|---:|---:|---:|",
        compared.len(),
        models.clone().count()
    )?;
    for about in models {
        let model = &about[0].question.model;
        write!(out, "| {} | {} |", title(model)?, compare::read_golden(model)?.architecture)?;
        for gpus in GPUS {
            let same = about.iter().filter(|one| one.question.gpus == gpus);
            write!(out, " {} |", range(same.map(|one| one.whole().error())))?;
        }
        let least = about.iter().flat_map(|one| &one.all).map(|gpu| gpu.error()).min();
        writeln!(out, " {} |", percent(least.unwrap_or(0)))?;
    }
    Ok(out)
}

/// Renders one row per model: the range of errors over all questions.
fn errors_by_model(compared: &[Compared<'_>]) -> Result<String> {
    let mut out =
        "\n| model | weights % | KV cache % | compute % | all % |\n|---|---:|---:|---:|---:|\n"
            .to_owned();
    for about in compared.chunk_by(|one, other| one.question.model == other.question.model) {
        let title = title(&about[0].question.model)?;
        let weights = range(about.iter().map(|one| one.weights.error()));
        let cache = range(about.iter().map(|one| one.cache.error()));
        let compute = range(about.iter().map(|one| one.compute.error()));
        let all = range(about.iter().map(|one| one.all.error()));
        writeln!(out, "| {title} | {weights} | {cache} | {compute} | {all} |")?;
    }
    Ok(out)
}

/// Renders one row per model: the sizes of both sides for one question.
fn sizes_by_model(compared: &[Compared<'_>]) -> Result<String> {
    let mut out = "\nOne request with 32768 tokens, ubatch 512, flash attention, f16, as \
        \"llama.cpp / estimate\" in MiB:\n\n\
        | model | weights | KV cache | compute | all % |\n|---|---:|---:|---:|---:|\n"
        .to_owned();
    for one in compared.iter().filter(|one| is_size_question(one.question)) {
        let title = title(&one.question.model)?;
        let (weights, cache, compute) = (both(one.weights), both(one.cache), both(one.compute));
        let all = percent(one.all.error());
        writeln!(out, "| {title} | {weights} | {cache} | {compute} | {all} |")?;
    }
    Ok(out)
}

fn is_size_question(question: &Question) -> bool {
    question.context == 32_768 && question.ubatch == 512 && question.flash && question.kv == "f16"
}

/// Renders one row per question: the range of errors over all models.
fn errors_by_question(compared: &[Compared<'_>], lines: &[Judged]) -> Result<String> {
    let mut out = "\n| context | ubatch | requests | attention | KV type | compute % | all % |\n\
        |---:|---:|---:|---|---|---:|---:|\n"
        .to_owned();
    let first = lines.first().map(|judged| &judged.question.model);
    for one in compared.iter().filter(|one| Some(&one.question.model) == first) {
        let Question { context, ubatch, parallel, flash, kv, .. } = one.question;
        let same: Vec<_> = compared
            .iter()
            .filter(|other| has_same_settings(one.question, other.question))
            .collect();
        let compute = range(same.iter().map(|one| one.compute.error()));
        let all = range(same.iter().map(|one| one.all.error()));
        let attention = if *flash { "flash" } else { "plain" };
        writeln!(
            out,
            "| {context} | {ubatch} | {parallel} | {attention} | {kv} | {compute} | {all} |"
        )?;
    }
    Ok(out)
}

fn has_same_settings(one: &Question, other: &Question) -> bool {
    let without_model = |question: &Question| Question { model: String::new(), ..question.clone() };
    without_model(one) == without_model(other)
}

/// Returns the model's name from its card: the first sentence of the title.
fn title(model: &str) -> Result<String> {
    let title = Golden::gguf(model).map(Golden::card).transpose()?.map_or(model, |card| card.title);
    Ok(title.split(". ").next().unwrap_or(title).trim_end_matches('.').to_owned())
}

fn range(errors: impl Iterator<Item = i64> + Clone) -> String {
    let (min, max) = (errors.clone().min().unwrap_or(0), errors.max().unwrap_or(0));
    if min == max { percent(min) } else { format!("{} to {}", percent(min), percent(max)) }
}

/// Formats hundredths of a percent with two decimals.
fn percent(error: i64) -> String {
    let sign = if error < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", error.abs() / 100, error.abs() % 100)
}

fn both(pair: Pair) -> String {
    format!("{} / {}", mib(pair.llama_cpp), mib(pair.estimate))
}

fn mib(bytes: u64) -> String {
    let hundredths = (u128::from(bytes) * 100) >> 20;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
