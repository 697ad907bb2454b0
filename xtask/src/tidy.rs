//! The rules of the house that no compiler knows, each with what to do about a violation.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::de::{DeTable, DeValue};

use crate::source::Source;

/// What a crate of ours may depend on among ours. A front end names no other, and nothing points back.
const LAYERS: &[(&str, &[&str])] = &[
    ("plimsoll-core", &[]),
    ("plimsoll-goldens", &[]),
    ("plimsoll-sim", &["plimsoll-core", "plimsoll-kube"]),
    ("plimsoll-kube", &["plimsoll-core"]),
    ("plimsoll-models", &["plimsoll-core"]),
    ("plimsoll-slots", &["plimsoll-core", "plimsoll-models"]),
    ("plimsoll-runner", &["plimsoll-core", "plimsoll-kube", "plimsoll-models", "plimsoll-slots"]),
    (
        "plimsoll",
        &[
            "plimsoll-core",
            "plimsoll-sim",
            "plimsoll-kube",
            "plimsoll-models",
            "plimsoll-slots",
            "plimsoll-runner",
        ],
    ),
];

/// More than this, and a reader no longer holds a file in the head.
const MOST_LINES: usize = 500;

const CORE: &str = "crates/plimsoll-core/src";

/// The parts of `std` that have no place in the core, and what stands in for them there.
const NOT_IN_CORE: &[(&str, &str)] = &[
    ("time", "time is an argument: take a `Millis`"),
    ("fs", "the core has no files: take the text or the value"),
    ("net", "the core has no network: return an effect"),
    ("env", "the core has no environment: take a parameter"),
    ("thread", "the core has no threads: the caller has"),
    ("process", "the core starts nothing: return an effect"),
];

/// The words that have no place in the core.
const NO_WORD_OF_CORE: &[(&str, &str)] = &[
    ("HashMap", "its order changes from run to run: use `BTreeMap`"),
    ("HashSet", "its order changes from run to run: use `BTreeSet`"),
    ("f32", "sums of floats depend on their order: use an integer with its unit in the type"),
    ("f64", "sums of floats depend on their order: use an integer with its unit in the type"),
];

/// Where a rule does not hold, and what to do about it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    file: PathBuf,
    line: usize,
    what: String,
}

