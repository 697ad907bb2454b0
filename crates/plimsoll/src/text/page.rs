//! A page of text that grows line by line. Text from files and servers can neither colour it nor
//! move the cursor.

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

/// A page of text with colours, which the terminal's writer strips if they are not wanted.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
}

impl Page {
    /// Adds a line in one style.
    pub(super) fn styled(&mut self, indent: usize, style: Style, text: &str) {
        self.pieces(indent, &[(style, text)]);
    }

    /// Adds a plain line.
    pub(super) fn line(&mut self, indent: usize, text: &str) {
        self.styled(indent, PLAIN, text);
    }

    /// Adds a line of pieces, each in its style.
    pub(super) fn pieces(&mut self, indent: usize, pieces: &[(Style, &str)]) {
        self.text.push_str(&" ".repeat(indent));
        for (style, piece) in pieces {
            self.piece(*style, piece);
        }
        let kept = self.text.trim_end_matches(' ').len();
        self.text.truncate(kept);
        self.text.push('\n');
    }

    fn piece(&mut self, style: Style, piece: &str) {
        let text = clean(piece);
        let painted = if style.is_plain() {
            write!(self.text, "{text}")
        } else {
            write!(self.text, "{style}{text}{style:#}")
        };
        painted.expect("writing to a string cannot fail");
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
}
