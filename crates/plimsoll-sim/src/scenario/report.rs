//! The result of a scenario: as an updated text, as a diff, and as a demo.

use super::output::{LineKind, OutputLine};
use super::words::{Content, Line};

/// The result of a scenario.
#[derive(Clone, Debug)]
pub struct Report {
    blocks: Vec<Block>,
    mismatches: Vec<Mismatch>,
}

/// A command with its expected and actual output; or a line that is not a command.
#[derive(Clone, Debug)]
struct Block {
    line: usize,
    text: String,
    said: Option<Vec<String>>,
    /// The witness objected, which is an error whatever was expected.
    objected: bool,
    expected: Option<Vec<String>>,
}

/// A command whose output differs from the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The command's line, from 1.
    pub line: usize,
    pub command: String,
    pub expected: Vec<String>,
    pub said: Vec<String>,
}

impl Report {
    pub(crate) fn new(lines: Vec<Line>, results: Vec<Option<Vec<OutputLine>>>) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        let mut commands: Vec<usize> = Vec::new();
        for (line, output) in lines.into_iter().zip(results) {
            match line.content {
                Content::Expected(expected) => {
                    let command = commands
                        .last()
                        .map(|at| &mut blocks[*at])
                        .expect("expectations follow a command");
                    command.expected.get_or_insert_default().push(expected);
                }
                _ => {
                    if output.is_some() {
                        commands.push(blocks.len());
                    }
                    blocks.push(Block::new(line, output));
                }
            }
        }
        let mismatches = blocks.iter().filter_map(Block::mismatch).collect();
        Report { blocks, mismatches }
    }

    /// Returns true if every command has its expected output.
    pub fn holds(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// Returns the commands whose output differs.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// Returns the scenario with its expectations replaced by the actual output.
    pub fn updated(&self) -> String {
        self.text(|block| {
            if block.expected.is_some() || block.objected { block.said.as_deref() } else { None }
        })
    }

    /// Returns the scenario with the output of every command.
    pub fn demo(&self) -> String {
        self.text(|block| block.said.as_deref())
    }

    fn text<'a>(&'a self, shown: impl Fn(&'a Block) -> Option<&'a [String]>) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            text.push_str(block.text.trim_end());
            text.push('\n');
            for line in shown(block).unwrap_or_default() {
                text.push_str(format!("> {line}").trim_end());
                text.push('\n');
            }
        }
        text
    }

    /// Renders the differences with their line numbers.
    pub fn diff(&self) -> String {
        let mut text = String::new();
        for mismatch in &self.mismatches {
            text.push_str(&format!("line {}: {}\n", mismatch.line, mismatch.command));
            let missing = mismatch.expected.iter().filter(|line| !mismatch.said.contains(line));
            missing.for_each(|line| text.push_str(&format!("  - {line}\n")));
            let shown = |line: &String| if mismatch.expected.contains(line) { ' ' } else { '+' };
            mismatch
                .said
                .iter()
                .for_each(|line| text.push_str(&format!("  {} {line}\n", shown(line))));
        }
        text
    }
}

impl Block {
    fn new(line: Line, output: Option<Vec<OutputLine>>) -> Self {
        let objected = output.iter().flatten().any(|line| line.kind == LineKind::Objection);
        let said = output.map(|lines| lines.into_iter().map(|line| line.text).collect());
        Block { line: line.number, text: line.text, said, objected, expected: None }
    }

    fn mismatch(&self) -> Option<Mismatch> {
        let said = self.said.clone()?;
        let expected = self.expected.clone();
        let differs = expected.as_ref().is_some_and(|expected| *expected != said);
        (differs || self.objected).then(|| Mismatch {
            line: self.line,
            command: self.text.trim().to_string(),
            expected: expected.unwrap_or_default(),
            said,
        })
    }
}
