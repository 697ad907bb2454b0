//! What came of a scenario: as an updated text, as a diff, and as a demo.

use super::words::{Content, Line};

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Report {
    blocks: Vec<Block>,
    mismatches: Vec<Mismatch>,
}

/// A command with what it should say and what it said; or lines that nothing is asked of.
#[derive(Clone, Debug)]
struct Block {
    line: usize,
    text: String,
    said: Option<Vec<String>>,
    expected: Option<Vec<String>>,
}

/// A command that did not say what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The command's line, from 1.
    pub line: usize,
    /// The command.
    pub command: String,
    /// What it should say.
    pub expected: Vec<String>,
    /// What it said.
    pub said: Vec<String>,
}

impl Report {
    pub(crate) fn new(lines: Vec<Line>, results: Vec<Option<Vec<String>>>) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        let mut commands: Vec<usize> = Vec::new();
        for (line, said) in lines.into_iter().zip(results) {
            match line.content {
                Content::Expected(expected) => {
                    let command = commands
                        .last()
                        .map(|at| &mut blocks[*at])
                        .expect("expectations stand below a command");
                    command.expected.get_or_insert_default().push(expected);
                }
                _ => {
                    if said.is_some() {
                        commands.push(blocks.len());
                    }
                    blocks.push(Block { line: line.number, text: line.text, said, expected: None });
                }
            }
        }
        let mismatches = blocks.iter().filter_map(Block::mismatch).collect();
        Report { blocks, mismatches }
    }

    /// Whether every command said what it should.
    pub fn holds(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// The commands that did not say what they should.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// The scenario with its expectations rewritten to what happened.
    pub fn updated(&self) -> String {
        self.text(|block| {
            if block.expected.is_some() || block.objected() { block.said.as_deref() } else { None }
        })
    }

    /// The scenario with what every command said, for people to read.
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

    /// The mismatches: with their line numbers, what was expected and what was said.
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
    fn mismatch(&self) -> Option<Mismatch> {
        let said = self.said.clone()?;
        let expected = self.expected.clone();
        let differs = expected.as_ref().is_some_and(|expected| *expected != said);
        (differs || self.objected()).then(|| Mismatch {
            line: self.line,
            command: self.text.trim().to_string(),
            expected: expected.unwrap_or_default(),
            said,
        })
    }

    /// Whether the witness objected: that is wrong whatever was expected.
    fn objected(&self) -> bool {
        self.said.iter().flatten().any(|line| line.starts_with("THE WITNESS OBJECTS"))
    }
}
