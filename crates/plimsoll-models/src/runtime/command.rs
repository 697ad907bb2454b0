//! The rendered command of a model server, and the helpers that build it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::spec::UserOptions;

/// The largest number that the runtimes accept in a flag: they parse 32-bit signed integers.
pub(super) const MAX_FLAG_VALUE: u64 = i32::MAX as u64;

/// The command that starts a model server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchCommand {
    /// The program and its arguments. The runner replaces `{host}` and `{port}`; other braces are
    /// doubled.
    pub argv: Vec<String>,
    /// Variables, with the same two placeholders.
    pub env: BTreeMap<String, String>,
    /// A path that answers 200 once the server is up.
    pub ready: &'static str,
    /// The request that loads the model before the first real request.
    pub preload: Option<Preload>,
    /// The fraction of each GPU that the runtime may use, if it has such a limit: `0.4875`.
    pub memory_ratio: Option<String>,
    /// Limits of the runtime that the user should know.
    pub remarks: Vec<&'static str>,
}

/// A `POST` request that makes a server load its model. The server answers 200 when it is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preload {
    pub path: &'static str,
    /// The JSON body.
    pub body: String,
}

/// Doubles the braces of a text, so that the replacement of `{host}` and `{port}` leaves it alone.
pub(super) fn escape_braces(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// A command line under construction.
pub(super) struct CommandLine(Vec<String>);

impl CommandLine {
    /// Starts with literal words.
    pub(super) fn new(words: &[&str]) -> Self {
        CommandLine(words.iter().map(|word| escape_braces(word)).collect())
    }

    /// Adds a flag without a value.
    pub(super) fn switch(&mut self, name: &str) {
        self.0.push(name.to_string());
    }

    /// Adds a flag with a value.
    pub(super) fn flag(&mut self, name: &str, value: impl fmt::Display) {
        self.0.extend([name.to_string(), value.to_string()]);
    }

    /// Appends the user's arguments and returns the words.
    pub(super) fn finish(mut self, user: &UserOptions) -> Vec<String> {
        self.0.extend(user.args.iter().map(|arg| escape_braces(arg)));
        self.0
    }
}

/// Merges the user's variables with Plimsoll's own, which win.
pub(super) fn environment<'a>(
    user: &UserOptions,
    ours: impl IntoIterator<Item = (&'a str, String)>,
) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> =
        user.env.iter().map(|(name, value)| (name.clone(), escape_braces(value))).collect();
    env.extend(ours.into_iter().map(|(name, value)| (name.to_string(), value)));
    env
}
