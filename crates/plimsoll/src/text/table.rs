//! Aligned columns without a frame, so that `cut` and `awk` can read them. A table that is wider
//! than the page loses its optional columns, then its widest cells are wrapped.

use anstyle::Style;

use super::page::{PLAIN, Page, STRONG, clean, wrap};

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Rows under a heading.
pub(super) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<(Style, String)>>,
    optional: &'static [&'static str],
}

/// The fewest characters of a cell that is wrapped.
const NARROWEST: usize = 10;

/// The space between two columns.
const GAP: usize = 2;

impl Table {
    /// Creates an empty table.
    pub(super) fn new(columns: &[(&'static str, Align)]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new(), optional: &[] }
    }

    /// Names the columns that a narrow page leaves out, the least important first.
    pub(super) fn optional(mut self, columns: &'static [&'static str]) -> Self {
        self.optional = columns;
        self
    }

    /// Adds a row of plain cells.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.styled_row(cells.into_iter().map(|cell| (PLAIN, cell)));
    }

    /// Adds a row of styled cells.
    pub(super) fn styled_row(&mut self, cells: impl IntoIterator<Item = (Style, String)>) {
        self.rows.push(cells.into_iter().map(|(style, cell)| (style, clean(&cell))).collect());
    }

    /// Prints the table; an empty table prints nothing.
    pub(super) fn print(&self, page: &mut Page, indent: usize) {
        if self.rows.is_empty() {
            return;
        }
        let columns = self.layout(page.width().after(indent));
        let heading: Vec<(Style, String)> =
            self.columns.iter().map(|(name, _)| (STRONG, (*name).to_string())).collect();
        for row in [&heading].into_iter().chain(&self.rows) {
            self.print_row(page, indent, row, &columns);
        }
    }

    fn print_row(
        &self,
        page: &mut Page,
        indent: usize,
        row: &[(Style, String)],
        columns: &[Column],
    ) {
        let empty = (PLAIN, String::new());
        let cells: Vec<(Style, Vec<String>)> = columns
            .iter()
            .map(|column| {
                let (style, cell) = row.get(column.index).unwrap_or(&empty);
                (*style, lines_of(cell, column.width))
            })
            .collect();
        let height = cells.iter().map(|(_, lines)| lines.len()).max().unwrap_or(1);
        for line in 0..height {
            let mut pieces = Vec::new();
            for (column, (style, lines)) in columns.iter().zip(&cells) {
                let cell = lines.get(line).cloned().unwrap_or_default();
                let gap = " ".repeat(column.width.saturating_sub(cell.chars().count()));
                let (before, after) = match self.columns[column.index].1 {
                    Align::Right => (gap, String::new()),
                    Align::Left => (String::new(), gap),
                };
                pieces.push((PLAIN, before));
                pieces.push((*style, cell));
                pieces.push((PLAIN, after + "  "));
            }
            page.raw(indent, &pieces);
        }
    }

    /// Returns the columns that are printed and their widths.
    fn layout(&self, available: Option<usize>) -> Vec<Column> {
        let natural = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let cells = cells.map(|(_, cell)| cell.chars().count());
            cells.chain([self.columns[index].0.len()]).max().unwrap_or(0)
        };
        let mut columns: Vec<Column> =
            (0..self.columns.len()).map(|index| Column { index, width: natural(index) }).collect();
        let Some(available) = available else { return columns };
        for name in self.optional {
            if total(&columns) > available {
                columns.retain(|column| self.columns[column.index].0 != *name);
            }
        }
        while total(&columns) > available {
            let excess = total(&columns) - available;
            let is_text = |column: &&mut Column| {
                self.columns[column.index].1 == Align::Left && column.width > NARROWEST
            };
            let widest = columns.iter_mut().filter(is_text).max_by_key(|column| column.width);
            let Some(widest) = widest else { break };
            // At most a third at once, so that several wide columns share the loss.
            let loss = excess.min(widest.width.div_ceil(3));
            widest.width = (widest.width - loss).max(NARROWEST);
        }
        columns
    }
}

/// A column that is printed.
struct Column {
    index: usize,
    width: usize,
}

fn total(columns: &[Column]) -> usize {
    let widths: usize = columns.iter().map(|column| column.width).sum();
    widths + GAP * columns.len().saturating_sub(1)
}

/// Breaks a cell into lines of a width. A word that is longer loses its middle.
fn lines_of(cell: &str, width: usize) -> Vec<String> {
    if cell.chars().count() <= width {
        return vec![cell.to_string()];
    }
    let lines = wrap(&[(PLAIN, cell.to_string())], width, width);
    let text = |line: &Vec<(Style, String)>| line.iter().map(|(_, piece)| &**piece).collect();
    let lines: Vec<String> = lines.iter().map(text).collect();
    lines.iter().map(|line| shortened(line, width)).collect()
}

/// Shortens a text to a number of characters by leaving out its middle: names differ at their ends.
pub(super) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width || width < 3 {
        return text.to_string();
    }
    let (head, tail) = ((width - 1).div_ceil(2), (width - 1) / 2);
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::Width;

    fn table() -> Table {
        Table::new(&[("POD", Align::Left), ("BYTES", Align::Right), ("WHY", Align::Left)])
            .optional(&["BYTES"])
    }

    fn printed(table: &Table, width: Width) -> String {
        let mut page = Page::new(width);
        table.print(&mut page, 2);
        page.plain()
    }

    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let mut table = table();
        table.row(["default/a".to_string(), "8".to_string(), "-".to_string()]);
        table.row(["b".to_string(), "8000".to_string(), String::new()]);
        assert_eq!(
            printed(&table, Width::Unlimited),
            "  POD        BYTES  WHY\n  default/a      8  -\n  b           8000\n"
        );
    }

    #[test]
    fn a_narrow_page_drops_optional_columns_and_wraps_the_widest() {
        let mut table = table();
        let why = "8000 MiB short on node-a/0 and on two others";
        table.row(["default/a".to_string(), "8".to_string(), why.to_string()]);
        let text = printed(&table, Width::Columns(34));
        let expected = "  POD        WHY\n  default/a  8000 MiB short on\n             \
                        node-a/0 and on two\n             others\n";
        assert_eq!(text, expected);
        assert_eq!(printed(&table, Width::Columns(80)).lines().count(), 2);
    }

    #[test]
    fn a_long_name_keeps_both_ends() {
        assert_eq!(shortened("GPU-33333333-0000-4000-8000-000000000001", 14), "GPU-333…000001");
        assert_eq!(shortened("demo-l4", 8), "demo-l4");
    }
}
