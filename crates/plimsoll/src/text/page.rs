//! A page of text that grows line by line and fits the terminal. Text from files and servers can
//! neither colour it nor move the cursor.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

/// Headings.
pub(super) const STRONG: Style = Style::new().bold();
/// Secondary information.
pub(super) const FAINT: Style = Style::new().dimmed();
/// Success.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Rejections and errors.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Warnings.
pub(super) const ODD: Style = AnsiColor::Yellow.on_default();
/// Work that has started and is not ready yet.
pub(super) const NEW: Style = AnsiColor::Cyan.on_default();
/// Everything else.
pub(super) const PLAIN: Style = Style::new();

/// The width of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Width {
    /// A pipe or a file: lines are as long as they are.
    #[default]
    Unlimited,
    Columns(usize),
}

impl Width {
    /// Returns the columns that are left after an indent; `None` if lines may have any length.
    pub(super) fn after(self, indent: usize) -> Option<usize> {
        match self {
            Width::Unlimited => None,
            Width::Columns(columns) => Some(columns.saturating_sub(indent).max(NARROWEST)),
        }
    }
}

/// The fewest columns that text is wrapped to.
const NARROWEST: usize = 16;

/// A page of text with colours, which the terminal's writer strips if they are not wanted.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
    width: Width,
}

impl Page {
    /// Creates an empty page of a width.
    pub(crate) fn new(width: Width) -> Page {
        Page { text: String::new(), width }
    }

    /// Returns the width of the page.
    pub(super) fn width(&self) -> Width {
        self.width
    }

    /// Adds a line in one style.
    pub(super) fn styled(&mut self, indent: usize, style: Style, text: &str) {
        self.pieces(indent, &[(style, text)]);
    }

    /// Adds a plain line.
    pub(super) fn line(&mut self, indent: usize, text: &str) {
        self.styled(indent, PLAIN, text);
    }

    /// Adds a line as it is, for text in another format.
    pub(super) fn verbatim(&mut self, indent: usize, text: &str) {
        self.raw(indent, &[(PLAIN, clean(text))]);
    }

    /// Adds a plain line at the left.
    pub(crate) fn note(&mut self, text: &str) {
        self.line(0, text);
    }

    /// Adds a line of pieces, each in its style. Continuation lines are indented further.
    pub(super) fn pieces(&mut self, indent: usize, pieces: &[(Style, &str)]) {
        self.wrapped(indent, indent + 2, pieces);
    }

    /// Adds a line whose text is aligned with that of other labels, also in continuation lines.
    pub(super) fn labelled(&mut self, indent: usize, (label, wide): (&str, usize), text: &str) {
        let label = format!("{label:wide$}  ");
        let hang = indent + label.chars().count();
        self.wrapped(indent, hang, &[(FAINT, &label), (PLAIN, text)]);
    }

    fn wrapped(&mut self, indent: usize, hang: usize, pieces: &[(Style, &str)]) {
        let pieces: Vec<(Style, String)> =
            pieces.iter().map(|(style, piece)| (*style, clean(piece))).collect();
        let length: usize = pieces.iter().map(|(_, piece)| piece.chars().count()).sum();
        match self.width.after(indent).filter(|columns| length > *columns) {
            None => self.raw(indent, &pieces),
            Some(columns) => {
                let rest = self.width.after(hang).unwrap_or(columns);
                for (number, line) in wrap(&pieces, columns, rest).iter().enumerate() {
                    self.raw(if number == 0 { indent } else { hang }, line);
                }
            }
        }
    }

    /// Adds a line as it is, without wrapping it. The pieces have no control characters.
    pub(super) fn raw(&mut self, indent: usize, pieces: &[(Style, String)]) {
        self.text.push_str(&" ".repeat(indent));
        for (style, piece) in pieces {
            let painted = if style.is_plain() {
                write!(self.text, "{piece}")
            } else {
                write!(self.text, "{style}{piece}{style:#}")
            };
            painted.expect("writing to a string cannot fail");
        }
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
        self.text.push('\n');
    }

    /// Adds a heading, after an empty line unless it is the first.
    pub(crate) fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.styled(0, STRONG, text);
    }

    /// Returns the page with its colours.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the page without colours.
    pub(crate) fn plain(&self) -> String {
        anstream::adapter::strip_str(&self.text).to_string()
    }
}

