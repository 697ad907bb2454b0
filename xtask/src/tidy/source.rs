//! One Rust file as the rules see it: tokens, comments, functions, and the parts that are tests.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, FnArg, ImplItemFn, Item, Local, Pat, Signature, TraitItemFn, Type};

/// The facts of one file. Offsets and ranges are bytes of `text`.
#[derive(Default)]
pub(crate) struct Source {
    /// Relative to the workspace.
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    /// `//` comments, one range for comments that only whitespace separates.
    pub(crate) comments: Vec<Range<usize>>,
    /// Doc comments, one range per block of `///` or `//!` lines.
    pub(crate) docs: Vec<Range<usize>>,
    /// Functions outside tests.
    pub(crate) functions: Vec<Function>,
    /// Public items outside tests that have no doc comment.
    pub(crate) undocumented: Vec<(usize, String)>,
    /// Declared modules that are not tests, in order.
    pub(crate) modules: Vec<String>,
    /// Modules declared as `#[cfg(test)] mod name;`.
    pub(crate) test_modules: Vec<String>,
    tests: Vec<Range<usize>>,
    line_starts: Vec<usize>,
}

/// An identifier, a literal, a delimiter or one character of punctuation.
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) text: String,
}

impl Token {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }

    /// Returns true for string literals of every kind: `"…"`, `r#"…"#`, `b"…"`.
    pub(crate) fn is_string(&self) -> bool {
        self.text.trim_start_matches(['b', 'c', 'r', '#']).starts_with('"')
    }
}

/// One function, measured.
pub(crate) struct Function {
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) lines: usize,
    /// Parameters of type `bool`. Empty in an `impl Trait for`, where the trait decides.
    pub(crate) flags: Vec<String>,
    /// Closures that are bound to a name.
    pub(crate) closures: usize,
}

impl Source {
    pub(crate) fn parse(file: &Path, text: String) -> Result<Source> {
        // Spans are offsets into one buffer per thread, which would otherwise hold every file.
        proc_macro2::extra::invalidate_current_thread_spans();
        let failed = |error: String| anyhow!("cannot parse {}: {error}", file.display());
        let stream: TokenStream = text.parse().map_err(|error| failed(format!("{error}")))?;
        let syntax: syn::File =
            syn::parse2(stream.clone()).map_err(|error| failed(error.to_string()))?;
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut source = Source { file: file.to_owned(), text, line_starts, ..Source::default() };
        source.flatten(stream);
        source.find_comments();
        let mut items = Items { source: &mut source, open: Vec::new(), in_trait_impl: false };
        items.visit_file(&syntax);
        Ok(source)
    }

    /// Returns the line of an offset, counted from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    pub(crate) fn is_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|test| test.contains(&offset))
    }

    pub(crate) fn lines_outside_tests(&self) -> usize {
        let tests = self.tests.iter().map(|test| self.text[test.clone()].lines().count());
        self.text.lines().count() - tests.sum::<usize>()
    }

    /// Returns the names directly below a path, outside tests: `crate::a` and `crate::{b::C, d}`
    /// name `a`, `b` and `d` below `crate`. Reads tokens, because a syntax tree ends at a macro.
    pub(crate) fn names_below(&self, path: &[&str]) -> Vec<&Token> {
        let wanted: Vec<&str> = path.iter().flat_map(|segment| [*segment, ":", ":"]).collect();
        let mut names = Vec::new();
        for (start, window) in self.tokens.windows(wanted.len()).enumerate() {
            let is_path = window.iter().map(|token| token.text.as_str()).eq(wanted.iter().copied());
            if is_path && !self.continues_path(start) && !self.is_test(window[0].at) {
                names.extend(names_of_use_tree(&self.tokens[start + wanted.len()..]));
            }
        }
        names
    }

    /// Returns true for `b` in `a::b` and `A<B>::b`, but not in `::b`.
    fn continues_path(&self, index: usize) -> bool {
        match &self.tokens[..index] {
            [.., before, a, b] if a.text == ":" && b.text == ":" => {
                before.is_word() || before.text == ">"
            }
            _ => false,
        }
    }

    fn flatten(&mut self, stream: TokenStream) {
        for tree in stream {
            let range = tree.span().byte_range();
            // The tokens of a doc attribute all have the span of the comment.
            if is_comment(&self.text[range.clone()]) {
                self.add_doc_line(range);
            } else if let TokenTree::Group(group) = &tree {
                self.add_token(group.span_open().byte_range());
                self.flatten(group.stream());
                self.add_token(group.span_close().byte_range());
            } else {
                self.add_token(range);
            }
        }
    }

    fn add_token(&mut self, range: Range<usize>) {
        self.tokens.push(Token { at: range.start, text: self.text[range].to_owned() });
    }

    /// Adds a line to the block it continues, or opens a new block.
    fn add_doc_line(&mut self, line: Range<usize>) {
        if let Some(block) = self.docs.last_mut() {
            let is_same = line.start < block.end;
            let marker = |range: &Range<usize>| self.text[range.clone()].as_bytes().get(2).copied();
            let is_next = !is_same
                && self.text[block.end..line.start].matches('\n').count() == 1
                && self.text[block.end..line.start].trim().is_empty()
                && marker(block) == marker(&line);
            if is_same || is_next {
                block.end = line.end;
                return;
            }
        }
        self.docs.push(line);
    }

    /// Finds the comments that are no tokens: they stand in the gaps between tokens.
    fn find_comments(&mut self) {
        let tokens = self.tokens.iter().map(|token| token.at..token.at + token.text.len());
        let mut covered: Vec<Range<usize>> = tokens.chain(self.docs.iter().cloned()).collect();
        covered.push(self.text.len()..self.text.len());
        covered.sort_by_key(|range| range.start);
        let mut end = 0;
        for range in covered {
            let gap = &self.text[end..range.start];
            let comment = gap.trim();
            if is_comment(comment) {
                let start = end + gap.len() - gap.trim_start().len();
                self.comments.push(start..start + comment.len());
            }
            end = range.end;
        }
    }
}

