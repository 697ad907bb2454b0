//! Audits of clusters that another scheduler filled.

use plimsoll_core::charge::{Activity, Slice, Stage};
use plimsoll_core::device::{Device, Node, Sharing, Source, Span, Strategy};
use plimsoll_core::request::{NodeNeed, RequestId, Terms};
use plimsoll_core::room::Measured;
use plimsoll_core::units::{Cores, Millis};

use plimsoll_core::charge::{Booked, Charge, Holding};
use plimsoll_core::units::Bytes;

use crate::declared::DeclaredError;
use crate::finding::{AnnotationProblem, Code, Problem};

use super::*;

fn card(mib: u64) -> Device {
    let sharing = Sharing::Tokens { replicas: 100, strategy: Strategy::TimeSlicing };
    Device { sharing, ..Device::new("NVIDIA", Bytes::mib(mib), Source::Label) }
}

fn node(name: &str, devices: Vec<Device>) -> Node {
    Node { devices, ..Node::new(name) }
}

fn charge(on: &[u16], amount: Booked) -> Charge {
    Charge { on: on.to_vec(), amount, cores: Cores(0), slots: 1, slice: None, parts: Vec::new() }
}

fn share(mib: u64) -> Booked {
    Booked::share(Bytes::mib(mib))
}

fn holding(node: &str, name: &str, charges: Vec<Charge>) -> Holding {
    Holding {
        request: RequestId::new("default", name),
        node: node.into(),
        stage: Stage::Running { since: Millis(0) },
        charges,
        resources: NodeNeed::default(),
        terms: Terms::default(),
        activity: Activity::Unknown,
        spec: None,
    }
}

fn ledger(nodes: Vec<Node>, holdings: Vec<Holding>) -> Ledger {
    let mut ledger = Ledger::default();
    for node in nodes {
        let _ = ledger.put_node(node);
    }
    for holding in holdings {
        let _ = ledger.observe(holding).expect("its node is there");
    }
    ledger
}

fn found(ledger: &Ledger) -> Vec<Finding> {
    audit(&Cluster::default(), ledger)
}

fn finding(problem: Problem, node: Option<&str>, device: Option<&str>) -> Finding {
    Finding { node: node.map(Name::from), device: device.map(Name::from), problem }
}

#[test]
fn five_pods_on_a_card_that_holds_four_are_reported_with_names_and_excess() {
    let pods =
        ["a", "b", "c", "d", "e"].map(|name| holding("n", name, vec![charge(&[0], share(8000))]));
    let found = found(&ledger(vec![node("n", vec![card(32607)])], pods.to_vec()));
    assert_eq!(found.len(), 1);
    let Finding { node, device, .. } = &found[0];
    assert_eq!((found[0].code(), found[0].severity()), (Code::DeviceOverLine, Severity::Error));
    assert_eq!((node.as_deref(), device.as_deref()), (Some("n"), Some("n/gpu-0")));
    assert_eq!(
        found[0].message(),
        "40000 MiB of 32607 MiB, over by 7393 MiB: default/a (8000 MiB), default/b (8000 MiB), default/c (8000 MiB), \
         default/d (8000 MiB), default/e (8000 MiB)"
    );
    let expected = [("usable", 32607 << 20), ("held", 40000 << 20), ("over_by", 7393 << 20)];
    assert_eq!(found[0].numbers(), expected.into());
    let remedy = found[0].remedy();
    assert!(remedy.contains("7393 MiB"), "{remedy}");
}

#[test]
fn four_pods_on_that_card_are_nothing_to_tell() {
    let pods = ["a", "b", "c", "d"].map(|name| holding("n", name, vec![charge(&[0], share(8000))]));
    assert_eq!(found(&ledger(vec![node("n", vec![card(32607)])], pods.to_vec())), []);
}

