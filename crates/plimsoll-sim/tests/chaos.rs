//! A short part of the long run, and proof that the checkers find defects that are put in on
//! purpose.

use plimsoll_sim::chaos::{self, Counter, Counters, Log, Options, Sabotage};

/// Returns the number of days to simulate; `PLIMSOLL_TRIES` multiplies it.
fn days(count: u64) -> u64 {
    let times = std::env::var("PLIMSOLL_TRIES").ok().and_then(|times| times.parse::<u64>().ok());
    count * times.unwrap_or(1)
}

#[test]
fn no_day_violates_an_invariant() {
    let mut all = Counters::default();
    for seed in 0..days(24) {
        let report = chaos::day(Options { seed, ..Options::default() });
        all.merge(&report.counters);
        assert!(report.finding.is_none(), "{}", report.finding.expect("just found"));
    }
    assert_eq!(all.get(Counter::Violations), 0);
    let never = Counter::ALL.iter().filter(|(counter, _, _)| all.get(*counter) == 0);
    let never: Vec<&str> = never.map(|(_, name, _)| *name).collect();
    assert_eq!(never, ["violations"], "what never happens proves nothing");
}

/// Days that found a reservation which stayed pending beside a slot with room: a slot whose
/// retirement ended between two looks, and one whose reservations a crash had kept from it.
#[test]
fn days_that_found_a_defect_of_seating_find_none() {
    for seed in [6_000_131, 6_000_136] {
        let report = chaos::day(Options { seed, ..Options::default() });
        assert!(report.finding.is_none(), "{:?}", report.finding);
    }
}

#[test]
fn a_seed_gives_the_same_day_byte_for_byte() {
    for seed in [3, 4] {
        let options = Options { seed, log: Log::Events, sabotage: None };
        let [one, other] = [(); 2].map(|()| chaos::day(options));
        assert!(one.log.len() > 1000, "only {} events", one.log.len());
        assert_eq!(one.log.join("\n"), other.log.join("\n"));
        assert_eq!(one, other);
        let without_log = chaos::day(Options { seed, ..Options::default() });
        let without_log = (without_log.counters, without_log.fingerprint);
        assert_eq!(without_log, (one.counters, one.fingerprint), "logging changes nothing");
    }
    let fingerprint = |seed| chaos::day(Options { seed, ..Options::default() }).fingerprint;
    assert_ne!(fingerprint(3), fingerprint(4));
}

/// Returns the first violations that are found with a defect.
fn violations_with(sabotage: Sabotage) -> String {
    let found = (0..200).find_map(|seed| {
        chaos::day(Options { seed, log: Log::Off, sabotage: Some(sabotage) }).finding
    });
    let finding = found.expect("a checker finds the defect");
    let command = format!("reproduce with: plimsoll chaos --seed {} --days 1", finding.seed);
    assert!(finding.to_string().ends_with(&command), "{finding}");
    finding.violations.join("\n")
}

fn assert_found(sabotage: Sabotage, any_of: &[&str]) {
    let violations = violations_with(sabotage);
    assert!(any_of.iter().any(|text| violations.contains(text)), "{violations}");
}

/// The words of the physical check.
const PHYSICAL: [&str; 2] = ["and holds nothing", "ordered processes use"];

#[test]
fn a_charge_that_is_released_before_its_process_is_gone_is_found() {
    assert_found(Sabotage::GoneTooEarly, &PHYSICAL);
}

#[test]
fn a_recovery_that_forgets_an_operation_is_found() {
    assert_found(Sabotage::ForgetOperation, &["recovered scheduler differs"]);
}

#[test]
fn an_answer_that_leaves_before_it_is_durable_is_found() {
    let reserved = "was confirmed to its client and does not exist";
    let released = "was released and has not ended";
    let found = [reserved, released, PHYSICAL[0], PHYSICAL[1]];
    assert_found(Sabotage::AnswersBeforeCommit, &found);
}

#[test]
fn a_late_order_that_is_carried_out_is_found() {
    assert_found(Sabotage::LateOrders, &PHYSICAL);
}

#[test]
fn a_record_that_the_witness_did_not_see_is_found() {
    assert_found(Sabotage::BlindWitness, &["should"]);
}

#[test]
fn memory_that_is_never_released_is_found() {
    assert_found(Sabotage::GoneNeverReported, &["is still releasing"]);
}

#[test]
fn a_reservation_that_outlives_its_vanished_client_is_found() {
    assert_found(Sabotage::RenewsVanished, &["has outlived its lease"]);
}

#[test]
fn a_start_of_twice_the_size_is_found() {
    assert_found(Sabotage::StartsTooLarge, &["ordered processes use"]);
}

#[test]
fn a_heartbeat_from_before_a_restart_that_is_believed_is_found() {
    assert_found(Sabotage::EveryEpoch, &["from before a restart was believed after it"]);
}
