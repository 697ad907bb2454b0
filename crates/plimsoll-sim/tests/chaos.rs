//! A short slice of the long run, that a day can be repeated, and that its judges see what is broken on purpose.

use plimsoll_sim::chaos::{self, Count, Options, Sabotage, Tally};

/// Days that a test lives through: so many, times `PLIMSOLL_TRIES` for a deeper look.
fn days(count: u64) -> u64 {
    let times = std::env::var("PLIMSOLL_TRIES").ok().and_then(|times| times.parse::<u64>().ok());
    count * times.unwrap_or(1)
}

#[test]
fn no_day_breaks_a_promise() {
    let mut all = Tally::default();
    for seed in 0..days(32) {
        let report = chaos::day(Options { seed, ..Options::default() });
        all.add(&report.tally);
        assert!(report.finding.is_none(), "{}", report.finding.expect("just found"));
    }
    assert_eq!(all.of(Count::Objections), 0);
    let happened =
        |(count, _, _): &(Count, &str, &str)| *count == Count::Objections || all.of(*count) > 0;
    let never: Vec<_> =
        Count::ALL.iter().filter(|row| !happened(row)).map(|(_, _, words)| words).collect();
    assert!(never.is_empty(), "what never happens proves nothing: {never:?}");
}

#[test]
fn a_seed_is_one_day_byte_for_byte() {
    for seed in [3, 4] {
        let [one, other] =
            [(); 2].map(|()| chaos::day(Options { seed, log: true, sabotage: None }));
        assert!(one.log.len() > 1000, "a day in which something happens");
        assert_eq!(one.log.join("\n"), other.log.join("\n"));
        assert_eq!(one, other);
        let quiet = chaos::day(Options { seed, ..Options::default() });
        assert_eq!(
            (quiet.tally, quiet.fingerprint),
            (one.tally, one.fingerprint),
            "nobody is changed by being watched"
        );
    }
    let [one, other] =
        [3, 4].map(|seed| chaos::day(Options { seed, ..Options::default() }).fingerprint);
    assert_ne!(one, other);
}

/// What is said first of a world that is broken on purpose.
fn objection_to(sabotage: Sabotage) -> String {
    let found = (0..200).find_map(|seed| {
        chaos::day(Options { seed, log: false, sabotage: Some(sabotage) }).finding
    });
    let finding = found.expect("somebody must object");
    assert!(
        finding
            .to_string()
            .ends_with(&format!("again: plimsoll chaos --seed {} --days 1", finding.seed))
    );
    finding.what.join("\n")
}

/// What the judge of what really runs says, who knows nothing of books.
const PHYSICAL: [&str; 5] = [
    "and holds nothing",
    "still runs as",
    "was started twice",
    "what was started there uses",
    "shares ",
];

fn is_physical(said: &str) -> bool {
    PHYSICAL.iter().any(|words| said.contains(words))
}

#[test]
fn a_charge_that_is_dropped_before_its_process_is_gone_is_seen() {
    let said = objection_to(Sabotage::FreedTooEarly);
    assert!(is_physical(&said), "{said}");
}

#[test]
fn a_recovery_that_forgets_an_operation_is_seen() {
    let said = objection_to(Sabotage::ForgetOperation);
    assert!(said.contains("the state after recovery is not the durable one"), "{said}");
}

#[test]
fn an_effect_that_leaves_before_it_is_durable_is_seen() {
    let said = objection_to(Sabotage::EffectsBeforeCommit);
    assert!(is_physical(&said), "{said}");
}

#[test]
fn a_late_order_that_is_carried_out_after_all_is_seen() {
    let said = objection_to(Sabotage::LateOrdersCount);
    assert!(is_physical(&said), "{said}");
}

#[test]
fn a_step_that_the_witness_did_not_see_is_seen() {
    let said = objection_to(Sabotage::BlindWitness);
    assert!(said.contains("should"), "{said}");
}

#[test]
fn memory_that_is_never_given_back_is_seen() {
    let said = objection_to(Sabotage::GoneUnsaid);
    assert!(said.contains("is still releasing"), "{said}");
}

#[test]
fn a_start_of_twice_the_size_is_seen() {
    let said = objection_to(Sabotage::StartsTooLarge);
    assert!(
        said.contains("what was started there uses") || said.contains("is not charged for it"),
        "{said}"
    );
}

/// Found by the first run of 10^8 events: starts that were ordered again on a machine that had come back with smaller cards,
/// speculative work that a change had passed by while real work waited, and one who was idle before it was said to run. By the
/// second: promises to some who had stopped waiting to ask for an offer.
#[test]
fn days_that_broke_a_promise_once_are_whole() {
    for seed in [713, 1482, 2109, 3808, 4231, 6701, 7299, 8935, 10_605, 10_674, 10_688, 10_926] {
        let report = chaos::day(Options { seed, ..Options::default() });
        assert!(report.finding.is_none(), "{}", report.finding.expect("just found"));
    }
}