/// A part of a line that is not broken: a word, or a number with its unit.
#[derive(Clone, Debug, Default)]
struct Word {
    pieces: Vec<(Style, String)>,
    text: String,
}

impl Word {
    fn push(&mut self, style: Style, text: &str) {
        if !text.is_empty() {
            self.pieces.push((style, text.to_string()));
            self.text.push_str(text);
        }
    }
}

/// Breaks styled text into lines of at most `first` characters, then of at most `rest`.
pub(super) fn wrap(
    pieces: &[(Style, String)],
    first: usize,
    rest: usize,
) -> Vec<Vec<(Style, String)>> {
    let mut lines: Vec<Vec<(Style, String)>> = vec![Vec::new()];
    let (mut used, mut most) = (0, first);
    for word in words(pieces) {
        let length = word.text.chars().count();
        let gap = usize::from(used > 0);
        if used > 0 && used + gap + length > most {
            lines.push(Vec::new());
            (used, most) = (0, rest);
        } else if gap > 0 {
            lines.last_mut().expect("there is a first line").push((PLAIN, " ".to_string()));
            used += 1;
        }
        used += length;
        lines.last_mut().expect("there is a first line").extend(word.pieces);
    }
    lines
}

/// Splits styled text at spaces, except between a number and its unit. Spaces that align a label
/// with its text stay part of the label.
fn words(pieces: &[(Style, String)]) -> Vec<Word> {
    let mut words: Vec<Word> = vec![Word::default()];
    for (style, piece) in pieces {
        let is_label = piece.ends_with("  ");
        for (number, part) in piece.split(' ').enumerate() {
            let last = words.last_mut().expect("there is a first word");
            if number > 0 && (is_label || is_joined(&last.text, part)) {
                last.push(*style, " ");
            } else if number > 0 && !last.text.is_empty() {
                words.push(Word::default());
            }
            words.last_mut().expect("there is a first word").push(*style, part);
        }
    }
    words.retain(|word| !word.text.is_empty());
    words
}

/// Returns whether a line break between two words would separate a number from its unit.
fn is_joined(before: &str, after: &str) -> bool {
    let unit = after.trim_end_matches([')', ',', ';', '.', ':']);
    let ends_in_number = before.ends_with(|c: char| c.is_ascii_digit());
    (ends_in_number && ["B", "KiB", "MiB", "GiB", "TiB", "x", "GPU", "GPUs"].contains(&unit))
        || before == "GPU"
        || before == "GPUs"
        || before.ends_with(" x")
}

/// Puts text on one line and makes control characters visible: names come from untrusted files.
pub(crate) fn clean(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    text.replace('\n', " / ").chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_paint_the_terminal() {
        let mut page = Page::default();
        page.styled(2, BAD, "pod\u{1b}[2Jname\nsecond");
        assert_eq!(page.plain(), "  pod\u{fffd}[2Jname / second\n");
    }

    #[test]
    fn a_line_is_broken_between_words_and_never_inside_a_size() {
        let mut page = Page::new(Width::Columns(34));
        page.line(2, "needs 70.5 GiB on each of 2 GPUs; 8000 MiB, 2 x 30 GiB on GPU 0");
        assert_eq!(
            page.plain(),
            "  needs 70.5 GiB on each of 2 GPUs;\n    8000 MiB, 2 x 30 GiB on GPU 0\n"
                .replace("on each of 2 GPUs;\n    8000", "on each of\n    2 GPUs; 8000")
                .replace("8000 MiB, 2 x 30 GiB on GPU 0", "8000 MiB, 2 x 30 GiB\n    on GPU 0")
        );
        assert!(page.plain().lines().all(|line| line.chars().count() <= 34));
    }

    #[test]
    fn labelled_text_stays_aligned() {
        let mut page = Page::new(Width::Columns(40));
        page.labelled(2, ("held by", 13), "a/x (40.0 GiB), b/yyyyyyy (8.0 GiB)");
        let expected = "  held by        a/x (40.0 GiB),\n                 b/yyyyyyy (8.0 GiB)\n";
        assert_eq!(page.plain(), expected);
    }
}
