//! Days of a guarded cluster, and proof that the checks find defects that are put in on purpose.

use plimsoll_sim::guarded::{GuardedCounts, GuardedOptions, GuardedReport, GuardedSabotage, day};

/// Returns the number of days to simulate; `PLIMSOLL_TRIES` multiplies it.
fn days(count: u64) -> u64 {
    let times = std::env::var("PLIMSOLL_TRIES").ok().and_then(|times| times.parse::<u64>().ok());
    count * times.unwrap_or(1)
}

#[test]
fn no_card_is_over_its_line_and_nothing_is_released_early_in_any_interleaving() {
    let mut all = GuardedCounts::default();
    for seed in 0..days(12) {
        let report = day(GuardedOptions::new(seed));
        assert!(report.finding.is_none(), "{}", report.finding.expect("just found"));
        all.merge(&report.counts);
    }
    let never: Vec<&str> =
        all.named().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect();
    assert_eq!(never, Vec::<&str>::new(), "what never happens proves nothing");
}

#[test]
fn a_seed_gives_the_same_day() {
    assert_eq!(day(GuardedOptions::new(3)), day(GuardedOptions::new(3)));
    assert_ne!(day(GuardedOptions::new(3)).fingerprint, day(GuardedOptions::new(4)).fingerprint);
}

fn found(sabotage: GuardedSabotage) -> GuardedReport {
    let mut reports = (0..200)
        .map(|seed| day(GuardedOptions { sabotage: Some(sabotage), ..GuardedOptions::new(seed) }));
    reports.find(|report| report.finding.is_some()).expect("a check finds the defect")
}

#[test]
fn bindings_without_the_version_are_found() {
    found(GuardedSabotage::NoVersion);
}

#[test]
fn touches_that_are_not_written_are_found() {
    found(GuardedSabotage::NoTouch);
}

#[test]
fn a_leader_that_decides_without_a_lease_is_found() {
    found(GuardedSabotage::EndlessLease);
}

#[test]
fn containers_that_outlive_their_pods_by_an_hour_are_found() {
    found(GuardedSabotage::SlowKubelet);
}
