//! Reading manifests and dumps, good ones and bad ones.

use proptest::prelude::*;

use super::*;
use crate::object::{PodGroupFlavor, WorkloadKind};

fn objects(text: &str) -> Vec<(Origin, Object)> {
    let mut found = Vec::new();
    read("a.yaml", text, &mut found).unwrap_or_else(|error| panic!("{error}"));
    found
}

fn names(text: &str) -> Vec<String> {
    objects(text)
        .into_iter()
        .map(|(origin, _)| format!("{} {}", origin.document, origin.object))
        .collect()
}

fn error(text: &str) -> String {
    let mut found = Vec::new();
    read("a.yaml", text, &mut found).expect_err(text).to_string()
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x"}}"#;

#[test]
fn documents_lists_and_streams_are_all_read() {
    let list = format!(r#"{{"apiVersion":"v1","items":[{POD},{POD}],"kind":"List"}}"#);
    for (text, expected) in [
        (POD.to_owned(), vec!["1 Pod x/a"]),
        (format!("{POD}{POD}\n {POD}"), vec!["1 Pod x/a", "2 Pod x/a", "3 Pod x/a"]),
        (list.clone(), vec!["1 Pod x/a"; 2]),
        (format!(r#"{{"kind":"List","items":[{list},{POD}]}}"#), vec!["1 Pod x/a"; 3]),
        (format!("[{POD}, {POD}]"), vec!["1 Pod x/a"; 2]),
        (format!("{POD}\n---\n{POD}\n"), vec!["1 Pod x/a", "2 Pod x/a"]),
        (
            format!("---\nkind: Node\nmetadata: {{name: n}}\n---\n{POD}\n---\nkind: Pod\n"),
            vec!["1 Node n", "2 Pod x/a", "3 Pod"],
        ),
        ("{kind: Node, metadata: {name: n}}".into(), vec!["1 Node n"]),
        ("- kind: Node\n- kind: Pod\n".into(), vec!["1 Node", "1 Pod"]),
        (
            "apiVersion: v1\nitems:\n- kind: Node\n  metadata:\n    name: n\nkind: List\n".into(),
            vec!["1 Node n"],
        ),
        ("\u{feff}kind: Node".into(), vec!["1 Node"]),
    ] {
        assert_eq!(names(&text), expected, "{text}");
    }
}

#[test]
fn the_items_of_a_typed_list_need_no_kind() {
    let text = r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"x"}}]}"#;
    assert_eq!(names(text), ["1 Pod x/a"]);
    assert_eq!(names("kind: NodeList\nitems: [{metadata: {name: n}}]"), ["1 Node n"]);
    assert_eq!(names(r#"{"kind":"PodList","items":null}"#), [""; 0]);
}

#[test]
fn empty_documents_are_skipped_and_counted() {
    let text = "# a comment\n---\n---\n# nothing\n---\nkind: Node\n...\n# end\n---\nkind: Pod\n";
    assert_eq!(names(text), ["3 Node", "4 Pod"]);
    assert_eq!(names("%YAML 1.2\n---\nkind: Node\n"), ["1 Node"]);
    for text in ["", " \n\n", "---\n---\n", "# only a comment\n", "null\n", "\u{feff}"] {
        assert!(error(text).starts_with("a.yaml: it is empty"), "{text:?}: {}", error(text));
    }
}

#[test]
fn the_same_object_is_read_from_json_and_yaml() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":null,"creationTimestamp":null},
        "spec":{"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":1,"cpu":0.5,"memory":"8e3"}}}],
        "tolerations":null,"nodeSelector":{"a":"b"}},"status":{}}"#;
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: null\n  creationTimestamp: null\nspec:\n  containers:\n  \
        - name: c\n    resources:\n      limits:\n        nvidia.com/gpu: 1\n        cpu: 0.5\n        memory: 8e3\n  tolerations: null\n  \
        nodeSelector:\n    a: b\nstatus: {}\n";
    assert_eq!(objects(json)[0].1, objects(yaml)[0].1);
    assert_eq!(objects(json)[0].1, objects(&format!("# yaml\n{json}"))[0].1);
}

