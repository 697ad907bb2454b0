//! The order of the sources, and their disagreement.

use std::sync::Arc;

use plimsoll_core::units::Millis;
use plimsoll_models::config;
use plimsoll_models::estimate::Breakdown;

use super::*;

const GIB: u64 = 1 << 30;

fn model(rest: &str) -> Model {
    let context = if rest.contains("context:") { "" } else { "context: 4096\n" };
    let text = format!("name: m\nruntime: {{vllm: {{}}}}\nfile: /models/m\n{context}{rest}");
    serde_saphyr::from_str(&text).expect("a model")
}

fn measured(bytes: &[u64], rest: &str) -> BTreeMap<u16, Measured> {
    let settings = model(rest).declared().into();
    let bytes: Vec<Bytes> = bytes.iter().map(|bytes| Bytes::new(*bytes)).collect();
    let gpus = u16::try_from(bytes.len()).expect("few");
    let service = Service::Serving;
    BTreeMap::from([(
        gpus,
        Measured { bytes, at: Millis(5), settings, service, whole: Vec::new() },
    )])
}

fn files() -> BTreeMap<Name, FileContent> {
    let config = include_bytes!("../../../../examples/models/qwen3-8b/config.json");
    let shape = Arc::new(config::shape::read(&config[..]).expect("a config"));
    BTreeMap::from([("r".into(), FileContent::Model { shape })])
}

fn source(need: &Need) -> Option<Source> {
    need.charge.as_ref().ok().map(|(source, _)| *source)
}

fn estimated(files: &BTreeMap<Name, FileContent>) -> Breakdown {
    let need = need(&model(""), 1, MemoryFacts { files: Some(files), measured: None });
    need.estimated.expect("it is estimated").all
}

#[test]
fn a_declaration_precedes_a_measurement_and_that_an_estimate() {
    let files = files();
    let used = estimated(&files).total.expect("it is known").get() * 95 / 100;
    let measured = measured(&[used], "");
    let facts = MemoryFacts { measured: Some(&measured), files: Some(&files) };
    let declared = need(&model("memory: 9GiB"), 1, facts);
    assert_eq!(declared.charge, Ok((Source::Declared, vec![Size(Bytes::new(9 * GIB))])));
    let by_use = need(&model(""), 1, facts);
    assert_eq!(by_use.charge, Ok((Source::Measured, vec![Size(Bytes::new(used))])));
    let by_file = need(&model(""), 1, MemoryFacts { measured: None, ..facts });
    assert_eq!(source(&by_file), Some(Source::Estimated));
    let unknown = need(&model(""), 1, MemoryFacts::default()).charge.expect_err("it is unknown");
    assert_eq!(unknown.to_string(), "the memory of model m (no runner has /models/m)");
}

