//! The output in the documentation is the output of the program. `UPDATE_GOLDEN=1` rewrites the
//! blocks that show a whole output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_goldens::gguf::{self, Body};
use plimsoll_goldens::list::Golden;

use crate::clients::fake::{Fake, read};
use crate::tool::{Run, command, finish, plimsoll, root, scratch};

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

/// The commands that are not run, with the reason.
const NOT_RUN: [(&str, &str); 2] = [
    ("docs/clients.md", "apply -f models.yaml"),
    // A line of a shell; the test of `--log-decisions` compares the steps.
    (
        "docs/commands.md",
        "simulate -f examples/kai-time-slicing.yaml -q --log-decisions 2>&1 >/dev/null",
    ),
];

/// Runs the command of a block with the input that its page tells of: the examples, the files of
/// `tests/pages`, the models of the estimates, or the fleet of the client tests. `None` if it is
/// one of those that are not run.
fn output(fake: &Fake, page: &str, block: &Block, shown: &[String]) -> Option<Vec<String>> {
    let line = block.command.as_str();
    let is_error = shown[0].starts_with("error: ");
    let file = |name: &str| format!(" {name}");
    let run = match line {
        "queue" if is_error => unreachable(line),
        "apply -f models.yaml" if is_error => in_directory(line, &pages().join("invalid")),
        _ if NOT_RUN.contains(&(page, line)) => return None,
        "reserve huge" => {
            fake.says("POST", "scheduler/slots", 422, &read("problem-huge"));
            fake.run_timeless(line)
        }
        "reserve qwen3-8b" => {
            fake.says("POST", "scheduler/slots", 202, &read("reservation-pending"));
            fake.run_timeless(line)
        }
        line if line.starts_with("reserve ") => {
            fake.says("POST", "scheduler/slots", 201, &read("reservation-ready"));
            fake.run_timeless(line)
        }
        "accounts" | "runners" | "slots" | "reservations" | "queue" | "decisions" | "top" => {
            fake.run_timeless(line)
        }
        line if line.starts_with("explain --server ") => {
            fake.run_timeless(&line.replace("http://127.0.0.1:8080", &fake.url))
        }
        line if line.contains(".gguf ") => in_directory(line, &models()),
        line if ["cluster.yaml", "broken.yaml", "no-devices.yaml", "wrong.txt"]
            .iter()
            .any(|name| line.ends_with(&file(name))) =>
        {
            in_directory(line, &pages())
        }
        line if line.contains('*') => plimsoll(&expanded(line)),
        line => plimsoll(line),
    };
    let printed = if run.out.is_empty() { &run.err } else { &run.out };
    let printed = printed.replace(&fake.url, "http://127.0.0.1:8080");
    Some(printed.lines().map(String::from).collect())
}

fn pages() -> PathBuf {
    root().join("crates/plimsoll/tests/pages")
}

/// Writes the headers of the models that the page about estimates names.
fn models() -> PathBuf {
    let folder = scratch("models");
    for (name, card) in [("qwen3-8b.gguf", "qwen3-8b"), ("qwen3-30b-a3b.gguf", "qwen3-30b-a3b")] {
        let golden = Golden::gguf(card).expect("a golden model");
        gguf::write(&golden.card().expect("a card"), &folder.join(name), Body::Sparse)
            .expect("the header is written");
    }
    folder
}

fn in_directory(line: &str, directory: &Path) -> Run {
    let mut command = command(line);
    command.current_dir(directory);
    finish(command, "")
}

/// Runs a command without a server, and names the port of the page in its error.
fn unreachable(line: &str) -> Run {
    let mut command = command(line);
    command.env("PLIMSOLL_SERVER", "http://127.0.0.1:1");
    let run = finish(command, "");
    let err = run.err.replace("127.0.0.1:1/", "127.0.0.1:8080/").replace(" (os error 111)", "");
    Run { err, ..run }
}

/// Replaces patterns by the names of files, as a shell does.
fn expanded(line: &str) -> String {
    let word = |word: &str| match word.split_once("/*") {
        None => word.to_string(),
        Some((folder, pattern)) => {
            let part = pattern.trim_start_matches('*').split('*').next().unwrap_or_default();
            let files = fs::read_dir(root().join(folder)).expect("a folder").flatten();
            let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
            let mut names: Vec<String> = names.filter(|name| name.contains(part)).collect();
            names.sort();
            names.iter().map(|name| format!("{folder}/{name}")).collect::<Vec<_>>().join(" ")
        }
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
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
        let Some(output) = output(fake, page, &block, shown) else { continue };
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

/// The pages whose blocks are run here.
const PAGES: [&str; 10] = [
    "README.md",
    "docs/accounts.md",
    "docs/audit.md",
    "docs/clients.md",
    "docs/commands.md",
    "docs/estimate.md",
    "docs/examples.md",
    "docs/json.md",
    "docs/kubernetes.md",
    "docs/scenarios.md",
];

#[test]
fn pages_show_the_output_of_the_program() {
    let fake = Fake::fleet();
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in PAGES {
        let (blocks, differences) = check(page, &fake);
        checked += blocks;
        wrong.extend(differences);
    }
    assert!(wrong.is_empty(), "these lines are not in the output:\n{}", wrong.join("\n"));
    assert!(checked > 38, "only {checked} blocks were found");
}

/// Pages whose blocks other tests run, and those about the API, which no test runs yet.
const ELSEWHERE: [&str; 4] =
    ["docs/api.md", "docs/kubernetes-install.md", "docs/schedulerlog.md", "docs/tutorial.md"];

#[test]
fn every_page_with_a_console_block_is_run() {
    let mut missing = Vec::new();
    for file in fs::read_dir(root().join("docs")).expect("pages").flatten() {
        let name = format!("docs/{}", file.file_name().to_string_lossy());
        let Ok(text) = fs::read_to_string(file.path()) else { continue };
        let is_known = PAGES.contains(&&*name) || ELSEWHERE.contains(&&*name);
        if text.contains("```console") && !is_known {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "no test runs {missing:?}");
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
