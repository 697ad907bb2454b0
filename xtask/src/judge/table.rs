//! The page that shows how far our estimates are off.

use std::fmt::Write;

use anyhow::Result;
use plimsoll_goldens::judged::{self, Judged};
use plimsoll_goldens::list::Golden;

use super::compare::{self, Compared, Pair};

const OPENING: &str = include_str!("../../judge/opening.md");

/// The page, from both records.
pub(super) fn page(cpu: &str, vulkan: &str) -> Result<String> {
    let mut page = OPENING.to_owned();
    for (title, record, gpus) in [
        ("Without a GPU", cpu, 1),
        ("On one device", vulkan, 1),
        ("Dealt to two devices", vulkan, 2),
    ] {
        let mut lines = judged::read(record)?;
        lines.retain(|judged| judged.question.gpus == gpus);
        let compared = compare::all(&lines)?;
        let versions = record.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        write!(page, "\n## {title}\n\n{versions}. {} questions.\n", compared.len())?;
        page.push_str(&errors(&compared)?);
        page.push_str(&sizes(&compared)?);
        page.push_str(&by_question(&compared, &lines)?);
    }
    Ok(page)
}

/// One row for each model: the errors over all questions.
fn errors(compared: &[Compared<'_>]) -> Result<String> {
    let mut out =
        "\n| model | weights % | cache % | compute % | all % |\n|---|---:|---:|---:|---:|\n"
            .to_owned();
    for about in compared.chunk_by(|one, other| one.question.model == other.question.model) {
        let title = title(&about[0].question.model)?;
        let column = |of: fn(&Compared<'_>) -> Pair| range(about.iter().map(|one| of(one).off()));
        let (weights, cache) = (column(|one| one.weights), column(|one| one.cache));
        let (compute, all) = (column(|one| one.compute), column(|one| one.all));
        writeln!(out, "| {title} | {weights} | {cache} | {compute} | {all} |")?;
    }
    Ok(out)
}

/// One row for each model: both sides' sizes for one question.
fn sizes(compared: &[Compared<'_>]) -> Result<String> {
    let mut out =
        "\n32768 tokens for one request, 512 at once, flash attention, f16, as \"theirs / ours\":\n\n\
        | model | weights | cache | compute | all % |\n|---|---:|---:|---:|---:|\n"
            .to_owned();
    let asked = |one: &&Compared<'_>| {
        let question = one.question;
        question.context == 32_768
            && question.ubatch == 512
            && question.flash
            && question.kv == "f16"
    };
    for one in compared.iter().filter(asked) {
        let title = title(&one.question.model)?;
        let (weights, cache, compute) = (both(one.weights), both(one.cache), both(one.compute));
        writeln!(
            out,
            "| {title} | {weights} | {cache} | {compute} | {} |",
            percent(one.all.off())
        )?;
    }
    Ok(out)
}

/// One row for each question: the errors over all models.
fn by_question(compared: &[Compared<'_>], lines: &[Judged]) -> Result<String> {
    let mut out = "\n| context | at once | requests | attention | cache | compute % | all % |\n\
        |---:|---:|---:|---|---|---:|---:|\n"
        .to_owned();
    let first = lines.first().map(|judged| &judged.question.model);
    for one in compared.iter().filter(|one| Some(&one.question.model) == first) {
        let asked = one.question;
        let same = || {
            compared.iter().filter(|other| {
                let other = other.question;
                (other.context, other.ubatch, other.parallel, other.flash, &other.kv)
                    == (asked.context, asked.ubatch, asked.parallel, asked.flash, &asked.kv)
            })
        };
        let attention = if asked.flash { "flash" } else { "plain" };
        let compute = range(same().map(|one| one.compute.off()));
        let all = range(same().map(|one| one.all.off()));
        let (context, ubatch, parallel, kv) =
            (asked.context, asked.ubatch, asked.parallel, &asked.kv);
        writeln!(
            out,
            "| {context} | {ubatch} | {parallel} | {attention} | {kv} | {compute} | {all} |"
        )?;
    }
    Ok(out)
}

/// The model's name as its card has it, without what follows the first full stop after a space.
fn title(model: &str) -> Result<String> {
    let title = Golden::gguf(model).map(Golden::card).transpose()?.map_or(model, |card| card.title);
    Ok(title.split(". ").next().unwrap_or(title).trim_end_matches('.').to_owned())
}

fn range(offs: impl Iterator<Item = i64> + Clone) -> String {
    let (least, most) = (offs.clone().min().unwrap_or(0), offs.max().unwrap_or(0));
    if least == most { percent(least) } else { format!("{} to {}", percent(least), percent(most)) }
}

/// Hundredths of a percent, with two decimals.
fn percent(off: i64) -> String {
    let sign = if off < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", off.abs() / 100, off.abs() % 100)
}

fn both(pair: Pair) -> String {
    format!("{} / {}", mib(pair.theirs), mib(pair.ours))
}

fn mib(bytes: u64) -> String {
    let hundredths = (u128::from(bytes) * 100) >> 20;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
