//! The picture in the README: the terminal of a real run, as SVG.
//!
//! The command is deterministic, so that a test can compare the picture with its golden file.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The command that is shown. Its golden file is `GOLDEN`.
const COMMAND: [&str; 3] = ["simulate", "-f", "examples/kai-time-slicing.yaml"];

const PICTURE: &str = "docs/picture.svg";

/// The width of the terminal in columns. Longer lines are wrapped between words.
const COLUMNS: usize = 104;

/// The size of a character cell, and the margin around the text, in pixels.
const CELL: (f64, f64) = (7.8, 18.0);
const MARGIN: f64 = 16.0;

/// Runs the command in colour, and draws its output.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--package", "plimsoll", "--"]).args(COMMAND);
    cargo.args(["--color", "always"]).current_dir(workspace);
    let output = cargo.output().context("cannot run cargo")?;
    // One pod is pending.
    if output.status.code() != Some(1) {
        bail!("the command failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout).context("the output is no UTF-8")?;
    let path = workspace.join(PICTURE);
    fs::write(&path, draw(&text)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}

/// A piece of text in one style.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    text: String,
    style: Style,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    color: Option<&'static str>,
    is_bold: bool,
    is_dim: bool,
}

fn draw(output: &str) -> String {
    let command = format!("$ plimsoll {}", COMMAND.join(" "));
    let bold = Style { is_bold: true, ..Style::default() };
    let mut lines = vec![vec![Run { text: command, style: bold }]];
    for line in output.lines() {
        lines.extend(wrapped(styled(line)));
    }
    let width = MARGIN.mul_add(2.0, COLUMNS as f64 * CELL.0);
    let height = MARGIN.mul_add(2.0, lines.len() as f64 * CELL.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\">\n\
         <title>The output of plimsoll {}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n",
        COMMAND.join(" ")
    );
    for (number, line) in (1_u32..).zip(&lines) {
        let mut column = 0;
        for run in line {
            let (x, y) =
                (MARGIN + column as f64 * CELL.0, MARGIN + (f64::from(number) - 0.3) * CELL.1);
            column += run.text.chars().count();
            if !run.text.trim().is_empty() {
                svg.push_str(&element(run, (x, y)));
            }
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns a run as an element. `textLength` keeps columns aligned in fonts of another width.
fn element(run: &Run, (x, y): (f64, f64)) -> String {
    let indent = run.text.chars().take_while(|c| *c == ' ').count();
    let text = run.text.trim();
    let (x, length) = (x + indent as f64 * CELL.0, text.chars().count() as f64 * CELL.0);
    let Style { color, is_bold, is_dim } = run.style;
    let fill = match color {
        Some(color) => color,
        None if is_dim => "#8b949e",
        None => "#e6edf3",
    };
    let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" fill=\"{fill}\"{weight} \
         xml:space=\"preserve\">{text}</text>\n"
    )
}

/// Splits a line at its escape sequences. Other sequences than those of styles do not occur.
fn styled(line: &str) -> Vec<Run> {
    let mut style = Style::default();
    let mut runs = Vec::new();
    for (index, part) in line.split("\u{1b}[").enumerate() {
        let (codes, text) = match index {
            0 => ("", part),
            _ => part.split_once('m').unwrap_or(("", part)),
        };
        if index > 0 {
            codes.split(';').for_each(|code| style = style.with(code));
        }
        if !text.is_empty() {
            runs.push(Run { text: text.to_owned(), style });
        }
    }
    runs
}

impl Style {
    /// Returns the style after a code of ECMA-48.
    fn with(self, code: &str) -> Style {
        let color = |color| Style { color: Some(color), ..self };
        match code {
            "" | "0" => Style::default(),
            "1" => Style { is_bold: true, ..self },
            "2" => Style { is_dim: true, ..self },
            "31" | "91" => color("#ff7b72"),
            "32" | "92" => color("#7ee787"),
            "33" | "93" => color("#e3b341"),
            "34" | "94" => color("#79c0ff"),
            "35" | "95" => color("#d2a8ff"),
            "36" | "96" => color("#76e3ea"),
            "90" => color("#8b949e"),
            _ => self,
        }
    }
}

/// Wraps a line between words, with the indent of its first line and two columns more.
fn wrapped(runs: Vec<Run>) -> Vec<Vec<Run>> {
    let first: String = runs.iter().map(|run| run.text.as_str()).collect();
    let indent = first.chars().take_while(|c| *c == ' ').count() + 2;
    let (mut lines, mut line, mut column) = (Vec::new(), Vec::new(), 0);
    for run in runs {
        let mut text = String::new();
        for word in run.text.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if column + length > COLUMNS && column > indent {
                line.push(Run { text: std::mem::take(&mut text), style: run.style });
                lines.push(std::mem::take(&mut line));
                text = " ".repeat(indent);
                column = indent;
            }
            text.push_str(word);
            column += word.chars().count();
        }
        line.push(Run { text, style: run.style });
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "crates/plimsoll/tests/golden/kai-time-slicing.simulate.txt";

    /// Returns the characters between the tags, without blanks: a change of colour divides words.
    fn characters(svg: &str) -> String {
        let texts = svg.split("xml:space=\"preserve\">").skip(1);
        let texts: String = texts.filter_map(|rest| rest.split("</text>").next()).collect();
        let texts = texts.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        texts.split_whitespace().collect()
    }

    #[test]
    fn the_picture_shows_what_the_program_prints() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let picture = fs::read_to_string(workspace.join(PICTURE)).expect("the picture");
        let golden = fs::read_to_string(workspace.join(GOLDEN)).expect("the golden file");
        let printed = golden.lines().filter(|line| !line.starts_with("exit code "));
        let printed: String = printed.flat_map(str::split_whitespace).collect();
        assert!(characters(&picture) == printed, "run `cargo run -p xtask -- outputs`");
    }

    #[test]
    fn colours_are_kept_and_long_lines_are_wrapped_between_words() {
        let runs = styled("  a \u{1b}[1;31mred\u{1b}[0m end");
        let style = Style { color: Some("#ff7b72"), is_bold: true, is_dim: false };
        assert_eq!(runs[1], Run { text: "red".to_owned(), style });
        assert_eq!((runs.len(), runs[2].style), (3, Style::default()));
        let long = format!("  {}", "word ".repeat(50));
        let lines = wrapped(styled(&long));
        let lengths =
            lines.iter().map(|line| line.iter().map(|run| run.text.trim_end().len()).sum());
        assert!(
            lengths.clone().all(|length: usize| length <= COLUMNS),
            "{:?}",
            lengths.collect::<Vec<_>>()
        );
        assert!(lines.len() == 3 && lines[1][0].text.starts_with("    word"), "{lines:?}");
    }
}