fn is_comment(text: &str) -> bool {
    text.starts_with("//") || text.starts_with("/*")
}

/// Returns the names that a use tree begins with: `b` and `d` of `{b::C, d}`, `a` of `a::B`.
fn names_of_use_tree(tokens: &[Token]) -> Vec<&Token> {
    let Some(first) = tokens.first() else { return Vec::new() };
    if first.text != "{" {
        return if first.is_word() { vec![first] } else { Vec::new() };
    }
    let mut names = Vec::new();
    let mut depth = 0;
    for pair in tokens.windows(2) {
        match pair[0].text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(pair[0].text.as_str(), "{" | ",") && pair[1].is_word() {
            names.push(&pair[1]);
        }
    }
    names
}

/// Collects functions, undocumented items, modules and tests from a syntax tree.
struct Items<'a> {
    source: &'a mut Source,
    /// The functions around the current node, as indexes; the innermost is last.
    open: Vec<usize>,
    in_trait_impl: bool,
}

impl Items<'_> {
    fn add_function(&mut self, signature: &Signature, end: usize) {
        let at = signature.fn_token.span.byte_range().start;
        let flags = signature.inputs.iter().filter_map(bool_parameter);
        let function = Function {
            at,
            name: signature.ident.to_string(),
            lines: self.source.line(end) - self.source.line(at) + 1,
            flags: if self.in_trait_impl { Vec::new() } else { flags.collect() },
            closures: 0,
        };
        self.open.push(self.source.functions.len());
        self.source.functions.push(function);
    }

    fn require_doc(&mut self, attributes: &[Attribute], name: &syn::Ident) {
        if !attributes.iter().any(|attribute| attribute.path().is_ident("doc")) {
            let at = name.span().byte_range().start;
            self.source.undocumented.push((at, name.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = attributes(item);
        if is_test(attributes) {
            self.source.tests.push(item.span().byte_range());
            if let Item::Mod(module) = item
                && module.content.is_none()
            {
                self.source.test_modules.push(module.ident.to_string());
            }
            return;
        }
        match item {
            Item::Mod(module) if module.content.is_none() => {
                self.source.modules.push(module.ident.to_string());
            }
            _ => {
                if let Some(name) = documented_name(item) {
                    self.require_doc(attributes, name);
                }
            }
        }
        visit::visit_item(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.in_trait_impl, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.in_trait_impl = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        // A function inside a method of a trait impl has its own signature.
        let outer = std::mem::replace(&mut self.in_trait_impl, false);
        self.add_function(&item.sig, item.block.brace_token.span.close().byte_range().start);
        visit::visit_item_fn(self, item);
        self.open.pop();
        self.in_trait_impl = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if is_test(&item.attrs) {
            self.source.tests.push(item.span().byte_range());
            return;
        }
        if is_public(&item.vis) {
            self.require_doc(&item.attrs, &item.sig.ident);
        }
        self.add_function(&item.sig, item.block.brace_token.span.close().byte_range().start);
        visit::visit_impl_item_fn(self, item);
        self.open.pop();
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if is_public(&item.vis) {
            for member in &item.items {
                if let syn::TraitItem::Fn(function) = member {
                    self.require_doc(&function.attrs, &function.sig.ident);
                }
            }
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.add_function(&item.sig, item.span().byte_range().end);
        visit::visit_trait_item_fn(self, item);
        self.open.pop();
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let is_named = matches!(&local.pat, Pat::Ident(_) | Pat::Type(_));
        let is_closure =
            local.init.as_ref().is_some_and(|init| matches!(*init.expr, Expr::Closure(_)));
        if let (true, Some(function)) = (is_named && is_closure, self.open.last()) {
            self.source.functions[*function].closures += 1;
        }
        visit::visit_local(self, local);
    }
}

/// Returns the name of a public item that needs a doc comment. A `pub mod name;` has one in its
/// own file.
fn documented_name(item: &Item) -> Option<&syn::Ident> {
    let (visibility, name) = match item {
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Mod(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    is_public(visibility).then_some(name)
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns true for `#[cfg(test)]`, `#[cfg(all(test, …))]` and `#[test]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        _ => false,
    })
}

fn bool_parameter(input: &FnArg) -> Option<String> {
    let FnArg::Typed(parameter) = input else { return None };
    let Type::Path(path) = &*parameter.ty else { return None };
    let Pat::Ident(name) = &*parameter.pat else { return None };
    path.path.is_ident("bool").then(|| name.ident.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::parse(Path::new("a.rs"), text.to_owned()).expect("the snippet is Rust")
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        let source = source(concat!(
            "//! File.\n//! More.\n\n/// Item é.\nfn a<'x>() { // one\n    // two\n",
            "    let b = \"// no\" /* three */ + r#\"text\"# + 'x' + b'\\'';\n}\n// four"
        ));
        let texts = |ranges: &[Range<usize>]| -> Vec<String> {
            ranges.iter().map(|range| source.text[range.clone()].to_owned()).collect()
        };
        assert_eq!(texts(&source.docs), ["//! File.\n//! More.", "/// Item é."]);
        let comments = ["// one\n    // two", "/* three */", "// four"];
        assert_eq!(texts(&source.comments), comments);
        let strings: Vec<&str> =
            source.tokens.iter().filter(|t| t.is_string()).map(|t| t.text.as_str()).collect();
        assert_eq!(strings, ["\"// no\"", "r#\"text\"#"]);
    }

    #[test]
    fn tests_are_known() {
        let source = source(concat!(
            "fn a() {}\n#[cfg(test)]\nmod inside {\n  fn b() {}\n}\n#[cfg(test)]\nmod beside;\n",
            "mod c;\n#[test]\nfn d() {}\n"
        ));
        assert_eq!(source.lines_outside_tests(), 2);
        assert_eq!(source.test_modules, ["beside"]);
        assert_eq!(source.modules, ["c"]);
        assert_eq!(source.functions.len(), 1);
    }

    #[test]
    fn names_below_a_path_are_found() {
        let source = source(
            "use crate::a;\nuse crate::{b::{C, D}, e, f::G};\nfn x() { y!(crate::h::i + o::crate::no); }\n",
        );
        let found: Vec<(usize, &str)> = source
            .names_below(&["crate"])
            .into_iter()
            .map(|name| (source.line(name.at), name.text.as_str()))
            .collect();
        assert_eq!(found, [(1, "a"), (2, "b"), (2, "e"), (2, "f"), (3, "h")]);
    }

    #[test]
    fn functions_are_measured() {
        let source = source(concat!(
            "trait T { fn t(&self, on: bool); }\nimpl T for A { fn t(&self, on: bool) {\n",
            "fn inner(loud: bool) {}\nlet f = |x| x; let g: fn(u8) = |_| ();\nlet h = h; } }\n"
        ));
        let measured: Vec<(&str, usize, usize, usize)> = source
            .functions
            .iter()
            .map(|f| (f.name.as_str(), f.lines, f.flags.len(), f.closures))
            .collect();
        assert_eq!(measured, [("t", 1, 1, 0), ("t", 4, 0, 2), ("inner", 1, 1, 0)]);
    }

    #[test]
    fn public_items_without_docs_are_found() {
        let source = source(concat!(
            "/// Doc.\npub struct A { pub field: u8 }\npub struct B;\nstruct C;\npub(crate) enum D {}\n",
            "impl A { pub fn e() {} fn f() {} }\n/// Doc.\npub trait G { fn h(); }\npub mod i;\npub type J = u8;\n",
            "impl G for A { fn h() {} }\n#[cfg(test)]\npub fn k() {}\npub mod l {}\n"
        ));
        let names: Vec<&str> = source.undocumented.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["B", "e", "h", "J", "l"]);
    }
}
