//! Sizes of files and functions, and the doc comments of public items.

use super::Violation;
use super::source::Source;

/// The longest file that a reader can keep in mind, without its tests.
const FILE_LINES: usize = 500;

/// The longest function that fits a screen.
const FUNCTION_LINES: usize = 70;

/// Named closures in one function. More are helpers, and a helper is a function with a signature.
const NAMED_CLOSURES: usize = 2;

/// Width of comment lines; `rustfmt` holds code to the same.
const COMMENT_WIDTH: usize = 100;

/// Words that open a question, not a description.
const QUESTIONS: &[&str] = &["How", "What", "Where", "Whether", "Which", "Who", "Whose", "Why"];

/// Functions that may have a parameter of type `bool`: file, function, reason.
const FLAGS_ALLOWED: &[(&str, &str, &str)] =
    &[("crates/plimsoll/src/output.rs", "wanting", "converts a condition into the enum")];

/// Checks that a file opens with a sentence. A `main.rs` may do without.
pub(super) fn opening(source: &Source) -> Option<Violation> {
    let doc = source.text.lines().map_while(|line| line.strip_prefix("//!").map(str::trim));
    let sentence: Vec<&str> = doc.take_while(|line| !line.is_empty()).collect();
    let what = match sentence.last() {
        Some(end) if end.ends_with(['.', ':']) => return None,
        Some(_) => "the opening is not a sentence: end it with a full stop",
        None if source.file.ends_with("main.rs") => return None,
        None => "open the file with a `//!` sentence that says what belongs here and nowhere else",
    };
    Some(Violation::new("opening", &source.file, sentence.len().max(1), what.to_owned()))
}

/// Checks the length of a file without its tests.
pub(super) fn file_length(source: &Source) -> Option<Violation> {
    let lines = source.lines_outside_tests();
    let what = format!(
        "{lines} lines without tests, at most {FILE_LINES} are allowed: split it by subject"
    );
    (lines > FILE_LINES).then(|| Violation::new("file-length", &source.file, FILE_LINES + 1, what))
}

/// Checks length, flags and named closures of every function outside tests.
pub(super) fn functions(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for function in &source.functions {
        let name = &function.name;
        if function.lines > FUNCTION_LINES {
            let what = format!(
                "`{name}` has {} lines, at most {FUNCTION_LINES} are allowed: split it by step",
                function.lines
            );
            found.push(Violation::at("function-length", source, function.at, what));
        }
        if function.closures > NAMED_CLOSURES {
            let what = format!(
                "`{name}` names {} closures, at most {NAMED_CLOSURES} are allowed: make the helpers \
                 functions",
                function.closures
            );
            found.push(Violation::at("closures", source, function.at, what));
        }
        if !may_have_flags(source, name) {
            for flag in &function.flags {
                let what = format!(
                    "`{name}` has the boolean parameter `{flag}`: take an enum, or make two functions"
                );
                found.push(Violation::at("bool", source, function.at, what));
            }
        }
    }
    found
}

/// Chores and fuzz targets may have flags, and functions on the list.
fn may_have_flags(source: &Source, function: &str) -> bool {
    let is_listed = FLAGS_ALLOWED
        .iter()
        .any(|(file, name, _)| source.file.ends_with(file) && *name == function);
    is_listed || ["xtask", "fuzz"].iter().any(|b| source.file.starts_with(b))
}

/// Checks that public items are documented.
pub(super) fn docs(source: &Source) -> Vec<Violation> {
    let what = |name: &str| format!("`{name}` is public: add a doc comment");
    let missing = source.undocumented.iter();
    missing.map(|(at, name)| Violation::at("docs", source, *at, what(name))).collect()
}

/// Checks that no doc comment opens like a question.
pub(super) fn doc_openings(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for block in &source.docs {
        let text = source.text[block.clone()].trim_start_matches(['/', '!', '*']).trim_start();
        let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
        if QUESTIONS.contains(&&text[..end]) {
            let what = format!(
                "the doc comment opens with `{}`: open with a verb or a noun phrase, or delete it",
                &text[..end]
            );
            found.push(Violation::at("doc-opening", source, block.start, what));
        }
    }
    found
}

