//! Who says what a model needs, and when two who say it disagree.

use plimsoll_models::config;

use super::*;

const GIB: u64 = 1 << 30;

fn model(rest: &str) -> Model {
    let text = format!("name: m\nruntime: {{vllm: {{}}}}\nfile: /models/m\ncontext: 4096\n{rest}");
    serde_saphyr::from_str(&text).expect("a model")
}

fn measured(bytes: &[u64], rest: &str) -> BTreeMap<u16, Measured> {
    let served = Served::of(model(rest).declared());
    let bytes: Vec<Bytes> = bytes.iter().map(|bytes| Bytes::new(*bytes)).collect();
    BTreeMap::from([(
        u16::try_from(bytes.len()).expect("few"),
        Measured { bytes, at: Millis(5), served },
    )])
}

fn found() -> BTreeMap<Name, Found> {
    let config = include_bytes!("../../../../examples/models/qwen3-8b/config.json");
    let shape = config::shape::read(&config[..]).expect("it can be read");
    BTreeMap::from([("r".into(), Found::Shape(Arc::new(shape)))])
}

fn source(need: &Need) -> Option<Source> {
    need.charge.as_ref().ok().map(|(source, _)| *source)
}

#[test]
fn what_is_declared_comes_before_what_was_measured_and_that_before_the_file() {
    let (measured, found) = (measured(&[7 * GIB], ""), found());
    let known = Known { measured: Some(&measured), found: Some(&found) };
    let declared = need(&model("memory: 9GiB"), 1, known);
    assert_eq!(declared.charge, Ok((Source::Declared, vec![Size(Bytes::new(9 * GIB))])));
    let by_use = need(&model(""), 1, known);
    assert_eq!(by_use.charge, Ok((Source::Measured, vec![Size(Bytes::new(7 * GIB))])));
    let by_file = need(&model(""), 1, Known { measured: None, ..known });
    assert_eq!(source(&by_file), Some(Source::Estimated));
    let unknown = need(&model(""), 1, Known::default());
    assert_eq!(
        unknown.charge,
        Err("the memory of model m, since no runner has /models/m".to_string())
    );
}

#[test]
fn what_was_measured_with_other_settings_is_not_used_and_says_why() {
    let (measured, found) = (measured(&[7 * GIB], "kv: fp8"), found());
    let known = Known { measured: Some(&measured), found: Some(&found) };
    let need = need(&model("kv: f16"), 1, known);
    assert_eq!(source(&need), Some(Source::Estimated));
    let why = "it was measured with kv fp8, and the model has f16 now";
    assert_eq!(need.unfit.as_deref(), Some(why));
    assert!(need.remarks.contains(&why.to_string()));
    assert_eq!(need.disagreement(), None, "two numbers for different things do not disagree");
}

#[test]
fn what_was_measured_and_what_the_file_says_disagree_by_more_than_a_tenth() {
    let found = found();
    let by_file = need(&model(""), 1, Known { found: Some(&found), measured: None });
    let estimated =
        by_file.estimated.and_then(|estimate| estimate.all.total).expect("it is known").get();
    for (used, disagrees) in [
        (estimated, false),
        (estimated * 11 / 10, false),
        (estimated * 12 / 10, true),
        (estimated * 8 / 10, true),
    ] {
        let measured = measured(&[used], "");
        let need = need(&model(""), 1, Known { measured: Some(&measured), found: Some(&found) });
        assert_eq!(need.disagreement().is_some(), disagrees, "{used} of {estimated}");
        assert_eq!(!need.remarks.is_empty(), disagrees);
    }
}

#[test]
fn a_file_that_is_not_understood_is_unknown_with_the_reason() {
    let found =
        BTreeMap::from([("r".into(), Found::Odd("architecture `x` is not known".to_string()))]);
    let need = need(&model(""), 1, Known { found: Some(&found), measured: None });
    let missing = need.charge.expect_err("nobody says it");
    assert!(missing.contains("r does not understand its file: architecture `x`"), "{missing}");
}
