//! Flags and variables that are not the user's to give, because the record gives them or nobody charged what they take.

use std::fmt;

use super::Extra;
use super::refusal::Refusal;

/// Why something is not the user's to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It is rendered from a field of the declaration.
    SetBy(&'static str),
    /// It is decided here, always in the same way.
    Fixed(&'static str),
    /// It takes memory that is not in the charge.
    Uncharged(&'static str),
    /// It makes the process another one than the one that was booked.
    Other(&'static str),
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::SetBy(field) => write!(f, "is set from `{field}`; write that instead"),
            Because::Fixed(what) => write!(f, "is set so that {what}; leave it out"),
            Because::Uncharged(what) => write!(f, "takes memory that nobody charged: {what}"),
            Because::Other(what) => write!(f, "is refused: {what}"),
        }
    }
}

/// Some flags or variables, and why they are not the user's to give.
pub(super) struct Reserved {
    pub(super) names: &'static [&'static str],
    pub(super) because: Because,
}

/// How a runtime reads the flags on its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grammar {
    /// Python's `argparse`: a flag may be cut short, joined to its value, written with underscores, or dotted into an object.
    Argparse,
    /// llama.cpp's own: names in full, underscores allowed in long ones.
    Full,
}

/// Refuses the first argument or variable of the user's that is reserved.
pub(super) fn check(
    extra: &Extra,
    grammar: Grammar,
    flags: &[Reserved],
    variables: &[Reserved],
) -> Result<(), Refusal> {
    // A value that looks like a flag is refused with the flags: which of the two it is, only the runtime knows.
    for written in &extra.args {
        if let Some((flag, because)) = reserved(written, grammar, flags) {
            let written = written.split('=').next().unwrap_or(written).to_string();
            return Err(Refusal::Argument { written, flag: flag.to_string(), because });
        }
    }
    for name in extra.env.keys() {
        if let Some(because) = reserved_variable(name, variables) {
            return Err(Refusal::Variable { name: name.clone(), because });
        }
    }
    Ok(())
}

fn reserved(
    written: &str,
    grammar: Grammar,
    flags: &[Reserved],
) -> Option<(&'static str, Because)> {
    let given = normal(written, grammar)?;
    let all =
        || flags.iter().flat_map(|row| row.names.iter().map(move |name| (*name, row.because)));
    // What is written in full is that flag, whatever longer name it is the beginning of.
    let exact = all().find(|(name, _)| *name == given);
    exact.or_else(|| {
        all().find(|(name, _)| grammar == Grammar::Argparse && abbreviates(&given, name))
    })
}

/// The flag's name as the runtime takes it; `None` where the word is no flag.
fn normal(written: &str, grammar: Grammar) -> Option<String> {
    let name = written.split('=').next()?;
    let name = match grammar {
        Grammar::Argparse => name.split('.').next()?,
        Grammar::Full => name,
    };
    let is_flag = name.len() > 1 && name.starts_with('-') && name != "--";
    let name = if name.starts_with("--") { name.replace('_', "-") } else { name.to_string() };
    is_flag.then_some(name)
}

/// Whether `argparse` takes what was given for the flag: a beginning of it, or a short flag with its number attached.
fn abbreviates(given: &str, flag: &str) -> bool {
    let is_short = !flag.starts_with("--");
    let attached =
        || given.strip_prefix(flag).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    (flag.starts_with(given) && is_short != given.starts_with("--")) || (is_short && attached())
}

/// A name that ends in `*` stands for all that begin so.
fn reserved_variable(name: &str, variables: &[Reserved]) -> Option<Because> {
    let is_it = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *pattern,
    };
    variables.iter().find(|row| row.names.iter().any(is_it)).map(|row| row.because)
}