#[test]
fn kinds_count_in_their_own_api_group() {
    let summary = |text: &str| read("a", text, &mut Vec::new()).unwrap();
    let text = "kind: Job\napiVersion: batch.volcano.sh/v1alpha1\n---\nkind: Secret\n---\nkind: Secret\n---\nkind: Job\napiVersion: batch/v1\n---\n\
        kind: AllowList\n---\nkind: PodGroup\napiVersion: example.com/v1\n";
    let summary = summary(text);
    assert_eq!(summary.documents, 6);
    assert_eq!(summary.understood, BTreeMap::from([("Job".into(), 1)]));
    let ignored = [("AllowList", 1), ("Job", 1), ("PodGroup", 1), ("Secret", 2)];
    assert_eq!(
        summary.ignored,
        ignored.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect()
    );

    for (kind, version) in [
        (WorkloadKind::Deployment, "apps/v1"),
        (WorkloadKind::ReplicaSet, "apps/v1"),
        (WorkloadKind::StatefulSet, "apps/v1"),
        (WorkloadKind::Job, "batch/v1"),
        (WorkloadKind::ReplicationController, "v1"),
    ] {
        let found = objects(&format!("kind: {}\napiVersion: {version}\n", kind.name()));
        assert!(
            matches!(&found[0].1, Object::Workload(workload) if workload.kind == kind),
            "{kind:?}"
        );
    }
    let group =
        objects("kind: PodGroup\napiVersion: scheduling.run.ai/v2alpha2\nspec: {minMember: 2}\n");
    assert!(
        matches!(&group[0].1, Object::PodGroup(group) if group.flavor == PodGroupFlavor::Kai && group.min_member == Some(2))
    );
    let class = objects(
        "kind: PriorityClass\napiVersion: scheduling.k8s.io/v1\nvalue: -5\nglobalDefault: true\n",
    );
    assert!(
        matches!(&class[0].1, Object::PriorityClass(class) if class.value == -5 && class.global_default)
    );
}