/// Checks the width of comment lines. A line with a URL or of a table cannot be wrapped.
pub(super) fn comment_width(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for comment in source.docs.iter().chain(&source.comments) {
        let first = source.line(comment.start);
        let start = comment.start - source.text[..comment.start].lines().last().map_or(0, str::len);
        for (index, line) in source.text[start..comment.end].lines().enumerate() {
            let width = line.chars().count();
            let is_fixed = line.contains("://") || line.trim_start().starts_with("/// |");
            if width > COMMENT_WIDTH && !is_fixed {
                let what = format!("{width} columns, at most {COMMENT_WIDTH}: wrap the comment");
                found.push(Violation::new("width", &source.file, first + index, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, source};
    use super::*;

    #[test]
    fn a_file_opens_with_a_sentence() {
        let check = |file: &str, text: &str| lines(opening(&source(file, text)));
        assert_eq!(check("a.rs", "//! One sentence\n//! on two lines.\n//!\n//! More\n"), [0; 0]);
        assert_eq!(check("a.rs", "//! No sentence\n\nfn a() {}\n"), [1]);
        assert_eq!(check("a.rs", "use a;\n"), [1]);
        assert_eq!(check("main.rs", "use a;\n"), [0; 0]);
    }

    #[test]
    fn tests_do_not_make_a_file_long() {
        let code = "\n".repeat(FILE_LINES);
        let tested = source("a.rs", &format!("{code}#[cfg(test)]\nmod tests {{\n}}\n"));
        assert_eq!(lines(file_length(&tested)), [0; 0]);
        assert_eq!(lines(file_length(&source("a.rs", &format!("{code}\n")))), [FILE_LINES + 1]);
    }

    fn of_function(body: &str) -> Vec<&'static str> {
        let library = source("crates/plimsoll-core/src/a.rs", body);
        functions(&library).into_iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn a_function_is_short() {
        let body = |lines: usize| format!("fn a() {{{}}}\n", "\n".repeat(lines - 1));
        assert_eq!(of_function(&body(FUNCTION_LINES)), [""; 0]);
        assert_eq!(of_function(&body(FUNCTION_LINES + 1)), ["function-length"]);
    }

    #[test]
    fn helpers_are_functions() {
        assert_eq!(of_function("fn a() { let b = |x| x; let c = || 1; d(|x| x); }"), [""; 0]);
        let three = "fn a() { let b = |x| x; let c = || { let d = |y| y; d(1) }; }";
        assert_eq!(of_function(three), ["closures"]);
    }

    #[test]
    fn a_crate_has_no_boolean_parameters() {
        assert_eq!(of_function("fn a(b: &bool, c: Option<bool>) -> bool {}"), [""; 0]);
        assert_eq!(of_function("impl A { fn a(&self, loud: bool) {} }"), ["bool"]);
        let binary = source("crates/plimsoll/src/a.rs", "fn a(loud: bool) {}");
        assert_eq!(lines(functions(&binary)), [1]);
        let chore = source("xtask/src/a.rs", "fn a(loud: bool) {}");
        assert_eq!(lines(functions(&chore)), [0; 0]);
    }

    #[test]
    fn public_items_have_docs() {
        let text = "/// A.\npub struct A;\npub enum B { C }\npub(crate) fn d() {}\n";
        assert_eq!(lines(docs(&source("a.rs", text))), [3]);
    }

    #[test]
    fn docs_do_not_open_with_a_question() {
        let text = "//! What it is.\n\n/// Returns a.\n/// Whether b.\nstruct A {\n    /// Who.\n    b: u8,\n}\n";
        assert_eq!(lines(doc_openings(&source("a.rs", text))), [1, 6]);
        assert_eq!(lines(doc_openings(&source("a.rs", "/// Whatever.\nfn a() {}"))), [0; 0]);
    }

    #[test]
    fn comments_are_wrapped() {
        let wide = "x".repeat(COMMENT_WIDTH);
        let text = format!(
            "/// A.\n/// {wide}\nfn a() {{\n    b(); // {wide}\n    // https://{wide}\n}}\n"
        );
        assert_eq!(lines(comment_width(&source("a.rs", &text))), [2, 4]);
        let code = format!("const A: &str = \"{wide}\";\n");
        assert_eq!(lines(comment_width(&source("a.rs", &code))), [0; 0]);
    }
}
