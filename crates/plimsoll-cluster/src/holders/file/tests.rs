//! Records that come back from a file, and files that were damaged.

use super::*;

fn record(node: &str, part: u32, name: &str) -> HoldersRecord {
    let text = format!(
        r#"{{"node":"{node}","part":{part},"holders":[{{"namespace":"a","name":"{name}","uid":"u","settlesAfter":90000,
        "booking":{{"node":"{node}","containers":{{}}}}}}]}}"#
    );
    serde_json::from_str(&text).expect("the test's own text is sound")
}

fn changes(records: &[HoldersRecord], removed: &[RecordKey]) -> RecordChanges {
    let stored =
        records.iter().map(|one| RecordChange { key: one.key(), line: Some(one.encode()) });
    let removed = removed.iter().map(|key| RecordChange { key: key.clone(), line: None });
    let since = Some(Millis(77));
    RecordChanges { term: None, since, changes: stored.chain(removed).collect() }
}

fn opened(dir: &Path) -> (Contents, Recalled) {
    let file = HoldersFile::new(dir);
    let mut contents = Arc::into_inner(file.0).expect("it is new").into_inner().expect("no panic");
    let recalled = contents.recall().expect("it can be read");
    (contents, recalled)
}

#[test]
fn the_last_record_of_each_node_comes_back() {
    let root = tempfile::tempdir().expect("a directory");
    let (mut file, recalled) = opened(root.path());
    assert_eq!((recalled.since, recalled.records.len()), (None, 0));
    let (one, two) = (record("n1", 0, "one"), record("n2", 0, "two"));
    file.store(changes(&[one.clone(), two.clone(), record("n1", 1, "more")], &[])).expect("stored");
    let newer = record("n2", 0, "newer");
    let gone = RecordKey { node: "n1".into(), part: 1 };
    file.store(changes(std::slice::from_ref(&newer), &[gone])).expect("stored");
    drop(file);
    for _ in 0..2 {
        let (_, recalled) = opened(root.path());
        assert_eq!(recalled.since, Some(Millis(77)));
        assert_eq!(recalled.records, [one.clone(), newer.clone()]);
        assert_eq!(recalled.damaged, []);
    }
}

#[test]
fn a_damaged_line_is_reported_and_the_others_come_back() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join(NAME);
    let (mut file, _) = opened(root.path());
    let two = record("n2", 0, "two");
    file.store(changes(&[record("n1", 0, "one"), two.clone()], &[])).expect("stored");
    drop(file);
    let whole = fs::read(&path).expect("it is there");
    let at = whole.windows(5).position(|text| text == b"\"one\"").expect("the name") + 1;
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    for (damaged, known) in
        [(flipped, vec![two]), (whole[..whole.len() - 1].to_vec(), vec![record("n1", 0, "one")])]
    {
        fs::write(&path, &damaged).expect("a file");
        let (_, recalled) = opened(root.path());
        assert_eq!(recalled.records, known);
        assert_eq!(recalled.damaged.len(), 1, "{:?}", recalled.damaged);
        assert!(recalled.damaged[0].place.contains("holders.log line "), "{:?}", recalled.damaged);
        assert_eq!(fs::read(root.path().join(DAMAGED)).expect("it is kept"), damaged);
    }
}

#[test]
fn outdated_lines_do_not_grow_the_file_without_bound() {
    let root = tempfile::tempdir().expect("a directory");
    let (mut file, _) = opened(root.path());
    let long = "x".repeat(100_000);
    for index in 0..200 {
        file.store(changes(&[record("n1", 0, &format!("{long}{index}"))], &[])).expect("stored");
    }
    let bytes = fs::metadata(root.path().join(NAME)).expect("a file").len();
    assert!(bytes < 2 * OUTDATED as u64, "{bytes}");
    drop(file);
    let (_, recalled) = opened(root.path());
    assert!(recalled.records[0].holders[0].name.ends_with("199"));
}
