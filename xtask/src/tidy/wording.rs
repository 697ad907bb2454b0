//! Phrases that readers stumble over, with what to write instead.

use std::path::Path;

use super::Violation;
use super::source::Source;

/// A phrase, and its replacement. Words match whole, in any case, also across line breaks.
const BANNED: &[(&str, &str)] = &[
    ("anew", "again"),
    ("anybody", "name the subject: any client, any request"),
    ("anyone", "name the subject: any client, any request"),
    ("are told", "receive, are notified"),
    ("asked to go", "being evicted, being stopped"),
    ("asked to leave", "being evicted, being stopped"),
    ("at hand", "available"),
    ("does not do", "is invalid, is not supported"),
    ("everybody", "name the subject: all clients, all requests"),
    ("everyone", "name the subject: all clients, all requests"),
    ("gave up", "stopped waiting, was evicted, released"),
    ("give up", "stop waiting, be evicted, release"),
    ("gives up", "deadline, stops waiting"),
    ("giving up", "stopping, releasing"),
    ("goes by", "passes, depends on, is called"),
    ("hopeless", "impossible"),
    ("in few words", "as a summary"),
    ("is back", "is released, is online again"),
    ("is told", "receives, is notified"),
    ("let it go", "release it, evict it"),
    ("lets it go", "releases it, evicts it"),
    ("may go", "evictable, can be evicted"),
    ("may not go", "not evictable"),
    ("mended", "fixed, repaired"),
    ("no one", "name the subject: no client, no request; or say what is missing"),
    ("nobody", "name the subject: no client, no request; or say what is missing"),
    ("of late", "recently"),
    ("one who", "name the subject: a client that, a request that"),
    ("refusal", "rejection; for a request that is not placed: pending, impossible"),
    ("refused", "rejected; for a request that is not placed: pending, impossible"),
    ("senseless", "invalid"),
    ("so leaves", "put the verb after its subject"),
    ("so long", "while, as long as, this long"),
    ("so many", "this many, the number of"),
    ("so much", "this much, the amount of"),
    ("somebody", "name the subject: a client, a request, an operator"),
    ("someone", "name the subject: a client, a request, an operator"),
    ("stands", "is, remains, applies, represents"),
    ("the one that", "name the subject: the node that, the client that"),
    ("those who", "name the subject: clients that, requests that"),
    ("was told", "received, was notified"),
    ("were told", "received, were notified"),
    ("who asks", "the client, the caller, the request"),
    ("who waits", "pending requests, waiting clients"),
    ("whoever", "name the subject: the client that, the caller that"),
];

/// Names of types that say nothing of the domain, with better ones.
const BANNED_TYPES: &[(&str, &str)] = &[
    ("Astray", "Uncounted"),
    ("Kept", "CachedDecision, a noun of the domain"),
    ("Leaning", "PlacementHints"),
    ("Manners", "DeskConfig"),
    ("Onlooker", "Observer"),
    ("Parts", "AppState, a noun of the domain"),
    ("Temper", "FaultProfile"),
    ("Told", "a noun of the domain"),
    ("Wishes", "DeviceSelector"),
];

/// Text where a banned word is a name or a term: the user of a process, an error of a socket, a key
/// of earlier versions.
const NAMES: &[&str] = &[
    "User=nobody",
    "nobody:nogroup",
    "`nobody`",
    "connection refused",
    "connection was refused",
    "Connection refused",
    "`refused[]`",
];

/// Checks comments, strings and function names of Rust source.
pub(super) fn in_source(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let comments = source.docs.iter().chain(&source.comments);
    let comments = comments.map(|range| (range.start, source.text[range.clone()].to_owned()));
    let strings = source.tokens.iter().filter(|token| token.is_string());
    // An escaped line break would join its letter to the next word.
    let strings = strings.map(|token| (token.at, token.text.replace("\\n", "  ")));
    let names = source.tokens.windows(2).filter(|pair| pair[0].text == "fn");
    let names = names.map(|pair| (pair[1].at, pair[1].text.replace('_', " ")));
    for (at, text) in comments.chain(strings).chain(names) {
        for (offset, what) in banned(&text) {
            found.push(Violation::at("wording", source, at + offset, what));
        }
    }
    let types =
        source.tokens.windows(2).filter(|pair| ["enum", "struct"].contains(&&*pair[0].text));
    for name in types.map(|pair| &pair[1]) {
        if let Some((banned, instead)) =
            BANNED_TYPES.iter().find(|(banned, _)| name.text == *banned)
        {
            let what = format!("type `{banned}`: name it {instead}");
            found.push(Violation::at("wording", source, name.at, what));
        }
    }
    found
}

