//! What would make a refused request fit: the smallest changes, each carried out on a draft and found to fit.

use std::num::{NonZeroU16, NonZeroU64};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::charge::{Holding, HoldingId, Stage};
use crate::decide::{Decision, decide};
use crate::draft::Draft;
use crate::evict::{self, Planned};
use crate::gang::{Gang, decide_gang_on};
use crate::ledger::{Ledger, NodeId};
use crate::policy::Policy;
use crate::reason::{Change, NodeReason, Reason};
use crate::request::{Amount, Need, PlainRule, Request, RequestId, Spec};
use crate::rules::NodeRules;
use crate::units::{Bytes, Name};
use crate::verdict::{NeedVerdict, NodeVerdict, Table};

/// A change that would make the request fit. Every one was tried and found to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// What kind of change.
    pub kind: Kind,
    /// The change in words, reading after "it would fit if".
    pub text: String,
    /// What is changed: holders, a node, a rule.
    pub target: Vec<Name>,
    /// How much: bytes to ask for, bytes given up, devices.
    pub amount: Option<u64>,
}

/// What kind of change. In the order of harm: those that harm nobody stand first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Another rule for requests that declare no memory.
    PlainRule,
    /// Another node, which a rule of the request rules out.
    OtherNode,
    /// More devices, each with less.
    MoreDevices,
    /// Fewer devices.
    FewerDevices,
    /// A shorter context.
    LowerContext,
    /// A cache of keys and values that takes less.
    SmallerCache,
    /// Less memory.
    AskLess,
    /// Somebody gives up a place.
    GiveUp,
}

/// The smallest changes that would make a refused request fit, those that harm nobody first.
pub fn remedies(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    refused: &Decision,
) -> Vec<Remedy> {
    let bench = Bench { ledger, policy, request, refused };
    let found = [
        bench.plain_rule(),
        bench.other_node(),
        bench.more_devices(),
        bench.fewer_devices(),
        bench.ask_less(),
        bench.give_up(),
    ];
    found.into_iter().flatten().collect()
}

/// The smallest changes that would let a whole rejected gang in, those that harm nobody first. A change that would let in
/// one member alone is no help and is not proposed.
///
/// Only single holders are tried, the smallest first and at most `HOLDERS_TRIED` of them, since each costs a whole
/// decision of the gang. Sets of holders would be as many as there are subsets.
pub fn gang_remedies(ledger: &Ledger, policy: &Policy, gang: &Gang) -> Vec<Remedy> {
    let mut holders: Vec<(HoldingId, &Holding)> =
        ledger.holdings().filter(|(_, holding)| could_leave(holding)).collect();
    holders.sort_by_key(|(_, holding)| {
        (holding.bytes().is_none(), holding.bytes(), holding.request.clone())
    });
    let enough = holders.into_iter().take(HOLDERS_TRIED).find(|(id, _)| {
        let mut draft = gang.draft(ledger);
        draft.without(*id);
        decide_gang_on(&draft, policy, gang).placed
    });
    enough
        .map(|(_, holding)| gave_up(&[&holding.request], "gave up", holding.bytes()))
        .into_iter()
        .collect()
}

/// The holders that are tried for a gang.
const HOLDERS_TRIED: usize = 24;

/// Tells whether a holder could be asked to leave and has not been yet.
fn could_leave(holding: &Holding) -> bool {
    !holding.terms.pinned && !holding.stage.is_releasing() && !holding.charges.is_empty()
}

fn gave_up(holders: &[&RequestId], verb: &str, bytes: Option<Bytes>) -> Remedy {
    let names: Vec<Name> = holders.iter().map(|id| Name::from(id.to_string())).collect();
    let size = bytes.map_or(String::new(), |bytes| format!(" ({bytes})"));
    Remedy {
        kind: Kind::GiveUp,
        text: format!("{} {verb}{size}", names.join(" and ")),
        target: names,
        amount: bytes.map(Bytes::get),
    }
}

struct Bench<'a> {
    ledger: &'a Ledger,
    policy: &'a Policy,
    request: &'a Request,
    refused: &'a Decision,
}

