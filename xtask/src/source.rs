//! Rust source as the rules see it: comments, literals and test items blanked out, all else where it was.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file. `code` has as many bytes and lines as `text`, so that an offset in one is an offset in the other.
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    pub(crate) code: String,
    /// What stands under `#[cfg(test)]`.
    pub(crate) tests: Vec<Range<usize>>,
    /// The modules declared as `#[cfg(test)] mod name;`, whose files are tests too.
    pub(crate) test_modules: Vec<String>,
}

impl Source {
    pub(crate) fn new(file: &Path, text: String) -> Self {
        let mut code = without_comments_and_literals(&text);
        let tests = test_items(&code);
        let test_modules =
            tests.iter().filter_map(|item| outline_module(&code[item.clone()])).collect();
        for item in &tests {
            blank(&mut code, item.clone());
        }
        let code = String::from_utf8(code).expect("only whole literals and comments are blanked");
        Source { file: file.to_owned(), text, code, tests, test_modules }
    }

    /// The line, from 1, that the byte at `offset` stands on.
    pub(crate) fn line(&self, offset: usize) -> usize {
        1 + self.text[..offset].matches('\n').count()
    }

    /// How many lines are not tests.
    pub(crate) fn lines_outside_tests(&self) -> usize {
        let tested: usize =
            self.tests.iter().map(|item| self.text[item.clone()].lines().count()).sum();
        self.text.lines().count() - tested
    }

    /// Where `word` stands on its own.
    pub(crate) fn words(&self, word: &str) -> Vec<usize> {
        let alone = |at: &usize| {
            let before = self.code[..*at].bytes().next_back();
            let after = self.code[at + word.len()..].bytes().next();
            ![before, after].into_iter().flatten().any(is_word)
        };
        self.code.match_indices(word).map(|(at, _)| at).filter(alone).collect()
    }

    /// What is named right below a path: `crate::a`, `crate::{b::C, d}` name `a`, `b` and `d` below `crate`.
    pub(crate) fn named_below(&self, path: &[&str]) -> Vec<(usize, &str)> {
        let starts = self.words(path[0]).into_iter().filter(|at| !self.is_inside_a_path(*at));
        starts.flat_map(|at| self.named_at(at, path)).collect()
    }

    fn is_inside_a_path(&self, at: usize) -> bool {
        let before = self.code[..at].trim_end();
        before
            .strip_suffix("::")
            .is_some_and(|b| b.bytes().last().is_some_and(|c| is_word(c) || c == b'>'))
    }

    fn named_at(&self, at: usize, path: &[&str]) -> Vec<(usize, &str)> {
        let mut rest = &self.code[at..];
        for segment in path {
            let below = rest.strip_prefix(segment).and_then(|r| r.trim_start().strip_prefix("::"));
            let Some(below) = below else { return Vec::new() };
            rest = below.trim_start();
        }
        let begin = self.code.len() - rest.len();
        if !rest.starts_with('{') {
            return self.word_at(begin).into_iter().collect();
        }
        let mut depth = 0;
        let mut item_begins = false;
        let mut names = Vec::new();
        for (i, c) in rest.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            match c {
                _ if depth == 0 => break,
                '{' | ',' if depth == 1 => item_begins = true,
                c if item_begins && !c.is_whitespace() => {
                    item_begins = false;
                    names.extend(self.word_at(begin + i));
                }
                _ => {}
            }
        }
        names
    }

    fn word_at(&self, at: usize) -> Option<(usize, &str)> {
        let rest = &self.code[at..];
        let end = rest.bytes().position(|c| !is_word(c)).unwrap_or(rest.len());
        (end > 0).then(|| (at, &rest[..end]))
    }
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

