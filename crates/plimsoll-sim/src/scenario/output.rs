//! The output of a command: its lines, each with the kind of its content.

/// A line of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputLine {
    pub kind: LineKind,
    pub text: String,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Offered,
    Placed,
    Pending,
    Impossible,
    Rejected,
    Stop,
    /// The witness disagrees with the ledger: an error, whatever was expected.
    Objection,
    Other,
}

impl LineKind {
    /// Returns the words for a number of lines of this kind; `None` if each is printed.
    fn counted_as(self) -> Option<&'static str> {
        match self {
            LineKind::Offered => Some("offered"),
            LineKind::Placed => Some("placed"),
            LineKind::Pending => Some("pending"),
            LineKind::Impossible => Some("impossible"),
            LineKind::Rejected => Some("rejected"),
            LineKind::Stop => Some("asked to stop on"),
            LineKind::Objection | LineKind::Other => None,
        }
    }
}

impl From<String> for OutputLine {
    fn from(text: String) -> OutputLine {
        OutputLine { kind: LineKind::Other, text }
    }
}

/// Summarizes the output of a command that ran once for each number of a range: answers and stops
/// as counts, every other line once.
pub(crate) fn summarize(lines: Vec<OutputLine>) -> Vec<OutputLine> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let mut rest: Vec<OutputLine> = Vec::new();
    for line in lines {
        match line.kind.counted_as() {
            Some(words) => match counts.iter_mut().find(|(known, _)| *known == words) {
                Some((_, count)) => *count += 1,
                None => counts.push((words, 1)),
            },
            None if !rest.contains(&line) => rest.push(line),
            None => {}
        }
    }
    let counts: Vec<String> =
        counts.iter().map(|(words, count)| format!("{count} {words}")).collect();
    let summary = (!counts.is_empty()).then(|| OutputLine::from(counts.join(", ")));
    summary.into_iter().chain(rest).collect()
}