impl Violation {
    fn at(source: &Source, offset: usize, what: String) -> Self {
        Violation { file: source.file.clone(), line: source.line(offset), what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Prints every violation in the workspace, and fails if there is one.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let violations = violations(workspace)?;
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => {
            println!("tidy: every rule holds");
            Ok(())
        }
        1 => bail!("1 rule does not hold"),
        n => bail!("{n} rules do not hold"),
    }
}

fn violations(workspace: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for manifest in files(workspace, "crates", |name| name == "Cargo.toml")? {
        found.extend(dependencies(&manifest, &read(workspace, &manifest)?)?);
    }
    let mut sources = Vec::new();
    for root in ["crates", "xtask", "fuzz"] {
        for file in files(workspace, root, |name| name.ends_with(".rs"))? {
            sources.push(Source::new(&file, read(workspace, &file)?));
        }
    }
    let tests = test_files(&sources);
    let is_test = |source: &Source| tests.iter().any(|test| source.file.starts_with(test));
    for source in &sources {
        found.extend(opening(source));
        if !is_test(source) {
            found.extend(length(source));
        }
    }
    let core: Vec<&Source> =
        sources.iter().filter(|s| s.file.starts_with(CORE) && !is_test(s)).collect();
    found.extend(reading_order(&core));
    found.extend(core.iter().flat_map(|source| purity(source)));
    found.sort();
    Ok(found)
}

/// A crate depends only on the layers below it. Tests may reach further, except those of the core.
fn dependencies(file: &Path, text: &str) -> Result<Vec<Violation>> {
    let manifest =
        DeTable::parse(text).with_context(|| format!("{} is no manifest", file.display()))?;
    let manifest = DeValue::Table(manifest.into_inner());
    let violation = |offset: usize, what: String| {
        let line = 1 + text[..offset].matches('\n').count();
        Violation { file: file.to_owned(), line, what }
    };
    let Some(name) = at(&manifest, &["package", "name"]).and_then(DeValue::as_str) else {
        return Ok(vec![violation(0, "this crate has no name: give `package.name`".to_owned())]);
    };
    let Some((_, below)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        let what = format!(
            "`{name}` has no place among the layers: add it to LAYERS in xtask/src/tidy.rs"
        );
        return Ok(vec![violation(0, what)]);
    };
    let mut tables = vec![&manifest];
    if let Some(targets) = at(&manifest, &["target"]).and_then(DeValue::as_table) {
        tables.extend(targets.iter().map(|(_, target)| target.get_ref()));
    }
    let mut found = Vec::new();
    for (kind, is_for_tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        let dependencies =
            tables.iter().filter_map(|t| at(t, &[kind])?.as_table()).flat_map(|d| d.iter());
        for (key, value) in dependencies {
            let dependency = at(value.get_ref(), &["package"])
                .and_then(DeValue::as_str)
                .unwrap_or(key.get_ref());
            let is_allowed =
                below.contains(&dependency) || (is_for_tests && name != "plimsoll-core");
            if is_ours(dependency) && !is_allowed {
                let what = format!(
                    "{name} must not depend on {dependency}: move what both need into a layer below, \
                     or what needs both into a layer above"
                );
                found.push(violation(key.span().start, what));
            }
        }
    }
    Ok(found)
}

fn is_ours(name: &str) -> bool {
    name == "plimsoll" || name.starts_with("plimsoll-") || name == "xtask"
}

fn at<'a, 'i>(value: &'a DeValue<'i>, path: &[&str]) -> Option<&'a DeValue<'i>> {
    path.iter().try_fold(value, |value, key| Some(value.get(*key)?.get_ref()))
}

/// A file opens with a sentence that says what is true here and nowhere else. A `main.rs` may do without.
fn opening(source: &Source) -> Option<Violation> {
    let doc = source.text.lines().map_while(|line| line.strip_prefix("//!").map(str::trim));
    let sentence: Vec<&str> = doc.take_while(|line| !line.is_empty()).collect();
    let what = match sentence.last() {
        Some(end) if end.ends_with(['.', ':']) => return None,
        Some(_) => "the opening is not a sentence: end it with a full stop",
        None if source.file.ends_with("main.rs") => return None,
        None => "open the file with a `//!` sentence that says what is true here and nowhere else",
    };
    Some(Violation {
        file: source.file.clone(),
        line: sentence.len().max(1),
        what: what.to_owned(),
    })
}

/// A file has at most so many lines beside its tests.
fn length(source: &Source) -> Option<Violation> {
    let lines = source.lines_outside_tests();
    (lines > MOST_LINES).then(|| Violation {
        file: source.file.clone(),
        line: MOST_LINES + 1,
        what: format!(
            "{lines} lines beside the tests, {MOST_LINES} are allowed: split it where a second subject begins"
        ),
    })
}

/// The modules of the core stand in `lib.rs` in reading order, and a module uses only those above it.
fn reading_order(core: &[&Source]) -> Vec<Violation> {
    let Some(lib) = core.iter().find(|source| source.file.ends_with("lib.rs")) else {
        return Vec::new();
    };
    let modules: Vec<&str> = lib.code.lines().filter_map(declared_module).collect();
    let place = |name: &str| modules.iter().position(|module| *module == name);
    let mut found = Vec::new();
    for source in core {
        let Some((module, depth)) = module_of(&source.file) else {
            continue;
        };
        let Some(own) = place(&module) else { continue };
        let mut refuse = |offset, what| found.push(Violation::at(source, offset, what));
        let from_root = source.named_below(&["crate"]).into_iter().map(|named| (named, true));
        let from_here =
            source.named_below(&vec!["super"; depth]).into_iter().map(|named| (named, false));
        for ((offset, name), is_from_root) in from_root.chain(from_here) {
            match place(name) {
                Some(other) if other > own => refuse(
                    offset,
                    format!(
                        "`{module}` uses `{name}`, which stands below it in lib.rs: \
                         move what both need above both, or hand it in as an argument"
                    ),
                ),
                None if is_from_root => refuse(
                    offset,
                    format!(
                        "`crate::{name}` hides the module it comes from: write `crate::<module>::{name}`"
                    ),
                ),
                _ => {}
            }
        }
    }
    found
}

/// The name in `pub mod name;`.
fn declared_module(line: &str) -> Option<&str> {
    let declaration = line.trim().strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then(|| name.trim())
}

/// The module of the core that a file belongs to, and how many `super` lead from there to the root.
fn module_of(file: &Path) -> Option<(String, usize)> {
    let inside = file.strip_prefix(CORE).ok()?.with_extension("");
    let mut parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    let module = parts.first().filter(|module| **module != "lib")?;
    Some(((*module).to_owned(), parts.len()))
}

/// The core has no clock, no I/O, no order of chance and no floats.
fn purity(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut refuse = |offset, what| found.push(Violation::at(source, offset, what));
    for (offset, name) in source.named_below(&["std"]) {
        if let Some((_, instead)) = NOT_IN_CORE.iter().find(|(part, _)| *part == name) {
            refuse(offset, format!("`std::{name}` in the core: {instead}"));
        }
    }
    for (word, instead) in NO_WORD_OF_CORE {
        for offset in source.words(word) {
            refuse(offset, format!("`{word}` in the core: {instead}"));
        }
    }
    for offset in float_literals(&source.code) {
        refuse(offset, "a float in the core: use an integer with its unit in the type".to_owned());
    }
    found
}

/// Where `1.5`, `1f64` and the like begin. `pair.0.1` is none, and neither is `1..5`.
fn float_literals(code: &str) -> Vec<usize> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = |at: &usize| {
        let before = code[..*at].chars().next_back();
        code[*at..].starts_with(|c: char| c.is_ascii_digit())
            && !before.is_some_and(|c| is_word(c) || c == '.')
    };
    let is_float = |at: &usize| {
        let number = &code[*at..];
        let end = number.find(|c| !is_word(c)).unwrap_or(number.len());
        let (whole, rest) = number.split_at(end);
        let has_fraction =
            rest.strip_prefix('.').is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()));
        let is_hex = whole.starts_with("0x");
        has_fraction || (!is_hex && (whole.ends_with("f32") || whole.ends_with("f64")))
    };
    (0..code.len())
        .filter(|at| code.is_char_boundary(*at))
        .filter(begins)
        .filter(is_float)
        .collect()
}

