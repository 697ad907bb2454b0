//! Aligned columns without a frame, so that `cut` and `awk` can read them.

use anstyle::Style;

use super::page::{PLAIN, Page, STRONG, clean};

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
}

impl Table {
    /// Creates an empty table.
    pub(super) fn new(columns: &[(&'static str, Align)]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
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
        let width = |column: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|(_, cell)| cell.chars().count());
            cells.chain([self.columns[column].0.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let heading: Vec<(Style, String)> =
            self.columns.iter().map(|(name, _)| (STRONG, (*name).to_string())).collect();
        for row in [&heading].into_iter().chain(&self.rows) {
            let padded: Vec<(Style, String)> = row
                .iter()
                .enumerate()
                .flat_map(|(at, (style, cell))| {
                    let gap = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
                    let (before, after) = if self.columns[at].1 == Align::Right {
                        (gap, String::new())
                    } else {
                        (String::new(), gap)
                    };
                    [(PLAIN, before), (*style, cell.clone()), (PLAIN, after + "  ")]
                })
                .collect();
            let pieces: Vec<(Style, &str)> =
                padded.iter().map(|(style, piece)| (*style, &**piece)).collect();
            page.pieces(indent, &pieces);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let mut table = Table::new(&[("POD", Align::Left), ("BYTES", Align::Right)]);
        table.row(["default/a".to_string(), "8".to_string()]);
        table.row(["b".to_string(), "8000".to_string()]);
        let mut page = Page::default();
        table.print(&mut page, 2);
        assert_eq!(page.plain(), "  POD        BYTES\n  default/a      8\n  b           8000\n");
    }
}