#[test]
fn an_error_names_file_document_object_and_field() {
    let bad = "kind: Node\n---\nkind: Pod\nmetadata: {name: a, namespace: x}\nspec:\n  containers:\n  - name: c\n    ports: [{hostPort: many}]\n";
    assert_eq!(
        error(bad),
        "a.yaml, document 2 (line 2), Pod x/a, field spec.containers[0].ports[0].hostPort: invalid type: string \"many\", expected u16"
    );
    let json = POD.replace("}}", r#"},"spec":{"nodeName":7}}"#);
    for text in [json.clone(), format!(r#"{{"kind":"List","items":[{json}]}}"#)] {
        assert_eq!(
            error(&text),
            "a.yaml, document 1, Pod x/a, field spec.nodeName: invalid type: integer `7`, expected a string"
        );
    }
    assert_eq!(
        error("kind: Pod\nmetadata:\n  name: a\n  annotations:\n    gpu-memory: 8000\n"),
        "a.yaml, document 1 (line 1), Pod a, field metadata.annotations.gpu-memory: invalid type: integer `8000`, expected a string; \
         put the value in quotes"
    );
    assert!(
        error("kind: Pod\nmetadata: {name: [a]}\n")
            .contains("field metadata.name: it is [\"a\"], and must be a string")
    );
}

#[test]
fn a_list_is_not_taken_for_an_object() {
    assert!(
        error("kind: Pod\nspec: [n1]\n").contains("field spec: invalid type: sequence"),
        "{}",
        error("kind: Pod\nspec: [n1]\n")
    );
    assert!(
        error(r#"{"kind":"Pod","metadata":["a"]}"#)
            .contains("field metadata: invalid type: sequence"),
        "{}",
        error(r#"{"kind":"Pod","metadata":["a"]}"#)
    );
    assert!(
        error(r#"{"kind":"Node","status":[]}"#).contains("field status: invalid type: sequence")
    );
}

#[test]
fn what_is_no_object_gets_a_hint() {
    let table = "NAME    READY   STATUS    AGE\nweb-0   1/1     Running   5d\n";
    for text in [table, "\"text\"", "true", "7"] {
        assert!(
            error(text).ends_with("not a Kubernetes object; use kubectl with -o json or -o yaml"),
            "{text}: {}",
            error(text)
        );
    }
    assert!(error("{}").contains("has no kind"));
    assert!(error("metadata: {name: a}").contains("a has no kind"));
    assert!(
        error("kind: PodGroup\nmetadata: {name: g}")
            .contains("PodGroup g: a PodGroup without apiVersion")
    );
    assert!(error("{\"kind\": \"Pod\",}").contains("not valid JSON"));
    assert!(
        error("kind: Node\n---\nkind: Pod\nspec: {a: [}\n")
            .starts_with("a.yaml, document 2 (line 4): this is not valid YAML")
    );
    assert!(error("kind: Pod\n\tx: 1\n").contains("not valid YAML"));
}

#[test]
fn a_duplicate_key_is_an_error() {
    assert!(
        error("kind: Pod\nspec: {}\nspec: {}\n").contains("not valid YAML: duplicate"),
        "{}",
        error("kind: Pod\nspec: {}\nspec: {}\n")
    );
    assert!(error(r#"{"kind":"Pod","spec":{},"spec":{}}"#).contains("duplicate field `spec`"));
    assert!(error(r#"{"kind":"Pod","kind":"Node"}"#).contains("duplicate field `kind`"));
    assert!(
        error(r#"{"kind":"Pod","metadata":{"labels":{"a":"b","a":"c"}}}"#)
            .contains("\"a\" is there twice")
    );
}

#[test]
fn one_quantity_that_cannot_be_read_does_not_fail_the_file() {
    let found = objects(
        "kind: Pod\nspec:\n  containers:\n  - resources: {limits: {a: 8000MB, b: 1e9999, c: .nan, d: '', e: 2}}\n",
    );
    let Object::Pod(pod) = &found[0].1 else { panic!("a pod") };
    let limits = &pod.spec.containers[0].resources.limits;
    for name in ["a", "b", "c", "d"] {
        assert!(limits.get(name).unwrap().is_err(), "{name}");
    }
    assert_eq!(limits.get("e").unwrap().unwrap().whole(), Ok(2));
}

#[test]
fn a_bomb_is_rejected() {
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (next, last) in ["b", "c", "d", "e", "f", "g", "h", "i"]
        .into_iter()
        .zip(["a", "b", "c", "d", "e", "f", "g", "h"])
    {
        bomb += &format!("{next}: &{next} [{}]\n", vec![format!("*{last}"); 10].join(", "));
    }
    assert!(error(&bomb).starts_with("a.yaml, document 1"), "{}", error(&bomb));
    let nested = format!("{}{}", r#"{"kind":"List","items":["#.repeat(2000), "]}".repeat(2000));
    assert!(error(&nested).contains("lists stand in lists more than 8 deep"), "{}", error(&nested));
    assert!(!error(&"[".repeat(100_000)).is_empty());
    assert!(!error(&"{a: ".repeat(10_000)).is_empty());
    assert!(!error(&format!(r#"{{"kind":"Pod","spec":{}"#, r#"{"a":"#.repeat(10_000))).is_empty());
}

#[test]
fn text_that_is_not_utf8_is_an_error() {
    let error = read_bytes("a", b"kind: \xff\xfe", &mut Vec::new()).unwrap_err();
    assert_eq!(error.problem, Problem::NotUtf8 { at: 6 });
    assert!(read_bytes("a", b"kind: Node", &mut Vec::new()).is_ok());
}

#[derive(Default)]
struct Watching {
    told: Vec<usize>,
}

impl Sink for Watching {
    fn object(&mut self, _origin: Origin, _object: Object) {}

    fn progress(&mut self, bytes: usize) {
        self.told.push(bytes);
    }
}

#[test]
fn progress_is_reported_and_ends_with_the_whole_length() {
    let filler = "x".repeat(1 << 20);
    let pod = format!(r#"{{"kind":"Pod","metadata":{{"annotations":{{"a":"{filler}"}}}}}}"#);
    let texts = [
        format!(r#"{{"kind":"List","items":[{pod},{pod},{pod}]}}"#),
        format!(
            "kind: Node\n---\nkind: Pod\nmetadata: {{annotations: {{a: {filler}}}}}\n---\nkind: Pod\n"
        ),
    ];
    for text in texts {
        let mut watching = Watching::default();
        read("a", &text, &mut watching).unwrap();
        assert!(watching.told.len() >= 2, "{:?}", watching.told);
        assert!(watching.told.is_sorted());
        assert_eq!(watching.told.last(), Some(&text.len()));
    }
}

#[derive(Default)]
struct Counting {
    pods: usize,
}

impl Sink for Counting {
    fn object(&mut self, _origin: Origin, object: Object) {
        self.pods += usize::from(matches!(object, Object::Pod(_)));
    }
}

/// A pod of some 4 kB, as a cluster prints it.
fn printed_pod(number: usize) -> String {
    let managed = r#"{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}}},"manager":"kubelet"},"#;
    let env = r#"{"name":"SOME_SETTING","value":"a value of some length, with \"quotes\" in it"},"#;
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"pod-{number}","namespace":"ns-{}","labels":{{"app":"web"}},
            "annotations":{{"gpu-memory":"8000"}},"managedFields":[{}{{}}]}},"spec":{{"nodeName":"node-{}","containers":[{{"name":"main",
            "env":[{}{{}}],"resources":{{"limits":{{"cpu":"2","memory":"16Gi","nvidia.com/gpu":"1"}},"requests":{{"cpu":"500m"}}}}}}]}},
            "status":{{"phase":"Running","containerStatuses":[{{"name":"main","state":{{"running":{{}}}}}}]}}}}"#,
        number % 50,
        managed.repeat(12),
        number % 5000,
        env.repeat(20),
    )
}

#[test]
#[ignore = "reads 200 MB; run it with --release"]
fn a_dump_of_fifty_thousand_pods_is_read_in_seconds() {
    let pods: Vec<String> = (0..50_000).map(printed_pod).collect();
    let text = format!(r#"{{"apiVersion":"v1","items":[{}],"kind":"List"}}"#, pods.join(",\n"));
    drop(pods);
    let start = std::time::Instant::now();
    let mut counting = Counting::default();
    read("dump", &text, &mut counting).unwrap();
    let taken = start.elapsed();
    println!("{} MB in {taken:?}", text.len() / 1_000_000);
    assert_eq!(counting.pods, 50_000);
    assert!(taken.as_secs() < 10, "{taken:?}");
}

#[test]
#[ignore = "reads 20 MB of YAML; run it with --release"]
fn a_dump_in_yaml_is_read_in_seconds() {
    let env =
        "      - name: SOME_SETTING\n        value: a value of some length, with words in it\n"
            .repeat(40);
    let pod = |number| {
        format!(
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: pod-{number}\n    namespace: ns\n  spec:\n    containers:\n    \
             - name: main\n      env:\n{env}      resources:\n        limits:\n          nvidia.com/gpu: \"1\"\n"
        )
    };
    let text =
        format!("apiVersion: v1\nitems:\n{}kind: List\n", (0..7000).map(pod).collect::<String>());
    let start = std::time::Instant::now();
    let mut counting = Counting::default();
    read("dump", &text, &mut counting).unwrap();
    let taken = start.elapsed();
    println!("{} MB in {taken:?}", text.len() / 1_000_000);
    assert_eq!(counting.pods, 7000);
    assert!(taken.as_secs() < 10, "{taken:?}");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        let _ = read("a", &text, &mut Vec::new());
    }

    #[test]
    fn nothing_that_looks_like_documents_makes_it_panic(
        parts in prop::collection::vec(prop::sample::select(vec![
            "---\n", "...\n", "kind: Pod\n", "kind: List\n", "items:\n", "- ", "  ", "{", "}", "[", "]", "\"kind\"", ":", "\"Pod\"",
            ",", "\n", "metadata: ", "spec: ", "&a ", "*a", "null", "1e9999", "# c\n", "%YAML 1.2\n", "'", "|\n", "\u{feff}",
        ]), 0..40)
    ) {
        let _ = read("a", &parts.concat(), &mut Vec::new());
    }
}
