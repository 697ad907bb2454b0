//! Splits lines into words, and the errors of invalid words.

use std::fmt;
use std::str::FromStr;

use plimsoll_core::units::{Bytes, Millis, Name, Timespan};

/// A line that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Error {
    /// The line's number, from 1.
    pub line: usize,
    #[source]
    pub problem: Problem,
}

/// The problem of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An unknown word.
    #[error("`{word}` is not a {what}{}", hint(near))]
    Unknown {
        /// The kind of word that was expected.
        what: &'static str,
        word: String,
        /// Similar known words.
        near: Vec<&'static str>,
    },
    /// A value that cannot be parsed.
    #[error("`{word}`: {expected}")]
    Value { word: String, expected: String },
    /// A missing word.
    #[error("{what} is missing")]
    Missing { what: &'static str },
    /// A name that is not declared.
    #[error("there is no {what} `{name}` yet")]
    NoSuch { what: &'static str, name: String },
    /// A quotation mark without its partner.
    #[error("a quotation mark is not closed")]
    OpenQuote,
    /// An expectation without a command above it.
    #[error("there is no command above this expectation")]
    NothingExpected,
}

fn hint(near: &[&'static str]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("; did you mean `{}`?", near.join("` or `"))
    }
}

/// The content of a line.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// An empty line or a comment.
    Silent,
    Command(Words),
    /// Expected output of the command above.
    Expected(String),
}

/// A line with its number and its text as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub number: usize,
    pub text: String,
    pub content: Content,
}

/// Reads all lines; words are split, and nothing is run.
pub(crate) fn read(text: &str) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    let mut commanded = false;
    for (number, text) in (1..).zip(text.lines()) {
        let at = |problem| Error { line: number, problem };
        let trimmed = text.trim();
        let content = if let Some(expected) = trimmed.strip_prefix('>') {
            if !commanded {
                return Err(at(Problem::NothingExpected));
            }
            Content::Expected(expected.strip_prefix(' ').unwrap_or(expected).to_string())
        } else if trimmed.is_empty() || trimmed.starts_with('#') {
            Content::Silent
        } else {
            commanded = true;
            Content::Command(Words::split(trimmed).map_err(at)?)
        };
        lines.push(Line { number, text: text.to_string(), content });
    }
    Ok(lines)
}

/// The words of a command, taken from the front.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    words: std::collections::VecDeque<Word>,
}

/// One word: plain, or a key with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Plain(String),
    Pair(String, String),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Plain(word) => f.write_str(word),
            Word::Pair(key, value) => write!(f, "{key}={value}"),
        }
    }
}

impl Words {
    fn split(text: &str) -> Result<Self, Problem> {
        let mut words = std::collections::VecDeque::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (word, after) = one_word(rest)?;
            words.push_back(word);
            rest = after.trim_start();
        }
        Ok(Words { words })
    }

    /// The next word, whatever it is.
    pub(crate) fn next(&mut self) -> Option<Word> {
        self.words.pop_front()
    }

    /// The next word, which must be a plain one.
    pub(crate) fn plain(&mut self, what: &'static str) -> Result<String, Problem> {
        match self.next() {
            Some(Word::Plain(word)) => Ok(word),
            Some(Word::Pair(key, value)) => Err(Problem::Value {
                word: format!("{key}={value}"),
                expected: format!("{what} comes first"),
            }),
            None => Err(Problem::Missing { what }),
        }
    }

    /// That nothing is left.
    pub(crate) fn end(mut self) -> Result<(), Problem> {
        match self.next() {
            Some(word) => Err(Problem::Unknown {
                what: "word that belongs here",
                word: word.to_string(),
                near: Vec::new(),
            }),
            None => Ok(()),
        }
    }

    /// Returns true if no word is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The same words with every `{1..n}` replaced by each number in turn.
    pub(crate) fn each(&self) -> Option<Vec<Words>> {
        let (from, to) = self.words.iter().find_map(|word| range_in(&word.to_string()))?;
        let with = |number: u64| {
            let fill = |text: &String| match range_in(text) {
                Some(_) => fill_range(text, number),
                None => text.clone(),
            };
            let words = self.words.iter().map(|word| match word {
                Word::Plain(word) => Word::Plain(fill(word)),
                Word::Pair(key, value) => Word::Pair(key.clone(), fill(value)),
            });
            Words { words: words.collect() }
        };
        Some((from..=to).map(with).collect())
    }
}