#[test]
fn foreign_memory_and_memory_being_released_count() {
    let going = Holding {
        stage: Stage::Releasing { since: Millis(0) },
        ..holding("n", "a", vec![charge(&[0], share(30000))])
    };
    let mut ledger = ledger(vec![node("n", vec![card(32607)])], vec![going]);
    let measured = Measured { foreign: Bytes::mib(3000), ..Measured::default() };
    let _ = ledger.measure(&"n".into(), 0, measured).expect("the node is there");
    let message = &found(&ledger)[0].message();
    assert!(message.starts_with("33000 MiB of 32607 MiB, over by 393 MiB: "), "{message}");
    assert!(
        message
            .contains("default/a (30000 MiB, being released), in use without a booking (3000 MiB)"),
        "{message}"
    );
}

#[test]
fn many_tenants_are_named_in_part_and_counted() {
    let pods = (0..40)
        .map(|pod| holding("n", &format!("p{pod}"), vec![charge(&[0], share(1000))]))
        .collect();
    let message = &found(&ledger(vec![node("n", vec![card(32607)])], pods))[0].message();
    assert!(message.ends_with("default/p15 (1000 MiB) and 24 more"), "{message}");
}

#[test]
fn a_node_is_over_its_line_where_no_spread_over_its_cards_fits() {
    let pods = ["a", "b", "c"].map(|name| holding("n", name, vec![charge(&[0, 1], share(20000))]));
    let found = found(&ledger(vec![node("n", vec![card(32607), card(32607)])], pods.to_vec()));
    assert_eq!((found[0].code(), found[0].device.as_deref()), (Code::NodeOverLine, None));
    assert_eq!(found[0].numbers(), [("usable", 65214 << 20), ("held", 60000 << 20)].into());
    assert!(
        found[0].message().contains("60000 MiB on 2 cards")
            && found[0].message().contains("default/c"),
        "{}",
        found[0].message()
    );
}

#[test]
fn tenants_in_one_slice_are_an_error() {
    let slice = Slice { profile: "3g.20gb".into(), span: Span { start: 0, size: 4 } };
    let sliced = || Charge { slice: Some(slice.clone()), ..charge(&[0], share(1000)) };
    let pods = ["a", "b"].map(|name| holding("n", name, vec![sliced()]));
    let found = found(&ledger(vec![node("n", vec![card(40960)])], pods.to_vec()));
    assert_eq!((found[0].code(), found[0].severity()), (Code::SlicesOverlap, Severity::Error));
    assert!(found[0].message().contains("default/a, default/b"), "{}", found[0].message());
}

#[test]
fn pods_that_declare_no_memory_on_a_shared_card_are_a_warning() {
    let plain = |name| holding("n", name, vec![charge(&[0], Booked::Undeclared)]);
    let sized = |name| holding("n", name, vec![charge(&[0], share(8000))]);
    for (pods, told) in [
        (vec![plain("a")], None),
        (vec![sized("a"), sized("b")], None),
        (vec![plain("a"), plain("b"), plain("c")], Some((3, 3))),
        (vec![plain("a"), sized("b")], Some((2, 1))),
    ] {
        let found = found(&ledger(vec![node("n", vec![card(32607)])], pods));
        let numbers = found
            .first()
            .map(|finding| (finding.numbers()["tenants"], finding.numbers()["undeclared"]));
        assert_eq!(numbers, told);
        assert!(
            found
                .iter()
                .all(|f| f.code() == Code::MemoryUndeclared && f.severity() == Severity::Warning)
        );
        assert!(found.iter().all(|f| f.device.as_deref() == Some("n/gpu-0")
            && f.message().contains("default/a (undeclared)")));
    }
}

#[test]
fn pods_whose_card_is_unknown_are_reported_once_for_the_node() {
    let plain = |name| holding("n", name, vec![charge(&[0, 1], Booked::Undeclared)]);
    let two = || vec![node("n", vec![card(32607), card(32607)])];
    assert_eq!(found(&ledger(two(), vec![plain("a")])), []);
    let told = found(&ledger(two(), vec![plain("a"), plain("b")]));
    assert_eq!(
        (told.len(), told[0].code(), told[0].device.as_deref()),
        (1, Code::MemoryUndeclared, None)
    );
    assert_eq!(told[0].numbers()["tenants"], 2, "each pod once, though it may be on either card");
    let beside = holding("n", "c", vec![charge(&[1], share(8000))]);
    let told = found(&ledger(two(), vec![plain("a"), beside]));
    assert_eq!((told.len(), told[0].numbers()["tenants"]), (1, 2));
}

