//! The order of the sources, and their disagreement.

use std::sync::Arc;

use plimsoll_models::config;

use super::*;

const GIB: u64 = 1 << 30;

fn model(rest: &str) -> Model {
    let text = format!("name: m\nruntime: {{vllm: {{}}}}\nfile: /models/m\ncontext: 4096\n{rest}");
    serde_saphyr::from_str(&text).expect("a model")
}

fn measured(bytes: &[u64], rest: &str) -> BTreeMap<u16, Measured> {
    let settings = model(rest).declared().into();
    let bytes: Vec<Bytes> = bytes.iter().map(|bytes| Bytes::new(*bytes)).collect();
    let gpus = u16::try_from(bytes.len()).expect("few");
    BTreeMap::from([(gpus, Measured { bytes, at: Millis(5), settings })])
}

fn files() -> BTreeMap<Name, FileContent> {
    let config = include_bytes!("../../../../examples/models/qwen3-8b/config.json");
    let shape = Arc::new(config::shape::read(&config[..]).expect("a config"));
    BTreeMap::from([("r".into(), FileContent::Model { shape })])
}

fn source(need: &Need) -> Option<Source> {
    need.charge.as_ref().ok().map(|(source, _)| *source)
}

#[test]
fn a_declaration_precedes_a_measurement_and_that_an_estimate() {
    let (measured, files) = (measured(&[7 * GIB], ""), files());
    let facts = MemoryFacts { measured: Some(&measured), files: Some(&files) };
    let declared = need(&model("memory: 9GiB"), 1, facts);
    assert_eq!(declared.charge, Ok((Source::Declared, vec![Size(Bytes::new(9 * GIB))])));
    let by_use = need(&model(""), 1, facts);
    assert_eq!(by_use.charge, Ok((Source::Measured, vec![Size(Bytes::new(7 * GIB))])));
    let by_file = need(&model(""), 1, MemoryFacts { measured: None, ..facts });
    assert_eq!(source(&by_file), Some(Source::Estimated));
    let unknown = need(&model(""), 1, MemoryFacts::default()).charge.expect_err("it is unknown");
    assert_eq!(unknown.to_string(), "the memory of model m (no runner has /models/m)");
}

#[test]
fn a_measurement_with_other_settings_is_not_used() {
    let (measured, files) = (measured(&[7 * GIB], "kv: fp8"), files());
    let facts = MemoryFacts { measured: Some(&measured), files: Some(&files) };
    let need = need(&model("kv: f16"), 1, facts);
    assert_eq!(source(&need), Some(Source::Estimated));
    let change = need.outdated.clone().expect("the cache type was changed");
    assert_eq!(change.to_string(), "measured with kv fp8, but the model now has f16");
    assert_eq!(need.remarks(), [Remark::Outdated(change)], "different settings do not disagree");
}

#[test]
fn measurement_and_estimate_disagree_from_a_tenth_on() {
    let files = files();
    let by_file = need(&model(""), 1, MemoryFacts { files: Some(&files), measured: None });
    let estimated =
        by_file.estimated.and_then(|estimate| estimate.all.total).expect("it is known").get();
    for (used, disagrees) in [
        (estimated, false),
        (estimated * 11 / 10, false),
        (estimated * 12 / 10, true),
        (estimated * 8 / 10, true),
    ] {
        let measured = measured(&[used], "");
        let facts = MemoryFacts { measured: Some(&measured), files: Some(&files) };
        let need = need(&model(""), 1, facts);
        assert_eq!(need.disagreement().is_some(), disagrees, "{used} of {estimated}");
        assert_eq!(!need.remarks().is_empty(), disagrees);
    }
}

#[test]
fn an_unsupported_file_makes_the_memory_unknown_with_its_problem() {
    let problem = "architecture `x` is not known".to_string();
    let files = BTreeMap::from([("r".into(), FileContent::Unsupported { problem })]);
    let need = need(&model(""), 1, MemoryFacts { files: Some(&files), measured: None });
    let unknown = need.charge.expect_err("it is unknown").to_string();
    assert!(unknown.contains("the file on r is not supported: architecture `x`"), "{unknown}");
}