/// The files and folders that are tests from end to end.
fn test_files(sources: &[Source]) -> BTreeSet<PathBuf> {
    let mut tests = BTreeSet::new();
    for source in sources {
        if let Some(folder) = source.file.ancestors().find(|folder| folder.ends_with("tests")) {
            tests.insert(folder.to_owned());
        }
        let is_root =
            ["lib.rs", "main.rs", "mod.rs"].iter().any(|root| source.file.ends_with(root));
        let below =
            if is_root { source.file.with_file_name("") } else { source.file.with_extension("") };
        for module in &source.test_modules {
            tests.insert(below.join(module));
            tests.insert(below.join(module).with_extension("rs"));
        }
    }
    tests
}

/// The files below `root` whose name is wanted, relative to the workspace, in order.
fn files(workspace: &Path, root: &str, is_wanted: fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(root)];
    while let Some(folder) = folders.pop() {
        let path = workspace.join(&folder);
        if !path.is_dir() {
            continue;
        }
        let entries =
            fs::read_dir(&path).with_context(|| format!("could not list {}", path.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("could not list {}", path.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.path().is_dir() {
                true if name != "target" => folders.push(folder.join(name)),
                false if is_wanted(&name) => found.push(folder.join(name)),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read(workspace: &Path, file: &Path) -> Result<String> {
    fs::read_to_string(workspace.join(file))
        .with_context(|| format!("could not read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_holds() {
        let workspace =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace");
        let violations = violations(workspace).expect("the workspace can be read");
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(list.is_empty(), "\n{}\n", list.join("\n"));
    }

    fn source(file: &str, text: &str) -> Source {
        Source::new(Path::new(file), text.to_owned())
    }

    fn lines(violations: impl IntoIterator<Item = Violation>) -> Vec<usize> {
        violations.into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_crate_depends_only_on_the_layers_below() {
        let check =
            |text: &str| lines(dependencies(Path::new("Cargo.toml"), text).expect("it is TOML"));
        let package = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}");
        let fine: [usize; 0] = [];
        assert_eq!(
            check(&package(
                "plimsoll-kube",
                "[dependencies]\nserde.workspace = true\nplimsoll-core.workspace = true"
            )),
            fine
        );
        assert_eq!(
            check(&package(
                "plimsoll-kube",
                "[dependencies]\nserde = \"1\"\nplimsoll-sim.workspace = true"
            )),
            [5]
        );
        assert_eq!(
            check(&package("plimsoll-kube", "[dev-dependencies]\nplimsoll-sim.workspace = true")),
            fine
        );
        assert_eq!(
            check(&package("plimsoll-core", "[dev-dependencies]\nplimsoll-sim.workspace = true")),
            [4]
        );
        assert_eq!(
            check(&package("plimsoll-core", "[dependencies.renamed]\npackage = \"plimsoll\"")),
            [3]
        );
        assert_eq!(
            check(&package("plimsoll-sim", "[target.'cfg(unix)'.dependencies]\nplimsoll = \"1\"")),
            [4]
        );
        assert_eq!(check(&package("plimsoll-new", "")), [1]);
    }

    #[test]
    fn a_file_opens_with_a_sentence() {
        let check = |file: &str, text: &str| lines(opening(&source(file, text)));
        let fine: [usize; 0] = [];
        assert_eq!(check("a.rs", "//! One sentence\n//! on two lines.\n//!\n//! More\n"), fine);
        assert_eq!(check("a.rs", "//! No sentence\n\nfn a() {}\n"), [1]);
        assert_eq!(check("a.rs", "use a;\n"), [1]);
        assert_eq!(check("main.rs", "use a;\n"), fine);
    }

    #[test]
    fn tests_do_not_make_a_file_long() {
        let code = "\n".repeat(MOST_LINES);
        assert_eq!(
            length(&source("a.rs", &format!("{code}#[cfg(test)]\nmod tests {{\n}}\n"))),
            None
        );
        assert_eq!(lines(length(&source("a.rs", &format!("{code}\n")))), [MOST_LINES + 1]);
    }

    #[test]
    fn a_module_uses_only_those_above() {
        let lib = source(
            "crates/plimsoll-core/src/lib.rs",
            "pub mod a;\n\npub(crate) mod b;\nmod c;\npub use a::A;\n",
        );
        let check = |file: &str, text: &str| {
            let file = source(&format!("{CORE}/{file}"), text);
            lines(reading_order(&[&lib, &file]))
        };
        let fine: [usize; 0] = [];
        assert_eq!(check("b.rs", "use crate::a::A;\nuse crate::b::B;\n"), fine);
        assert_eq!(check("b.rs", "use crate::{a::A,\n  c::C};\n"), [2]);
        assert_eq!(check("b.rs", "fn b() { super::c::d() }\n"), [1]);
        assert_eq!(check("b/more.rs", "use super::B;\nuse super::super::c::C;\n"), [2]);
        assert_eq!(check("b.rs", "use crate::A;\n"), [1]);
        assert_eq!(
            check("a.rs", "//! See [`crate::c`].\n#[cfg(test)]\nmod tests { use crate::c::C; }\n"),
            fine
        );
    }

    #[test]
    fn the_core_is_pure() {
        let check = |text: &str| lines(purity(&source("a.rs", text)));
        let fine: [usize; 0] = [];
        assert_eq!(check("use std::{fmt,\n  fs, time::Duration};\n"), [2, 2]);
        assert_eq!(check("fn a() -> std::time::Instant {}\n"), [1]);
        assert_eq!(check("use std::collections::HashMap;\nstruct A(f64);\n"), [1, 2]);
        assert_eq!(
            check("let a = 1.5;\nlet b = 2f32;\nlet c = x.0.1 + 0xf64;\nfor _ in 1..5 {}\n"),
            [1, 2]
        );
        assert_eq!(
            check("// an f64\nconst A: &str = \"std::fs\";\n#[cfg(test)]\nuse std::fs;\n"),
            fine
        );
    }

    #[test]
    fn test_files_are_known() {
        let sources = [
            source("crates/a/tests/more/b.rs", ""),
            source("crates/a/src/c.rs", "#[cfg(test)]\nmod model;\n"),
            source("crates/a/src/lib.rs", "#[cfg(test)]\nmod d;\n"),
        ];
        let tests = test_files(&sources);
        for file in [
            "crates/a/tests/more/b.rs",
            "crates/a/src/c/model.rs",
            "crates/a/src/c/model/e.rs",
            "crates/a/src/d.rs",
        ] {
            assert!(tests.iter().any(|test| Path::new(file).starts_with(test)), "{file} is a test");
        }
        assert!(!tests.iter().any(|test| Path::new("crates/a/src/c.rs").starts_with(test)));
    }
}