#[test]
fn one_pod_on_two_cards_shares_with_no_other() {
    let pod =
        holding("n", "a", vec![charge(&[0], Booked::Undeclared), charge(&[1], Booked::Undeclared)]);
    assert_eq!(found(&ledger(vec![node("n", vec![card(32607), card(32607)])], vec![pod])), []);
}

#[test]
fn findings_stand_by_severity_node_device_and_code_however_they_were_found() {
    let note = || Problem::Node(AnnotationProblem::DeclarationEmpty.into());
    let warning = |resource: &str| {
        let (resource, key) = (resource.into(), "k");
        let (advertised, has_other_devices) = (1, true);
        let problem =
            AnnotationProblem::RegisterMissing { resource, key, advertised, has_other_devices };
        Problem::Node(problem.into())
    };
    let choice = || {
        let error = DeclaredError::Choice { value: "x".into() };
        Problem::Node(AnnotationProblem::DeviceChoiceUnreadable(error).into())
    };
    let given = [
        finding(note(), Some("a"), None),
        finding(warning("b"), Some("n"), Some("GPU-1")),
        finding(warning("a"), Some("n"), Some("GPU-1")),
        finding(warning("a"), Some("n"), Some("GPU-0")),
        finding(warning("a"), Some("n"), None),
        finding(warning("a"), None, None),
        finding(choice(), Some("m"), None),
    ];
    let pods = ["a", "b"].map(|name| holding("n", name, vec![charge(&[0], share(20000))]));
    let ledger = ledger(vec![node("n", vec![card(32607)])], pods.to_vec());
    let order = |findings: Vec<Finding>| {
        let cluster = Cluster { findings, ..Cluster::default() };
        let row = |f: Finding| {
            let message = f.message();
            (f.code(), f.node.map(|n| n.to_string()), f.device.map(|u| u.to_string()), message)
        };
        audit(&cluster, &ledger).into_iter().map(row).collect::<Vec<_>>()
    };
    let mut reversed = given.to_vec();
    reversed.reverse();
    let sorted = order(reversed);
    assert_eq!(sorted, order(given.to_vec()));
    let codes: Vec<Code> = sorted.iter().map(|row| row.0).collect();
    let warning = Code::RegisterMissing;
    assert_eq!(codes[..2], [Code::DeviceChoiceUnreadable, Code::DeviceOverLine]);
    assert_eq!(codes[2..], [warning, warning, warning, warning, warning, Code::DeclarationEmpty]);
    assert!(sorted[5].3.contains(" of a ") && sorted[6].3.contains(" of b "), "{sorted:?}");
}

#[test]
fn pods_that_hold_more_tokens_than_are_allocatable_are_found() {
    let token = "nvidia.com/gpu";
    let mut node = node("n", vec![card(16_000)]);
    node.allocatable.extended.set(token, 2);
    let tenant = |at: usize| {
        let mut holding = holding("n", &format!("p{at}"), vec![charge(&[0], share(1000))]);
        holding.resources.extended.set(token, 1);
        holding.resources.extended.set("rdma/hca", 1);
        holding
    };
    let held =
        |number: usize| found(&ledger(vec![node.clone()], (0..number).map(tenant).collect()));
    assert_eq!(held(2), []);
    let findings = held(3);
    assert_eq!((findings.len(), findings[0].code()), (1, Code::ResourceOverLine));
    assert_eq!(findings[0].numbers(), [("allocatable", 2), ("used", 3)].into());
    let message = findings[0].message();
    assert!(
        message.starts_with("pods hold 3 of nvidia.com/gpu, and 2 are allocatable"),
        "{message}"
    );
}
