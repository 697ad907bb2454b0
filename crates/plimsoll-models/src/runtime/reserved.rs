//! Flags and variables that the user may not set.
//!
//! A flag is reserved if Plimsoll sets it from the declaration, or if it makes the server use
//! memory that is not in the charge. An allowlist would be safer, but runtimes add harmless flags
//! with every release, and each would have to wait for a release of Plimsoll.

use super::error::{RenderError, ReservedReason};
use super::spec::UserOptions;

/// Flags or variables that are reserved for the same reason.
pub(super) struct Reserved {
    pub(super) names: &'static [&'static str],
    pub(super) reason: ReservedReason,
}

/// The syntax in which a runtime accepts flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Python's `argparse` with vLLM's additions: a flag may be abbreviated, joined to its value,
    /// written with underscores, or continued with dots into an object.
    Argparse,
    /// llama.cpp's own: full names, underscores allowed in long ones.
    FullNames,
}

/// Rejects the first reserved argument or variable of the user.
///
/// Every word is checked, also one that may be the value of another flag: only the runtime knows
/// which flags take a value.
pub(super) fn check(
    user: &UserOptions,
    syntax: Syntax,
    flags: &[Reserved],
    variables: &[Reserved],
) -> Result<(), RenderError> {
    for word in &user.args {
        if let Some((flag, reason)) = reserved_flag(word, syntax, flags) {
            let written = word.split('=').next().unwrap_or(word).to_string();
            return Err(RenderError::ReservedArgument { written, flag: flag.to_string(), reason });
        }
    }
    for name in user.env.keys() {
        if let Some(reason) = reserved_variable(name, variables) {
            return Err(RenderError::ReservedVariable { name: name.clone(), reason });
        }
    }
    Ok(())
}

/// Returns true if one of the user's arguments is a flag with one of these names.
pub(super) fn has_flag(user: &UserOptions, syntax: Syntax, names: &[&str]) -> bool {
    let given = user.args.iter().filter_map(|word| flag_name(word, syntax));
    given.into_iter().any(|name| names.contains(&name.as_str()))
}

/// Finds the reserved flag that a word means. A full name wins over a longer flag that it
/// abbreviates, as in `argparse`.
fn reserved_flag(
    word: &str,
    syntax: Syntax,
    flags: &[Reserved],
) -> Option<(&'static str, ReservedReason)> {
    let given = flag_name(word, syntax)?;
    let exact = names(flags).find(|(name, _)| *name == given);
    match syntax {
        Syntax::FullNames => exact,
        Syntax::Argparse => {
            exact.or_else(|| names(flags).find(|(name, _)| abbreviates(&given, name)))
        }
    }
}

fn names(flags: &[Reserved]) -> impl Iterator<Item = (&'static str, ReservedReason)> {
    flags.iter().flat_map(|row| row.names.iter().map(|name| (*name, row.reason)))
}

/// Returns the flag in a word as the runtime reads it; `None` if the word is not a flag.
fn flag_name(word: &str, syntax: Syntax) -> Option<String> {
    let name = word.split('=').next()?;
    let name = match syntax {
        Syntax::Argparse => name.split('.').next()?,
        Syntax::FullNames => name,
    };
    if name.len() < 2 || !name.starts_with('-') || name == "--" {
        return None;
    }
    Some(if name.starts_with("--") { name.replace('_', "-") } else { name.to_string() })
}

/// Returns true if `argparse` accepts `given` for the flag: a prefix of its name, or a short flag
/// with its number attached.
fn abbreviates(given: &str, flag: &str) -> bool {
    if flag.starts_with("--") {
        return given.starts_with("--") && flag.starts_with(given);
    }
    let value = given.strip_prefix(flag);
    let is_joined = value.is_some_and(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    is_joined || (!given.starts_with("--") && flag.starts_with(given))
}

/// Finds the reason of a variable. A reserved name that ends in `*` is a prefix.
fn reserved_variable(name: &str, variables: &[Reserved]) -> Option<ReservedReason> {
    let matches = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern,
    };
    variables.iter().find(|row| row.names.iter().any(matches)).map(|row| row.reason)
}
