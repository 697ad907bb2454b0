//! Random clusters, read and simulated by the binary, and judged by an independent model.
//!
//! `world` makes a cluster and `objects` writes it as Kubernetes objects. `model` knows the same
//! cluster as plain numbers and the documented rules, tries every assignment of cards, and shares
//! no code with the ledger, `fit` or the translation. `judge` follows the answer of `plimsoll
//! simulate -o json`: a placed pod must fit in the model where it was placed, a pod that was not
//! placed must fit nowhere, and the sums on every card must be equal.
//!
//! `PLIMSOLL_CASES` sets the number of clusters, `PLIMSOLL_SEED` the first one.

mod asks;
mod judge;
mod model;
mod objects;
mod random;
mod world;

use crate::tool::piped;

use judge::Judge;
use random::Random;
use world::World;

/// The number of clusters without `PLIMSOLL_CASES`.
const CASES: u64 = 120;

#[test]
fn random_clusters_are_read_and_filled_as_an_independent_model_says() {
    let (first, cases) = (number("PLIMSOLL_SEED", 0), number("PLIMSOLL_CASES", CASES));
    let mut seen = judge::Seen::default();
    for seed in first..first + cases {
        let world = World::any(&mut Random::new(seed));
        let objects = objects::list(&world).to_string();
        let run = piped("simulate -f - -o json", &objects);
        assert!(matches!(run.code, Some(0 | 1)), "seed {seed}: {}\n{objects}", run.err);
        let sheet = serde_json::from_str(&run.out).expect("JSON");
        if let Err(problem) = Judge::new(&world).judge(&sheet, &mut seen) {
            panic!("PLIMSOLL_SEED={seed} PLIMSOLL_CASES=1: {problem}\n{objects}");
        }
    }
    // A test that only ever sees one answer proves nothing.
    assert!(cases < CASES || seen.placed > cases && seen.rejected > cases, "{seen:?}");
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).unwrap_or_default();
    if text.is_empty() { default } else { text.parse().expect("a whole number") }
}
