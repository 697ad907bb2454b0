//! Gangs: members that are placed together or not at all, each with its own reason.

use std::ops::ControlFlow;

use crate::candidate::{Judge, OutOfSteps};
use crate::decide::{Decision, Outcome, decide};
use crate::draft::{Draft, View};
use crate::fit::Placement;
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::reason::RequestReason;
use crate::request::{Need, Request};
use crate::room::NodeView;
use crate::rules::{NodeRules, Requirement, Subject};
use crate::units::Name;
use crate::verdict::Candidate;

/// Members that stand or fall together.
#[derive(Clone, Debug)]
pub struct Gang {
    /// Its name.
    pub name: Name,
    /// How many members must be placed together. More are placed where they can be.
    pub minimum: u32,
    /// The members, in the order in which they are served.
    pub members: Vec<Request>,
}

impl Gang {
    /// Opens a draft in which what was promised to the members does not stand in their own way.
    pub fn draft<'a>(&self, ledger: &'a Ledger) -> Draft<'a> {
        let mut draft = Draft::of(ledger);
        for member in &self.members {
            draft.without_promise_to(&member.id);
        }
        draft
    }
}

/// The answer to a gang: one decision a member, in their order.
#[derive(Clone, Debug)]
#[must_use = "an unread decision explains nothing"]
pub struct GangDecision {
    /// One decision a member. When the gang is refused, all are.
    pub decisions: Vec<Decision>,
    /// Whether the gang was placed.
    pub placed: bool,
    /// Whether the search was cut off before it could say no.
    pub cut_off: bool,
}

/// Decides a gang: a place for at least the minimum of members together, or for none.
pub fn decide_gang(ledger: &Ledger, policy: &Policy, gang: &Gang) -> GangDecision {
    decide_gang_on(&gang.draft(ledger), policy, gang)
}

/// Decides a gang as [`decide_gang`] does, on a ledger with changes that are not made yet.
pub fn decide_gang_on(base: &Draft, policy: &Policy, gang: &Gang) -> GangDecision {
    let members = u32::try_from(gang.members.len()).unwrap_or(u32::MAX);
    let (decisions, placed) = in_turn(base, policy, &gang.members);
    if placed == members && placed >= gang.minimum {
        return GangDecision { decisions, placed: true, cut_off: false };
    }
    let found = if members < gang.minimum { Ok(None) } else { search(base, policy, gang) };
    match found {
        Ok(Some(places)) => GangDecision {
            decisions: along(base, policy, &gang.members, places),
            placed: true,
            cut_off: false,
        },
        // The search was cut off, but serving the members in turn had already found enough places.
        Err(OutOfSteps) if placed >= gang.minimum => {
            GangDecision { decisions, placed: true, cut_off: true }
        }
        Ok(None) => {
            let (gang, minimum) = (gang.name.clone(), gang.minimum);
            let reason = RequestReason::GangIncomplete { gang, minimum, placed, members };
            GangDecision { decisions: refuse(decisions, &reason), placed: false, cut_off: false }
        }
        Err(OutOfSteps) => {
            let (gang, minimum, steps) = (gang.name.clone(), gang.minimum, policy.search_steps);
            let reason = RequestReason::GangNotFound { gang, minimum, placed, steps };
            GangDecision { decisions: refuse(decisions, &reason), placed: false, cut_off: true }
        }
    }
}

/// Serves the members one after the other, each with the place it likes best.
fn in_turn(base: &Draft, policy: &Policy, members: &[Request]) -> (Vec<Decision>, u32) {
    let mut draft = base.clone();
    let mut placed = 0;
    let decisions = members.iter().map(|member| {
        let decision = decide(&draft, policy, member);
        if let Some(placement) = decision.placement() {
            draft
                .place(member, placement)
                .expect("what decide proposes the draft admits, on the same rows");
            placed += 1;
        }
        decision
    });
    (decisions.collect(), placed)
}

/// Places for the members, by trying all; with as few members left out as can be.
fn search(
    base: &Draft,
    policy: &Policy,
    gang: &Gang,
) -> Result<Option<Vec<Option<Placement>>>, OutOfSteps> {
    let spare = gang.members.len().saturating_sub(gang.minimum as usize);
    let mut steps = policy.search_steps;
    for left_out in 0..=spare {
        let mut places = Vec::new();
        let names = Names::of(&gang.members);
        let mut hunt = Hunt { policy, members: &gang.members, names, steps: &mut steps };
        if hunt.descend(base, left_out, &mut places)?.is_break() {
            return Ok(Some(places));
        }
    }
    Ok(None)
}

/// What members call by name: those do not stand for each other.
#[derive(Clone, Copy)]
struct Names {
    nodes: bool,
    devices: bool,
}