#[test]
fn a_context_beyond_the_trained_one_is_remarked() {
    let files = files();
    let facts = MemoryFacts { measured: None, files: Some(&files) };
    let need = need(&model("context: 65536"), 1, facts);
    let text = "context 65536 is longer than the 40960 tokens the model was trained for";
    assert_eq!(need.remarks(), [Remark::Estimate(text.to_string())]);
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
fn a_measurement_with_other_options_of_the_runtime_is_not_used() {
    let llama = |options: &str| -> Model {
        let text = format!("name: m\nruntime: {{llama_cpp: {{{options}}}}}\ncontext: 4096");
        serde_saphyr::from_str(&text).expect("a model")
    };
    let before = llama("model: /small.gguf, args: [--threads, '4'], ready_within: 5m");
    let bytes = vec![Bytes::new(7 * GIB)];
    let settings = ServingSettings::from(before.declared());
    let service = Service::Served;
    let measured =
        Measured { bytes, at: Millis(5), settings, service, whole: vec![Bytes::new(80 * GIB)] };
    let charged = |model: &Model, measured: &Measured| {
        let measured = BTreeMap::from([(1, measured.clone())]);
        need(model, 1, MemoryFacts { measured: Some(&measured), files: None })
    };
    let slower = llama("model: /small.gguf, args: [--threads, '4'], ready_within: 50m");
    assert_eq!(source(&charged(&slower, &measured)), Some(Source::Measured), "times do not matter");
    for (options, option) in [
        ("model: /large.gguf, args: [--threads, '4']", "model"),
        ("model: /small.gguf", "args"),
        ("model: /small.gguf, args: [--threads, '4'], ubatch: 2048", "ubatch"),
        ("model: /small.gguf, args: [--threads, '4'], flash_attention: false", "flash_attention"),
        ("model: /small.gguf, args: [--threads, '4'], program: /b", "program"),
        ("model: /small.gguf, args: [--threads, '4'], env: {A: b}", "env"),
    ] {
        let need = charged(&llama(options), &measured);
        assert_eq!(need.outdated, Some(SettingChange::Option { option }), "{options}");
        assert_eq!(source(&need), None, "{options}");
    }
    let mut old = measured;
    old.settings.options = None;
    assert_eq!(charged(&before, &old).outdated, Some(SettingChange::UnknownOptions));
}

#[test]
fn a_model_to_be_measured_takes_whole_gpus_until_a_client_has_used_a_slot() {
    let text = "name: m\nruntime: {command: {argv: [serve]}}\nmemory: measure";
    let model: Model = serde_saphyr::from_str(text).expect("a model");
    let at = |bytes: u64, service, whole: u64| {
        let settings = ServingSettings::from(model.declared());
        let (bytes, whole) = (vec![Bytes::new(bytes)], vec![Bytes::new(whole)]);
        let measured = Measured { bytes, at: Millis(5), settings, service, whole };
        let measured = BTreeMap::from([(1, measured)]);
        need(&model, 1, MemoryFacts { measured: Some(&measured), files: None })
    };
    assert!(need(&model, 1, MemoryFacts::default()).takes_whole_gpus());
    for (bytes, service, limit) in [
        (GIB, Service::Serving, MeasurementLimit::Served),
        (0, Service::Served, MeasurementLimit::AboveZero),
    ] {
        let need = at(bytes, service, 80 * GIB);
        assert!(need.takes_whole_gpus(), "{bytes}");
        assert_eq!(need.suspicious.map(|low| low.limit), Some(limit));
    }
    let sizes = |bytes| vec![Size(Bytes::new(bytes))];
    let charge = |used, whole| at(used, Service::Served, whole).charge;
    assert_eq!(charge(10 * GIB, 80 * GIB), Ok((Source::Measured, sizes(11 * GIB))), "a tenth more");
    assert_eq!(charge(79 * GIB, 80 * GIB), Ok((Source::Measured, sizes(80 * GIB))), "all there is");
}

#[test]
fn measurement_and_estimate_disagree_from_a_tenth_on() {
    let files = files();
    let estimated = estimated(&files).total.expect("it is known").get();
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
fn a_low_measurement_is_not_charged() {
    let files = files();
    let parts = estimated(&files);
    let total = parts.total.expect("it is known");
    let contents = parts.weights.bytes.zip(parts.kv.bytes).map(|(weights, kv)| weights.plus(kv));
    let contents = contents.expect("they are known");
    let below = Bytes::new(total.get() * 89 / 100);
    assert!(contents < below, "the limits differ");
    for (used, limit) in [
        (0, MeasurementLimit::AboveZero),
        (600 << 20, MeasurementLimit::Contents(contents)),
        (contents.get() - 1, MeasurementLimit::Contents(contents)),
        (below.get(), MeasurementLimit::Estimate(total)),
    ] {
        let measured = measured(&[used], "");
        let facts = MemoryFacts { measured: Some(&measured), files: Some(&files) };
        let need = need(&model(""), 1, facts);
        assert_eq!(need.charge, Ok((Source::Estimated, vec![Size(total)])), "{used}");
        let low = LowMeasurement { gpu: 0, measured: Bytes::new(used), limit };
        assert_eq!(need.remarks(), [Remark::Suspicious(low)], "{used}");
    }
    let measured = measured(&[600 << 20], "");
    let facts = MemoryFacts { measured: Some(&measured), files: Some(&files) };
    let text = need(&model(""), 1, facts).remarks()[0].to_string();
    assert!(
        text.starts_with("the measured 600 MiB on GPU 0 of a slot are not charged: "),
        "{text}"
    );
}

#[test]
fn each_gpu_must_hold_what_is_estimated_for_it() {
    let files = files();
    let model: Model = model("tensor_parallel: [2]");
    let without = MemoryFacts { files: Some(&files), measured: None };
    let estimate = need(&model, 2, without).estimated.expect("it is estimated");
    let each = estimate.gpus[0].total.expect("it is known").get();
    let mut measured = measured(&[2 * each, 600 << 20], "");
    measured.values_mut().for_each(|measured| measured.settings = model.declared().into());
    let low = need(&model, 2, MemoryFacts { measured: Some(&measured), ..without }).suspicious;
    assert_eq!(low.map(|low| low.gpu), Some(1), "the sum would be enough");
}

#[test]
fn a_reading_of_zero_without_a_file_leaves_the_memory_unknown() {
    let measured = measured(&[0], "");
    let need = need(&model(""), 1, MemoryFacts { measured: Some(&measured), files: None });
    assert!(need.charge.is_err() && need.suspicious.is_some());
}

#[test]
fn an_unsupported_file_makes_the_memory_unknown_with_its_problem() {
    let problem = "architecture `x` is not known".to_string();
    let files = BTreeMap::from([("r".into(), FileContent::Unsupported { problem })]);
    let need = need(&model(""), 1, MemoryFacts { files: Some(&files), measured: None });
    let unknown = need.charge.expect_err("it is unknown").to_string();
    assert!(unknown.contains("the file on r is not supported: architecture `x`"), "{unknown}");
}
