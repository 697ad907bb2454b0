//! The format of scenarios: what is wrong with a line is said with its number, the word and near
//! words.

use plimsoll_sim::scenario::run;

fn error(text: &str) -> String {
    run(text).expect_err("the line is wrong").to_string()
}

#[test]
fn an_unknown_command_is_named_with_its_line_and_near_words() {
    assert_eq!(
        error("# x\nsubmitt a/p 1GiB"),
        "line 2: `submitt` is not a command; did you mean `submit`?"
    );
    assert_eq!(error("xyzzy"), "line 1: `xyzzy` is not a command");
}

#[test]
fn an_unknown_field_or_value_is_named_with_near_words() {
    for (text, expected) in [
        (
            "node n1 chioce=owned",
            "line 1: `chioce` is not a fact of a node; did you mean `choice`?",
        ),
        ("node n1 choice=own", "line 1: `own` is not a choice; did you mean `owned`?"),
        (
            "node n1\ndevice n1 0 memmory=1GiB",
            "line 2: `memmory` is not a fact of a device; did you mean `memory`?",
        ),
        (
            "submit a/p 1GiB priorty=3",
            "line 1: `priorty` is not a word of a request; did you mean `priority`?",
        ),
        ("submit a/p whol", "line 1: `whol` is not a amount; did you mean `whole`?"),
        (
            "submit a/p 8XB",
            "line 1: `8XB`: write an amount: 8000MiB, 2x40GiB, 0.5, 50%, 1/3, whole, plain, slice:PROFILE, unknown:WHAT or none",
        ),
        ("submit a/p cores=3", "line 1: `cores`: write it after the amount that it belongs to"),
        ("policy packed", "line 1: `packed` is not a policy; did you mean `pack`?"),
        ("device n1 0 memory=1GiB", "line 1: there is no node `n1` yet"),
        ("node n1\ndevice n1 1 memory=1GiB", "line 2: `1`: device 0 comes first"),
        ("explain a/p", "line 1: there is no request `a/p` yet"),
        ("at soon", "line 1: `soon`: write a time such as 500ms, 5s, 3m20s or 1h"),
        ("at 5s\nat 4s", "line 2: `at`: time does not go back"),
        ("node \"n1", "line 1: a quotation mark is not closed"),
        ("> none", "line 1: there is no command above this expectation"),
        ("tick tock", "line 1: `tock` is not a word that belongs here"),
        ("submit", "line 1: the request's ID, as account/name is missing"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

const CASE: &str = "# One card.
node n1
device n1 0 memory=10GiB

submit a/p1 8GiB
> a/p1 placed on n1/gpu-0 with 9 GiB
submit a/p2 8GiB
devices
>
";

#[test]
fn a_mismatch_is_shown_with_its_line_and_both_texts() {
    let report = run(CASE).expect("a scenario");
    assert!(!report.holds());
    assert_eq!(report.mismatches().len(), 2);
    assert!(report.diff().starts_with(
        "line 5: submit a/p1 8GiB
  - a/p1 placed on n1/gpu-0 with 9 GiB
  + a/p1 placed on n1/gpu-0 with 8 GiB
line 8: devices
"
    ));
}

#[test]
fn an_update_rewrites_what_is_expected_and_leaves_the_rest() {
    let updated = run(CASE).expect("a scenario").updated();
    assert_eq!(
        updated,
        "# One card.
node n1
device n1 0 memory=10GiB

submit a/p1 8GiB
> a/p1 placed on n1/gpu-0 with 8 GiB
submit a/p2 8GiB
devices
> n1/gpu-0 holds 8 GiB, free 2 GiB of 10 GiB: a/p1 8 GiB
"
    );
    let again = run(&updated).expect("an updated scenario");
    assert!(again.holds());
    assert_eq!(again.updated(), updated);
}

#[test]
fn a_demo_shows_what_every_command_said() {
    let demo = run(CASE).expect("a scenario").demo();
    assert!(demo.contains("submit a/p2 8GiB\n> a/p2 is pending: needs 8192 MiB"), "{demo}");
}

#[test]
fn a_range_runs_a_command_for_each_number() {
    let report =
        run("node n1\ndevice n1 0 memory=10GiB\nsubmit a/p{1..12} 1GiB\n> 10 placed, 2 pending\n")
            .expect("a scenario");
    assert!(report.holds(), "{}", report.diff());
}

#[test]
fn every_fact_of_a_node_and_a_device_can_be_said_and_changed() {
    let text = "node n1 choice=plugin missing=0 unschedulable=no cpu=500m memory=64GiB pods=110 taint=a=b:NoSchedule label.z=y
device n1 0 kind=NVIDIA uuid=GPU-* model=A100 memory=40960MiB source=nvml reserve=1GiB cap=30GiB cores=100 slots=4 sharing=mps:4 numa=1 board=7 mode=mps health=healthy cordoned=no links=1:50
device n1 1 memory=40960MiB slices=a100-40gb
submit a/p 1GiB cores=50% slots=2 type=a100 not-type=h100 uuid=GPU-0 not-uuid=GPU-9 mode=mps tolerate=a cpu=250m memory=1GiB pods=1 select=z=y any=z prefer=10:z=y nodes=spread devices=pack weights=1:1:1
update n1 unschedulable=yes
device n1 0 cordoned=yes
submit b/q whole
> b/q is impossible: needs one whole GPU; 1 node unschedulable
";
    let report = run(text).expect("a scenario");
    assert!(report.holds(), "{}", report.diff());
}
