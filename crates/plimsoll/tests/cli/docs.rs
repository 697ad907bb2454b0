//! The output in the documentation is the output of the program. `UPDATE_GOLDEN=1` rewrites the
//! blocks that show a whole output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::clients::fake::Fake;
use crate::tool::{plimsoll, root};

/// Marks lines that a page leaves out.
const OMITTED: &str = "[…]";

/// A `console` block: a command and the output that the page shows.
struct Block {
    /// The lines of the output, by their numbers in the page.
    lines: std::ops::Range<usize>,
    command: String,
}

fn blocks(lines: &[String]) -> Vec<Block> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let command = lines.get(at + 1).and_then(|next| next.strip_prefix("$ plimsoll "));
        if let Some(command) = command.filter(|_| line == "```console") {
            let end = lines[at..].iter().position(|line| line == "```").expect("a closed block");
            found.push(Block { lines: at + 2..at + end, command: command.to_string() });
        }
    }
    found
}

/// Runs a command if its input is known here: the examples, or the fleet of the client tests.
fn output(fake: &Fake, command: &str) -> Option<Vec<String>> {
    let offline = ["simulate -f examples/", "explain -f examples/", "audit -f examples/"];
    let client = ["runners", "slots", "reservations", "queue", "accounts", "decisions", "top"];
    if command.contains('>') {
        return None;
    }
    let run = if offline.iter().any(|known| command.starts_with(known))
        || command.starts_with("estimate examples/")
        || command.starts_with("scenario run scenarios/")
    {
        plimsoll(command)
    } else if client.contains(&command) || command.starts_with("explain --server ") {
        fake.run_timeless(&command.replace("http://127.0.0.1:8080", &fake.url))
    } else {
        return None;
    };
    let printed = if run.out.is_empty() { &run.err } else { &run.out };
    Some(printed.lines().map(String::from).collect())
}

/// Returns the first shown line that the output does not have in this order. Lines between two
/// omissions must be adjacent in the output.
fn first_difference<'a>(shown: &'a [String], output: &[String]) -> Option<&'a str> {
    let mut rest = output;
    for (at, part) in shown.split(|line| line == OMITTED).enumerate() {
        let Some(first) = part.first() else { continue };
        let start = rest.windows(part.len()).position(|window| window == part);
        match start {
            Some(start) if at > 0 || start == 0 => rest = &rest[start + part.len()..],
            _ => return Some(first),
        }
    }
    let is_cut = shown.last().is_some_and(|line| line == OMITTED);
    if is_cut || rest.is_empty() { None } else { Some("(the end)") }
}

fn check(page: &str, fake: &Fake) -> (usize, Vec<String>) {
    let path: PathBuf = root().join(page);
    let text = fs::read_to_string(&path).expect("a page");
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let (mut checked, mut wrong) = (0, Vec::new());
    for block in blocks(&lines).into_iter().rev() {
        let shown = &lines[block.lines.clone()];
        // Neither the demo of a server nor an unreachable server is reproducible here.
        let is_example = block.command.contains("examples/");
        if !is_example && (page == "README.md" || shown[0].starts_with("error: no server")) {
            continue;
        }
        let Some(output) = output(fake, &block.command) else { continue };
        checked += 1;
        let Some(line) = first_difference(shown, &output) else { continue };
        let is_whole = !shown.iter().any(|line| line == OMITTED);
        if is_whole && std::env::var_os("UPDATE_GOLDEN").is_some() {
            lines.splice(block.lines, output);
        } else {
            wrong.push(format!("{page}: {}: {line}", block.command));
        }
    }
    let updated = lines.join("\n") + "\n";
    if updated != text {
        fs::write(&path, updated).expect("the page is writable");
    }
    (checked, wrong)
}

#[test]
fn pages_show_the_output_of_the_program() {
    let fake = Fake::fleet();
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in [
        "README.md",
        "docs/accounts.md",
        "docs/audit.md",
        "docs/clients.md",
        "docs/commands.md",
        "docs/estimate.md",
        "docs/examples.md",
        "docs/json.md",
        "docs/kubernetes.md",
    ] {
        let (blocks, differences) = check(page, &fake);
        checked += blocks;
        wrong.extend(differences);
    }
    assert!(wrong.is_empty(), "these lines are not in the output:\n{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} blocks were found");
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("the page")
}

/// Terms and their meanings.
fn glossary(page: &str) -> BTreeMap<&str, &str> {
    let from = page.find("## Glossary").expect("a glossary");
    let section = page[from + 3..].split("\n## ").next().expect("a section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.filter_map(|row| row.split_once(" | ")).collect()
}

#[test]
fn the_glossaries_give_a_term_the_same_meaning() {
    let (architecture, documentation) = (page("ARCHITECTURE.md"), page("docs/README.md"));
    let (ours, theirs) = (glossary(&architecture), glossary(&documentation));
    let shared: Vec<&&str> = ours.keys().filter(|term| theirs.contains_key(*term)).collect();
    assert!(shared.len() > 9, "shared terms: {shared:?}");
    for term in shared {
        assert_eq!(ours[*term], theirs[*term], "{term}");
    }
}

#[test]
fn the_architecture_page_names_every_module() {
    let text = page("ARCHITECTURE.md");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = text.split(|c: char| !is_word(c)).collect();
    let mut missing = Vec::new();
    for package in fs::read_dir(root().join("crates")).expect("crates").flatten() {
        let Ok(files) = fs::read_dir(package.path().join("src")) else { continue };
        for file in files.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let module = name.strip_suffix(".rs").unwrap_or(&name);
            if !["lib", "main", "tests"].contains(&module) && !words.contains(module) {
                missing.push(format!("{}::{module}", package.file_name().to_string_lossy()));
            }
        }
    }
    assert!(missing.is_empty(), "not in ARCHITECTURE.md: {missing:?}");
}
