//! Placements that fit and were not chosen, and the score term that they lost by.

use plimsoll_core::candidate::Judge;
use plimsoll_core::decide::Decision;
use plimsoll_core::fit;
use plimsoll_core::score::{Score, Term};
use plimsoll_core::units::Name;
use plimsoll_core::verdict::Candidate;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::verdict;

/// A placement that fits and was not chosen, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostBy {
    /// The node that lost, or on which the device lost.
    #[schema(value_type = String)]
    pub node: Name,
    /// The device that lost to others of the chosen node; null if a whole node lost.
    pub device: Option<String>,
    /// The term that it lost most by; null for a tie.
    pub term: Option<String>,
    /// The points that it is behind by that term; 0 without a term.
    pub points_behind: i64,
    /// The points that its score is behind.
    pub total_behind: i64,
    /// The same in words.
    pub text: String,
}

/// Lists the placements that fit and were not chosen: on other nodes, and on other devices of the
/// chosen node.
pub fn lost_by(decision: &Decision) -> Vec<LostBy> {
    let Some(found) = decision.chosen() else { return Vec::new() };
    let nodes = verdict::ordered(decision)
        .into_iter()
        .filter(|verdict| verdict.view.node.name != found.placement.node);
    let mut rows: Vec<LostBy> = nodes
        .filter_map(|verdict| {
            let best = verdict.best.as_ref()?;
            Some(lost(verdict.view.node.name.clone(), None, &best.score, &found.score))
        })
        .collect();
    rows.extend(devices_that_lost(decision, found));
    rows
}

/// Scores each other device of the chosen node as if it had been chosen. Only for requests of one
/// device: for several, the placements that lost are too many to list.
fn devices_that_lost(decision: &Decision, found: &Candidate) -> Vec<LostBy> {
    let ([picked], Some(verdict)) =
        (&found.placement.picks[..], verdict::verdict_on(decision, &found.placement.node))
    else {
        return Vec::new();
    };
    let [need] = &verdict.needs[..] else { return Vec::new() };
    if need.wanted != 1 || picked.len() != 1 {
        return Vec::new();
    }
    let others = need
        .devices
        .iter()
        .filter(|device| device.reason.is_none() && !picked.contains(&device.ordinal));
    let judge = Judge::new(&decision.policy, &decision.spec, found.placement.shape);
    let mut rows = Vec::new();
    for device in others {
        let placement =
            fit::Placement { picks: vec![vec![device.ordinal]], ..found.placement.clone() };
        let score = judge.score(verdict.view, &placement);
        let label = verdict.view.node.device_label(usize::from(device.ordinal));
        rows.push(lost(found.placement.node.clone(), Some(label), &score, &found.score));
    }
    rows
}

fn lost(node: Name, device: Option<String>, score: &Score, better: &Score) -> LostBy {
    let total_behind = better.total() - score.total();
    let term = score.loses_by(better).filter(|_| total_behind > 0);
    let points_behind = term.map_or(0, |term| better.points(term) - score.points(term));
    let text = match term {
        Some(term) => {
            format!("{}, {points_behind} points behind ({total_behind} in total)", term.name())
        }
        None if total_behind == 0 && device.is_some() => "tie, decided by device order".to_string(),
        None if total_behind == 0 => "tie, decided by node name".to_string(),
        // Only a gang takes a lower score for one member, so that all members fit.
        None => "better for this pod alone, but then its gang would not fit".to_string(),
    };
    LostBy {
        node,
        device,
        term: term.map(Term::name).map(String::from),
        points_behind,
        total_behind,
        text,
    }
}