/// Checks a text file as a whole.
pub(super) fn in_text(file: &Path, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (offset, what) in banned(text) {
        let line = 1 + text[..offset].matches('\n').count();
        found.push(Violation::new("wording", file, line, what));
    }
    found
}

fn banned(text: &str) -> Vec<(usize, String)> {
    let words = words(text);
    let mut found = Vec::new();
    for (index, (offset, word)) in words.iter().enumerate() {
        let initial = word.as_bytes()[0].to_ascii_lowercase();
        for (phrase, instead) in BANNED.iter().filter(|(phrase, _)| phrase.as_bytes()[0] == initial)
        {
            if begins_with(text, &words[index..], phrase) && !is_name(text, *offset) {
                found.push((*offset, format!("\"{phrase}\": write {instead}")));
            }
        }
    }
    found
}

fn words(text: &str) -> Vec<(usize, &str)> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let mut words: Vec<(usize, &str)> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_letter) {
        let word = &rest[start..];
        let end = word.find(|c| !is_letter(c)).unwrap_or(word.len());
        words.push((text.len() - word.len(), &word[..end]));
        rest = &word[end..];
    }
    words
}

/// Returns true if the words begin with the phrase, with nothing but space between them. A comment
/// marker or a line continuation in a string counts as space.
fn begins_with(text: &str, words: &[(usize, &str)], phrase: &str) -> bool {
    let mut end = None;
    for (index, wanted) in phrase.split(' ').enumerate() {
        let Some((offset, word)) = words.get(index) else { return false };
        let gap = &text[end.unwrap_or(*offset)..*offset];
        let is_space =
            gap.trim_matches([' ', '\n', '\t', '\r', '/', '!', '\\', '#', '>']).is_empty();
        if !is_space || !word.eq_ignore_ascii_case(wanted) {
            return false;
        }
        end = Some(offset + word.len());
    }
    true
}

fn is_name(text: &str, offset: usize) -> bool {
    NAMES
        .iter()
        .flat_map(|name| text.match_indices(name))
        .any(|(at, name)| (at..at + name.len()).contains(&offset))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, source};
    use super::*;

    #[test]
    fn phrases_are_found_in_comments_strings_and_names() {
        let text = "//! Nobody.\n\n/// Lasts so\n/// long as b.\nfn somebody_waits() {\n    // At hand.\n    c(\"is \\\n told\");\n}\n";
        assert_eq!(lines(in_source(&source("a.rs", text))), [1, 3, 5, 6, 7]);
    }

    #[test]
    fn whole_words_and_names_only() {
        let text = "//! Renewed; may. Go, at handover.\n\nfn a() { let nobody = \"\\nobody\"; }\n";
        assert_eq!(lines(in_source(&source("a.rs", text))), [0; 0]);
        let unit = "[Service]\nUser=nobody\n# nobody reads it\n";
        assert_eq!(lines(in_text(Path::new("a.service"), unit)), [3]);
    }

    #[test]
    fn a_violation_names_the_replacement() {
        let found = in_text(Path::new("a.md"), "Written anew.\n");
        assert_eq!(found[0].to_string(), "a.md:1: wording: \"anew\": write again");
    }

    #[test]
    fn types_have_names_of_the_domain() {
        let text = "//! A.\n\nstruct Told;\nenum Wishes { Parts }\nstruct Toldest;\n";
        assert_eq!(lines(in_source(&source("a.rs", text))), [3, 4]);
    }

    #[test]
    fn the_table_is_sorted_and_in_lower_case() {
        assert!(BANNED.is_sorted_by_key(|(phrase, _)| phrase));
        assert!(BANNED.iter().all(|(phrase, _)| *phrase == phrase.to_lowercase()));
    }
}
