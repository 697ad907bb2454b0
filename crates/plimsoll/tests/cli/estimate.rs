//! `plimsoll estimate` on models, and on files that are none.

use std::fs;
use std::path::PathBuf;

use crate::golden::compare;
use crate::tool::{plimsoll, scratch};

const CONFIG: &str = "examples/models/qwen3-8b/config.json";

#[test]
fn a_config_is_estimated_and_a_device_judged() {
    for (name, options) in [
        ("models/qwen3-8b.estimate", ""),
        ("models/qwen3-8b.estimate-device", " --parallel 4 --device 24GiB"),
        ("models/qwen3-8b.estimate-two", " --context 8192 --gpus 2 --kv fp8"),
    ] {
        let line = format!("estimate {CONFIG}{options}");
        compare(name, &line, &plimsoll(&line));
    }
}

#[test]
fn the_exit_code_says_whether_it_fits() {
    let line = format!("estimate {CONFIG} --context 4096 -o json");
    let sheet = plimsoll(&line).json(0);
    assert_eq!((&sheet["schema_version"], &sheet["device"]), (&2.into(), &serde_json::Value::Null));
    let parts = ["weights", "kv", "compute", "fixed", "reserve"];
    let sum: u64 =
        parts.iter().map(|part| sheet["all"][part]["bytes"].as_u64().expect("bytes")).sum();
    assert_eq!(sheet["all"]["total"], sum);
    assert_eq!(sheet["all"]["weights"]["bytes"], 2_u64 * 8_190_735_360);
    assert_eq!(sheet["all"]["kv"]["bytes"], 576_u64 << 20);
    assert_eq!(sheet["all"]["weights"]["source"]["kind"], "computed");
    let fits = plimsoll(&format!("{line} --device 24GiB")).json(0);
    assert_eq!(fits["device"]["fits"], true);
    let not = plimsoll(&format!("{line} --device 16GiB")).json(1);
    assert_eq!(
        (&not["device"]["fits"], &not["device"]["longest_context"]),
        (&false.into(), &serde_json::Value::Null)
    );
}

#[test]
fn a_gguf_file_of_which_only_the_header_is_there_is_enough() {
    let path = gguf("header", "llama");
    let sheet = plimsoll(&format!("estimate {} -o json", path.display())).json(0);
    assert_eq!(sheet["settings"]["runtime"], "llama.cpp");
    assert_eq!(sheet["all"]["kv"]["bytes"], 2_u64 * 2 * 64 * 2 * 2 * 1024);
    assert!(
        sheet["remarks"][0].as_str().is_some_and(|remark| remark.contains("is not in the file")),
        "{sheet}"
    );
}

#[test]
fn what_is_unknown_is_an_error_that_names_the_field() {
    let path = gguf("unknown", "newarch");
    let run = plimsoll(&format!("estimate {}", path.display()));
    run.fails_with(&["the total is unknown", "a cache rule for the architecture newarch"]);
    assert!(run.out.contains("unknown"), "{}", run.out);
}

#[test]
fn files_and_settings_that_make_no_sense_are_named() {
    let dir = scratch("estimate-wrong");
    let text = dir.join("text.gguf");
    fs::write(&text, "hello, this is no model").expect("a file");
    plimsoll(&format!("estimate {}", text.display())).fails_with(&["text.gguf", "not a GGUF file"]);
    plimsoll("estimate no-such-file.gguf").fails_with(&["no-such-file.gguf", "local files only"]);
    plimsoll(&format!("estimate {CONFIG} --runtime ollama"))
        .fails_with(&["ollama reads GGUF files only"]);
    plimsoll(&format!("estimate {CONFIG} --gpus 3"))
        .fails_with(&["3 GPUs do not divide the model's 32"]);
    plimsoll(&format!("estimate {CONFIG} --kv q8_0"))
        .fails_with(&["vllm does not support KV cache type q8_0"]);
    let typo = plimsoll(&format!("estimate {CONFIG} --kv q9"));
    assert!(
        typo.code == Some(2) && typo.err.contains("unknown KV cache type `q9`"),
        "{}",
        typo.err
    );
}

/// A small GGUF header of two layers, without the data of its one tensor.
fn gguf(name: &str, architecture: &str) -> PathBuf {
    let text = |text: &str| {
        [(text.len() as u64).to_le_bytes().to_vec(), text.as_bytes().to_vec()].concat()
    };
    let numbers = [
        ("block_count", 2),
        ("context_length", 1024),
        ("embedding_length", 256),
        ("vocab_size", 100),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
        ("attention.key_length", 64),
        ("attention.value_length", 64),
    ];
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend((numbers.len() as u64 + 1).to_le_bytes());
    bytes.extend(
        [text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text(architecture)].concat(),
    );
    for (key, number) in numbers {
        bytes.extend(
            [text(&format!("{architecture}.{key}")), 4_u32.to_le_bytes().to_vec()].concat(),
        );
        bytes.extend(u32::to_le_bytes(number));
    }
    bytes.extend(text("token_embd.weight"));
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend([256_u64.to_le_bytes(), 100_u64.to_le_bytes()].concat());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    let path = scratch(&format!("estimate-{name}")).join("model.gguf");
    fs::write(&path, bytes).expect("a file");
    path
}
