//! Inside a crate: modules in reading order, and pure crates without clock, I/O or chance.

use std::path::Path;

use super::Violation;
use super::source::Source;

/// Crates whose `lib.rs` lists the modules in reading order: each uses only those above it. The
/// crates that do I/O are not listed: their modules call each other both ways across threads.
const ORDERED: &[&str] =
    &["plimsoll-core", "plimsoll-goldens", "plimsoll-kube", "plimsoll-models", "plimsoll-slots"];

/// Crates without clock, files, network, environment, threads and processes, with the words of
/// [`UNSTABLE`] that are allowed there.
const PURE: &[(&str, &[&str])] = &[
    ("plimsoll-core", &[]),
    // JSON and YAML have floats, and a deserializer has to accept one to reject it.
    ("plimsoll-kube", &["f32", "f64"]),
    ("plimsoll-slots", &[]),
    ("plimsoll-sim", &[]),
];

/// Words that make two runs differ, and what to use instead.
const UNSTABLE: &[(&str, &str)] = &[
    ("HashMap", "its order changes from run to run, use `BTreeMap`"),
    ("HashSet", "its order changes from run to run, use `BTreeSet`"),
    ("f32", "sums of floats depend on their order, use an integer with its unit in the type"),
    ("f64", "sums of floats depend on their order, use an integer with its unit in the type"),
];

/// The parts of `std` that a pure crate does not use, and what it does instead.
const IMPURE: &[(&str, &str)] = &[
    ("time", "take the time as an argument of type `Millis`"),
    ("fs", "take the text or the value as an argument"),
    ("net", "return an effect"),
    ("env", "take a parameter"),
    ("thread", "leave threads to the caller"),
    ("process", "return an effect"),
];

/// Reports every use of a module that is listed below the user's own in `lib.rs`.
pub(super) fn reading_order(sources: &[&Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for name in ORDERED {
        let root = Path::new("crates").join(name).join("src");
        let Some(lib) = sources.iter().find(|source| source.file == root.join("lib.rs")) else {
            continue;
        };
        for source in sources {
            if let Some((module, depth)) = module_of(&root, &source.file) {
                found.extend(uses_below(source, &lib.modules, &module, depth));
            }
        }
    }
    found
}

fn uses_below(source: &Source, modules: &[String], module: &str, depth: usize) -> Vec<Violation> {
    let position = |name: &str| modules.iter().position(|listed| listed == name);
    let Some(own) = position(module) else { return Vec::new() };
    let from_root = source.names_below(&["crate"]).into_iter().map(|name| (name, Some("crate")));
    let supers = source.names_below(&vec!["super"; depth]).into_iter().map(|name| (name, None));
    let mut found = Vec::new();
    for (name, root) in from_root.chain(supers) {
        let used = &name.text;
        let what = match (position(used), root) {
            (Some(other), _) if other > own => format!(
                "`{module}` uses `{used}`, which is below it in lib.rs: move what both need above \
                 both, or pass it as an argument"
            ),
            (None, Some(_)) => {
                format!("`crate::{used}` hides its module: write `crate::<module>::{used}`")
            }
            _ => continue,
        };
        found.push(Violation::at("order", source, name.at, what));
    }
    found
}

/// Returns the top module a file belongs to, and how many `super` lead from the file to the root.
fn module_of(root: &Path, file: &Path) -> Option<(String, usize)> {
    let inside = file.strip_prefix(root).ok()?.with_extension("");
    let mut parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    let module = parts.first().filter(|module| **module != "lib")?;
    Some(((*module).to_owned(), parts.len()))
}

/// Reports impure parts of `std`, unstable words and floats in a pure crate.
pub(super) fn purity(source: &Source) -> Vec<Violation> {
    let is_member =
        |name: &str| source.file.starts_with(Path::new("crates").join(name).join("src"));
    let Some((pure, allowed)) = PURE.iter().find(|(name, _)| is_member(name)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for name in source.names_below(&["std"]) {
        if let Some((part, instead)) = IMPURE.iter().find(|(part, _)| *part == name.text) {
            let what = format!("`std::{part}` in {pure}, which is pure: {instead}");
            found.push(Violation::at("purity", source, name.at, what));
        }
    }
    let mut before = "";
    for token in &source.tokens {
        let word = if before != "." && is_float(&token.text) { "f64" } else { &token.text };
        let unstable = UNSTABLE.iter().find(|(unstable, _)| *unstable == word);
        if let Some((_, instead)) = unstable.filter(|_| !allowed.contains(&word))
            && !source.is_test(token.at)
        {
            let what = format!("`{}` in {pure}, which is pure: {instead}", token.text);
            found.push(Violation::at("purity", source, token.at, what));
        }
        before = &token.text;
    }
    found
}

/// Returns true for `1.5` and `1f64`. The lexer also reads the `0.1` of `pair.0.1` as a float.
fn is_float(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
        && !token.starts_with("0x")
        && (token.contains('.') || token.ends_with("f32") || token.ends_with("f64"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, source};
    use super::*;

    fn order(file: &str, text: &str) -> Vec<usize> {
        let root = "crates/plimsoll-core/src";
        let lib = source(&format!("{root}/lib.rs"), "pub mod a;\n\npub(crate) mod b;\nmod c;\n");
        let file = source(&format!("{root}/{file}"), text);
        lines(reading_order(&[&lib, &file]))
    }

    #[test]
    fn a_module_uses_only_those_above() {
        assert_eq!(order("b.rs", "use crate::a::A;\nuse crate::b::B;\n"), [0; 0]);
        assert_eq!(order("b.rs", "use crate::{a::A,\n  c::C};\n"), [2]);
        assert_eq!(order("b.rs", "fn b() { super::c::d() }\n"), [1]);
        assert_eq!(order("b/more.rs", "use super::B;\nuse super::super::c::C;\n"), [2]);
        assert_eq!(order("b.rs", "fn b() { write!(f, crate::c::D) }\n"), [1]);
        let test = "//! See [`crate::c`].\n#[cfg(test)]\nmod tests { use crate::c::C; }\n";
        assert_eq!(order("a.rs", test), [0; 0]);
    }

    #[test]
    fn a_path_names_its_module() {
        assert_eq!(order("b.rs", "use crate::A;\n"), [1]);
    }

    fn impure(text: &str) -> Vec<usize> {
        lines(purity(&source("crates/plimsoll-sim/src/a.rs", text)))
    }

    #[test]
    fn a_pure_crate_has_no_clock_and_no_files() {
        assert_eq!(impure("use std::{fmt,\n  fs, time::Duration};\n"), [2, 2]);
        assert_eq!(impure("fn a() -> std::time::Instant {}\n"), [1]);
        assert_eq!(impure("// std::fs\nconst A: &str = \"std::fs\";\n"), [0; 0]);
        assert_eq!(impure("#[cfg(test)]\nuse std::fs;\n"), [0; 0]);
        let outside = source("crates/plimsoll/src/a.rs", "use std::fs;\n");
        assert_eq!(lines(purity(&outside)), [0; 0]);
    }

    #[test]
    fn a_pure_crate_has_no_floats_and_no_random_order() {
        assert_eq!(impure("use std::collections::HashMap;\nstruct A(f64);\n"), [1, 2]);
        let numbers =
            "const A: B = 1.5;\nconst C: B = 2f32;\nfn d() { x.0.1 + 0xf64; 1..5; 3usize }\n";
        assert_eq!(impure(numbers), [1, 2]);
    }
}