fn blank(code: &mut [u8], range: Range<usize>) {
    for byte in &mut code[range] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn without_comments_and_literals(text: &str) -> Vec<u8> {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < text.len() {
        match comment_or_literal(text, at) {
            Some(end) => {
                blank(&mut code, at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends, if one does.
fn comment_or_literal(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let found = match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            rest.iter().position(|c| *c == b'\n').unwrap_or(rest.len())
        }
        b'/' if rest.starts_with(b"/*") => block_comment(rest),
        b'"' => quoted(rest, b'"'),
        b'r' if begins_a_token(bytes, at) => raw_string(rest)?,
        b'\'' if rest.get(1) == Some(&b'\\') => quoted(rest, b'\''),
        b'\'' => {
            let char = text[at + 1..].chars().next()?;
            let end = 1 + char.len_utf8();
            // Without the second quote it is a lifetime.
            (rest.get(end) == Some(&b'\'')).then_some(end + 1)?
        }
        _ => return None,
    };
    Some(at + found)
}

/// Whether a word begins here, or only its `b` or `c` (of `br"…"`) stands before.
fn begins_a_token(bytes: &[u8], at: usize) -> bool {
    let word_before = |at: usize| at > 0 && is_word(bytes[at - 1]);
    !word_before(at) || (matches!(bytes[at - 1], b'b' | b'c') && !word_before(at - 1))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'#'; hashes + 1];
    end[0] = b'"';
    let body = &rest[hashes + 2..];
    let length =
        body.windows(end.len()).position(|w| w == end).map_or(body.len(), |p| p + end.len());
    Some(hashes + 2 + length)
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The items under `#[cfg(test)]`, from the attribute to the item's `;` or closing brace.
fn test_items(code: &[u8]) -> Vec<Range<usize>> {
    const MARK: &[u8] = b"#[cfg(test)]";
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(found) = code[at..].windows(MARK.len()).position(|w| w == MARK) {
        let start = at + found;
        at = item_end(code, start + MARK.len());
        items.push(start..at);
    }
    items
}

fn item_end(code: &[u8], start: usize) -> usize {
    let mut braces = 0;
    let mut others = 0;
    for (at, c) in code.iter().enumerate().skip(start) {
        match c {
            b'(' | b'[' => others += 1,
            b')' | b']' => others -= 1,
            b'{' => braces += 1,
            b'}' if braces == 1 => return at + 1,
            b'}' => braces -= 1,
            b';' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The name in `mod name;`.
fn outline_module(item: &[u8]) -> Option<String> {
    let item = std::str::from_utf8(item).ok()?;
    let name = item.strip_suffix(';')?.rsplit_once("mod ")?.1;
    name.bytes().all(is_word).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new(Path::new("a.rs"), text.to_owned())
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let source = source(concat!(
            "a // f64\n",
            "b /* f64 /* f64 */ f64 */\n",
            "c \"f64 \\\" f64\" br#\"f64 \" f64\"#\n",
            "d<'f64> 'x' '\\'' 'é' r#f64x\n",
        ));
        let words: Vec<&str> = source.code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c", "b", "d<'f64>", "r#f64x"]);
        assert_eq!(source.code.len(), source.text.len());
    }

    #[test]
    fn test_items_are_not_code() {
        let source = source(
            "fn a() {}\n#[cfg(test)]\nmod inside {\n  fn b() {}\n}\n#[cfg(test)]\nmod beside;\nfn c() {}\n",
        );
        let code: Vec<&str> = source.code.split_whitespace().collect();
        assert_eq!(code, ["fn", "a()", "{}", "fn", "c()", "{}"]);
        assert_eq!(source.test_modules, ["beside"]);
        assert_eq!(source.lines_outside_tests(), 2);
    }

    #[test]
    fn what_is_named_below_a_path_is_found() {
        let source = source(
            "use crate::a;\nuse crate::{b::{C, D}, e, f::G};\nlet x = $crate::h::i + other::crate::no;\n",
        );
        let found: Vec<(usize, &str)> = source
            .named_below(&["crate"])
            .into_iter()
            .map(|(at, name)| (source.line(at), name))
            .collect();
        assert_eq!(found, [(1, "a"), (2, "b"), (2, "e"), (2, "f"), (3, "h")]);
    }

    #[test]
    fn a_word_is_whole() {
        let source = source("f64 xf64 f64x f64, (f64)");
        assert_eq!(source.words("f64"), [0, 14, 20]);
    }
}