fn range_in(text: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.split_once('{')?;
    let (from, to) = rest.split_once('}')?.0.split_once("..")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn fill_range(text: &str, number: u64) -> String {
    let (before, rest) = text.split_once('{').expect("a range begins with a brace");
    let (_, after) = rest.split_once('}').expect("a range ends with a brace");
    format!("{before}{number}{after}")
}

fn one_word(text: &str) -> Result<(Word, &str), Problem> {
    let mut word = String::new();
    let mut key = None;
    let mut quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted => word.extend(chars.next().map(|(_, c)| c)),
            '=' if !quoted && key.is_none() && !word.is_empty() => {
                key = Some(std::mem::take(&mut word));
            }
            c if c.is_whitespace() && !quoted => return Ok((finished(key, word), &text[at..])),
            c => word.push(c),
        }
    }
    if quoted { Err(Problem::OpenQuote) } else { Ok((finished(key, word), "")) }
}

fn finished(key: Option<String>, word: String) -> Word {
    match key {
        Some(key) => Word::Pair(key, word),
        None => Word::Plain(word),
    }
}

/// A word as it must be written to be read as one: in quotes where it has to be.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\\' | '{' | '>' | '#' | '|');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_string();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// That a word is not known here, with those known words that look like it.
pub(crate) fn unknown(what: &'static str, word: &str, known: &[&'static str]) -> Problem {
    let mut near: Vec<_> = known.iter().map(|known| (distance(word, known), *known)).collect();
    near.sort_unstable();
    let near =
        near.into_iter().filter(|(far, known)| *far <= 1 + known.len() / 3).map(|(_, known)| known);
    Problem::Unknown { what, word: word.to_string(), near: near.take(3).collect() }
}

/// Returns the edit distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// A value that cannot be read.
pub(crate) fn bad(word: &str, expected: impl Into<String>) -> Problem {
    Problem::Value { word: word.to_string(), expected: expected.into() }
}

/// A number.
pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| bad(text, "write a whole number"))
}

/// A size.
pub(crate) fn size(text: &str) -> Result<Bytes, Problem> {
    text.parse().map_err(|error: plimsoll_core::units::SizeError| bad(text, error.to_string()))
}

/// Parses `yes` or `no`.
pub(crate) fn switch(text: &str) -> Result<bool, Problem> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(bad(text, "write yes or no")),
    }
}

/// One of several named values.
pub(crate) fn one_of<T: Clone>(
    text: &str,
    what: &'static str,
    known: &[(&'static str, T)],
) -> Result<T, Problem> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone());
    found.ok_or_else(|| {
        unknown(what, text, &known.iter().map(|(name, _)| *name).collect::<Vec<_>>())
    })
}

/// Parses a duration.
pub(crate) fn span(text: &str) -> Result<Timespan, Problem> {
    text.parse().map_err(|_| bad(text, "write a time such as 500ms, 5s, 3m20s or 1h"))
}

/// Parses a point in time: the duration since the start of the scenario.
pub(crate) fn time(text: &str) -> Result<Millis, Problem> {
    Ok(Millis(0).after(span(text)?))
}

/// A size as it must be written to be read exactly.
pub(crate) fn size_text(bytes: Bytes) -> String {
    let text = bytes.to_string();
    if text.contains('.') { bytes.get().to_string() } else { text.replace(' ', "") }
}

/// Names with commas between them.
pub(crate) fn names(text: &str) -> Vec<Name> {
    text.split(',').map(Name::from).collect()
}
