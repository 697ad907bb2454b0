//! Placements that fit and were not chosen, and the score term that they lost by.

use plimsoll_core::candidate::Judge;
use plimsoll_core::decide::Decision;
use plimsoll_core::fit;
use plimsoll_core::score::{Score, Term};
use plimsoll_core::units::Name;
use plimsoll_core::verdict::{Candidate, NodeVerdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::verdict;

/// A place that would have done, and why another was better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostBy {
    /// The node that lost, or on which the device lost.
    #[schema(value_type = String)]
    pub node: Name,
    /// The device that lost to others of the chosen node; `None` where a whole node lost.
    pub device: Option<String>,
    /// The term that it lost most by; `None` where the scores are equal.
    pub term: Option<String>,
    /// How far it is behind by that term; 0 where there is none.
    pub points_behind: i64,
    /// How far the sum of all terms is behind.
    pub total_behind: i64,
    /// The same in words.
    pub text: String,
}

/// Every place that fits and was not chosen: other nodes, and other devices of the chosen node.
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

/// Other devices of the chosen node, where one device was wanted: each scored as if it had been chosen.
fn devices_that_lost(decision: &Decision, found: &Candidate) -> Vec<LostBy> {
    let ([picked], Some(verdict)) =
        (&found.placement.picks[..], verdict_on(decision, &found.placement.node))
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
    let row = |ordinal: u16| {
        let place = fit::Placement { picks: vec![vec![ordinal]], ..found.placement.clone() };
        let score = judge.score(verdict.view, &place);
        let label = verdict.view.node.device_label(usize::from(ordinal));
        lost(found.placement.node.clone(), Some(label), &score, &found.score)
    };
    others.map(|device| row(device.ordinal)).collect()
}

fn lost(node: Name, device: Option<String>, score: &Score, better: &Score) -> LostBy {
    let total_behind = better.total() - score.total();
    let term = score.loses_by(better).filter(|_| total_behind > 0);
    let points_behind = term.map_or(0, |term| better.points(term) - score.points(term));
    let text = match term {
        Some(term) => {
            format!("{}, {points_behind} points behind ({total_behind} in all)", term.name())
        }
        None if total_behind == 0 && device.is_some() => "tie, by place on the node".to_string(),
        None if total_behind == 0 => "tie, by name".to_string(),
        // Only a gang gives up the better place of one member, so that all of them fit.
        None => "better for this pod alone, but then the gang would not fit whole".to_string(),
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

pub fn verdict_on<'a>(decision: &'a Decision, node: &str) -> Option<NodeVerdict<'a>> {
    let table = decision.table()?;
    table.unordered().find(|verdict| &*verdict.node == node)
}