impl Names {
    fn of(members: &[Request]) -> Self {
        let named = |requirement: &Requirement| requirement.subject == Subject::NodeName;
        let nodes = |rules: &NodeRules| {
            let terms = rules.any.iter().chain(rules.preferred.iter().map(|(_, term)| term));
            rules.named.is_some()
                || rules.all.iter().chain(terms.flat_map(|term| &term.0)).any(named)
        };
        let devices = |need: &Need| need.wishes.names_devices();
        let needs = |member: &Request| member.spec.needs().any(devices);
        Names {
            nodes: members.iter().any(|m| nodes(&m.spec.rules)),
            devices: members.iter().any(needs),
        }
    }
}

struct Hunt<'a> {
    policy: &'a Policy,
    members: &'a [Request],
    names: Names,
    steps: &'a mut u32,
}

impl Hunt<'_> {
    /// Breaks when every member from here on has a place, or is among those left out.
    fn descend(
        &mut self,
        draft: &Draft,
        left_out: usize,
        places: &mut Vec<Option<Placement>>,
    ) -> Result<ControlFlow<()>, OutOfSteps> {
        let Some(member) = self.members.get(places.len()) else {
            return Ok(ControlFlow::Break(()));
        };
        let policy = self.policy.leaning(&member.spec.leaning);
        let shapes = u16::try_from(member.spec.shapes().len()).unwrap_or(u16::MAX);
        for shape in 0..shapes {
            let mut tried: Vec<&NodeView> = Vec::new();
            for (_, view) in draft.nodes() {
                if !self.names.nodes && tried.iter().any(|earlier| alike(earlier, view)) {
                    continue;
                }
                tried.push(view);
                for place in self.places(view, &policy, member, shape)? {
                    let mut next = draft.clone();
                    next.place(member, &place)
                        .expect("what the search proposes the draft admits, on the same rows");
                    places.push(Some(place));
                    if self.descend(&next, left_out, places)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    places.pop();
                }
            }
        }
        if left_out > 0 {
            places.push(None);
            if self.descend(draft, left_out - 1, places)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            places.pop();
        }
        Ok(ControlFlow::Continue(()))
    }

    fn places(
        &mut self,
        view: &NodeView,
        policy: &Policy,
        member: &Request,
        shape: u16,
    ) -> Result<Vec<Placement>, OutOfSteps> {
        let mut found = Vec::new();
        *self.steps = self.steps.checked_sub(1).ok_or(OutOfSteps)?;
        let mut keep = |place| {
            found.push(place);
            ControlFlow::Continue(())
        };
        let judge = Judge::new(policy, &member.spec, shape);
        let judge = if self.names.devices { judge.telling_devices_apart() } else { judge };
        let _ = judge.each_placement(view, self.steps, &mut keep)?;
        Ok(found)
    }
}

/// Whether two nodes would answer every member alike, so that trying one is enough.
fn alike(one: &NodeView, other: &NodeView) -> bool {
    one.node.labels == other.node.labels
        && one.node.taints == other.node.taints
        && one.node.files == other.node.files
        && one.node.failed_starts == other.node.failed_starts
        && one.node.unschedulable == other.node.unschedulable
        && one.node.silent_since == other.node.silent_since
        && one.node.allocatable == other.node.allocatable
        && one.node.choice == other.node.choice
        && one.node.missing_cards == other.node.missing_cards
        && one.node.unknown == other.node.unknown
        && one.node.devices == other.node.devices
        && one.room.same_fit_inputs(&other.room)
}

/// The members' decisions along places that were found together.
fn along(
    base: &Draft,
    policy: &Policy,
    members: &[Request],
    places: Vec<Option<Placement>>,
) -> Vec<Decision> {
    let mut draft = base.clone();
    let decisions = members.iter().zip(places).map(|(member, place)| {
        let decision = decide(&draft, policy, member);
        let outcome = match place {
            Some(place) => {
                let view = base
                    .ledger()
                    .node_id(&place.node)
                    .and_then(|id| draft.node(id))
                    .expect("places are on nodes");
                let score =
                    Judge::new(&decision.policy, &member.spec, place.shape).score(view, &place);
                draft.place(member, &place).expect("the search tried these places in this order");
                Outcome::Placed(Candidate { placement: place, score })
            }
            None => Outcome::Rejected(None),
        };
        decision.with_outcome(outcome)
    });
    decisions.collect()
}

fn refuse(decisions: Vec<Decision>, reason: &RequestReason) -> Vec<Decision> {
    let refuse = |decision: Decision| match decision.outcome {
        Outcome::Rejected(Some(_)) => decision,
        _ => decision.with_outcome(Outcome::Rejected(Some(reason.clone()))),
    };
    decisions.into_iter().map(refuse).collect()
}