impl Bench<'_> {
    /// Whether the request fits when its spec is changed so.
    fn fits(&self, change: impl FnOnce(&mut Spec)) -> Option<Decision> {
        let mut spec = Spec::clone(&self.request.spec);
        change(&mut spec);
        let request = Request { spec: Arc::new(spec), ..self.request.clone() };
        let decision = decide(&self.draft(), self.policy, &request);
        decision.chosen().is_some().then_some(decision)
    }

    /// Opens a draft in which the request's own promise does not stand in its way.
    fn draft(&self) -> Draft<'_> {
        let mut draft = Draft::of(self.ledger);
        draft.without_promise_to(&self.request.id);
        draft
    }

    fn first_need(&self) -> Option<&Need> {
        let shape = self.request.spec.shapes().last()?;
        shape.containers.iter().flat_map(|container| &container.needs).next()
    }

    fn verdicts(&self) -> impl Iterator<Item = NodeVerdict<'_>> {
        self.refused.table().into_iter().flat_map(Table::by_name)
    }

    fn plain_rule(&self) -> Option<Remedy> {
        let now = self.request.spec.needs().find_map(|need| match need.amount {
            Amount::Plain(rule) => Some(rule),
            _ => None,
        })?;
        let others =
            [PlainRule::Whole, PlainRule::EqualShare].into_iter().filter(|rule| *rule != now);
        let fitting = |rule: &PlainRule| {
            let change = |need: &mut Need| {
                if matches!(need.amount, Amount::Plain(_)) {
                    need.amount = Amount::Plain(*rule);
                }
            };
            self.fits(|spec| spec.change_needs(change)).is_some()
        };
        let rule = others.into_iter().find(fitting)?;
        Some(Remedy {
            kind: Kind::PlainRule,
            text: format!("requests without declared memory counted as {rule} (--plain {rule})"),
            target: vec![rule.to_string().into()],
            amount: None,
        })
    }

    fn other_node(&self) -> Option<Remedy> {
        let ruled_out = |verdict: &NodeVerdict| {
            let by_rule = |reason: &NodeReason| {
                matches!(
                    reason,
                    NodeReason::NotNamed { .. }
                        | NodeReason::SelectorMismatch { .. }
                        | NodeReason::AffinityMismatch
                        | NodeReason::TaintNotTolerated { .. }
                )
            };
            verdict.reason.as_ref().is_some_and(by_rule)
                && verdict.needs.iter().all(|need| need.passed)
        };
        let verdict = self.verdicts().filter(ruled_out).find(|verdict| {
            let name = verdict.view.node.name.clone();
            let tolerations = verdict.view.node.taints.iter().map(tolerate).collect();
            let rules = NodeRules { named: Some(name), tolerations, ..NodeRules::default() };
            self.fits(|spec| spec.rules = rules).is_some()
        })?;
        let node = &verdict.view.node.name;
        let reason = verdict.reason.as_ref().expect("only nodes that a rule ruled out are tried");
        Some(Remedy {
            kind: Kind::OtherNode,
            text: format!("it could run on {node}, which {reason}"),
            target: vec![node.clone()],
            amount: None,
        })
    }

    fn more_devices(&self) -> Option<Remedy> {
        let need = self.first_need().filter(|_| self.request.spec.needs().count() == 1)?;
        let Amount::Bytes(bytes) = need.amount else {
            return None;
        };
        let total = Bytes::new(bytes.get()).get().checked_mul(u64::from(need.count.get()))?;
        let most = self.verdicts().map(|verdict| verdict.view.node.devices.len()).max()?;
        let most = u16::try_from(most.min(16)).ok()?;
        let (count, each) = (need.count.get().saturating_add(1)..=most).find_map(|count| {
            let each =
                Bytes::new(total).split_up(NonZeroU64::from(NonZeroU16::new(count)?)).ceil_mib();
            let change = |need: &mut Need| {
                need.count = NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
                need.amount = Amount::bytes(each);
            };
            self.fits(|spec| spec.change_needs(change)).map(|_| (count, each))
        })?;
        Some(Remedy {
            kind: Kind::MoreDevices,
            text: format!("it were split over {count} devices with {each} on each"),
            target: Vec::new(),
            amount: Some(u64::from(count)),
        })
    }

    fn fewer_devices(&self) -> Option<Remedy> {
        let most = self.request.spec.needs().map(|need| need.count.get()).max()?;
        let largest = self.verdicts().map(|verdict| verdict.view.node.devices.len()).max()?;
        let most = most.min(u16::try_from(largest).ok()?.saturating_add(1));
        let count = (1..most).rev().find(|count| {
            let limit = NonZeroU16::new(*count).unwrap_or(NonZeroU16::MIN);
            let change = |need: &mut Need| need.count = need.count.min(limit);
            self.fits(|spec| spec.change_needs(change)).is_some()
        })?;
        let (text, amount) = match count {
            1 => ("it asked for 1 device".to_string(), 1),
            count => (format!("it asked for {count} devices"), count),
        };
        Some(Remedy {
            kind: Kind::FewerDevices,
            text,
            target: Vec::new(),
            amount: Some(u64::from(amount)),
        })
    }

    /// The most it could ask for: what is open on the devices that lack nothing but memory.
    fn ask_less(&self) -> Option<Remedy> {
        let need = self
            .first_need()
            .filter(|need| matches!(need.amount, Amount::Bytes(_) | Amount::Portion(_)))?;
        let wanted = usize::from(need.count.get());
        let open_on = |verdict: NodeVerdict| {
            let failed = verdict.needs.iter().find(|need| !need.passed)?;
            let lacks_memory = |reason: &Option<Reason>| {
                matches!(
                    reason,
                    None | Some(
                        Reason::ShortOfMemory { .. }
                            | Reason::TenantsMayMeet { .. }
                            | Reason::TooSmall { .. }
                            | Reason::TooFew { .. }
                            | Reason::ChoiceNotOwned
                            | Reason::NumaNotFit { .. }
                    )
                )
            };
            let mut open: Vec<Bytes> = failed
                .devices
                .iter()
                .filter(|device| lacks_memory(&device.reason))
                .filter_map(|device| {
                    let room = &verdict.view.room.devices()[usize::from(device.ordinal)];
                    if need.slots > 0 { room.open_with_token() } else { room.open() }
                })
                .collect();
            open.sort_unstable();
            let floats = verdict.view.node.floats(&need.kind);
            let at = if floats { 0 } else { open.len().checked_sub(wanted)? };
            open.get(at).copied()
        };
        let mut offers: Vec<Bytes> = self
            .verdicts()
            .filter(|v| v.reason.is_none())
            .filter_map(open_on)
            .map(Bytes::floor_mib)
            .filter(|b| !b.is_zero())
            .collect();
        offers.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
        offers.dedup();
        let fitting = |bytes: &Bytes| {
            let change = |need: &mut Need| {
                let more = |asked: NonZeroU64| asked.get() > bytes.get();
                if matches!(need.amount, Amount::Portion(_))
                    || matches!(need.amount, Amount::Bytes(asked) if more(asked))
                {
                    need.amount = Amount::bytes(*bytes);
                }
            };
            self.fits(|spec| spec.change_needs(change)).is_some()
        };
        let most = offers.into_iter().take(8).find(fitting)?;
        let each = if wanted > 1 { " on each device" } else { "" };
        Some(Remedy {
            kind: Kind::AskLess,
            text: format!("it asked for at most {most}{each}"),
            target: Vec::new(),
            amount: Some(most.get()),
        })
    }

    /// The nodes that lack the least: only there is it asked who could give up a place.
    fn nearest_nodes(&self) -> Vec<NodeId> {
        const LOOKED_AT: usize = 16;
        let mut nodes: Vec<_> =
            self.verdicts().map(|verdict| (distance(verdict), &verdict.view.node.name)).collect();
        nodes.sort();
        nodes.iter().take(LOOKED_AT).filter_map(|(_, name)| self.ledger.node_id(name)).collect()
    }

    fn give_up(&self) -> Option<Remedy> {
        let could_go = |holding: &Holding| {
            !holding.terms.pinned && !matches!(holding.stage, Stage::Releasing { .. })
        };
        let nearest = self.nearest_nodes();
        let plan = evict::plan_by_bytes(self.ledger, self.policy, self.request, &nearest, could_go);
        let Planned::Found(plan) = plan else {
            return None;
        };
        let gone = if self.enough(&plan.victims) { plan.victims.clone() } else { plan.after };
        if gone.is_empty() {
            return None;
        }
        let bytes = gone.iter().try_fold(Bytes::ZERO, |sum, id| {
            Some(sum.plus(self.ledger.of_request(id)?.1.bytes()?))
        });
        let verb = if plan.victims.is_empty() { "were gone" } else { "gave up" };
        Some(gave_up(&gone.iter().collect::<Vec<_>>(), verb, bytes))
    }

    /// Whether it fits as soon as these have gone, whoever else is still on the way out.
    fn enough(&self, victims: &[RequestId]) -> bool {
        let mut draft = self.draft();
        for (id, _) in victims.iter().filter_map(|victim| self.ledger.of_request(victim)) {
            draft.without(id);
        }
        decide(&draft, self.policy, self.request).chosen().is_some()
    }
}

/// How far a node is from fitting: by a lasting rule, by what its needs lack in all, else by something that is no size.
fn distance(verdict: NodeVerdict) -> (bool, Bytes) {
    let lasting =
        verdict.reason.as_ref().is_some_and(|reason| reason.clears_on() != Change::LoadFell);
    let failed = verdict.needs.iter().filter(|need| !need.passed);
    let short = |need: &NeedVerdict| {
        need.devices
            .iter()
            .filter_map(|device| device.reason.as_ref()?.short_by())
            .min()
            .unwrap_or(Bytes::DEVICE_MAX)
    };
    (lasting, failed.map(short).fold(Bytes::ZERO, Bytes::plus))
}

fn tolerate(taint: &crate::rules::Taint) -> crate::rules::Toleration {
    let (key, value, effect) =
        (Some(taint.key.clone()), Some(taint.value.clone()), Some(taint.effect));
    crate::rules::Toleration { key, value, effect }
}
