//! All flags against a real `llama-server`, if `PLIMSOLL_LLAMA_SERVER` names one.

use std::collections::BTreeSet;
use std::process::Command;

use plimsoll_core::units::Bytes;

use super::*;
use crate::runtime::DeviceCharge;
use crate::runtime::overhead::Overhead;
use crate::settings::{RuntimeKind, Settings};

/// Flags that the parser knows and the help does not list.
const UNLISTED: &[&str] = &["--mtp", "--dflash", "--eagle3"];

fn spec(gpus: usize) -> LaunchSpec {
    let settings = Settings { gpus: gpus as u64, ..Settings::new(RuntimeKind::LlamaCpp, 4096) };
    LaunchSpec {
        program: None,
        model: "/nothing/is/here.gguf".to_string(),
        settings,
        devices: vec![DeviceCharge { charge: Bytes::gib(20), total: None }; gpus],
        memory: MemoryBasis::Known,
        overhead: Overhead::default_of(RuntimeKind::LlamaCpp),
        additions: AddedPaths {
            projector: Some("/no/projector.gguf".to_string()),
            adapters: vec!["/no/adapter.gguf".to_string()],
            draft: Some("/no/draft.gguf".to_string()),
        },
        heads: None,
        layers: LayerSplit::Equal,
    }
}

fn rendered(gpus: usize) -> Vec<String> {
    let command = render(&spec(gpus), &UserOptions::default()).expect("renders");
    let values = [("{host}", "127.0.0.1"), ("{port}", "0")];
    let replace = |word: &String| {
        values.iter().fold(word.clone(), |word, (name, value)| word.replace(name, value))
    };
    command.argv.iter().skip(1).map(replace).collect()
}

/// Returns the words of the help that look like flags.
fn known_flags(help: &str) -> BTreeSet<&str> {
    let words = help.split(|c: char| c.is_whitespace() || c == ',');
    words.filter(|word| word.starts_with('-')).collect()
}

#[test]
fn a_real_llama_server_knows_all_flags() {
    let Ok(program) = std::env::var("PLIMSOLL_LLAMA_SERVER") else { return };
    let help = Command::new(&program).arg("--help").output().expect("it starts");
    let help = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).into_owned();
    let known = known_flags(&help);
    let set = [0, 1, 2].map(rendered).concat();
    let set = set.iter().map(String::as_str).filter(|word| word.starts_with("--"));
    let reserved = FLAGS.iter().chain(ADDITIONS).flat_map(|row| row.names).copied();
    let missing: Vec<&str> = set
        .chain(reserved)
        .chain(CACHE_RAM.iter().copied())
        .filter(|flag| !known.contains(flag))
        .collect();
    assert_eq!(missing, UNLISTED, "not in the help of {program}");
}

#[test]
fn a_real_llama_server_accepts_the_rendered_flags() {
    let Ok(program) = std::env::var("PLIMSOLL_LLAMA_SERVER") else { return };
    let run = Command::new(&program).args(rendered(0)).output().expect("it starts");
    let output = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(!run.status.success(), "there is no such model");
    assert!(!output.contains("invalid argument"), "{output}");
    assert!(output.contains("/nothing/is/here.gguf"), "it tries to load the model: {output}");
}
