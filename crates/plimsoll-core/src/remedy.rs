//! Remedies: the smallest changes that would make a rejected request fit.
//!
//! Each kind of change has one search, and each proposal is verified: the change is made to a copy
//! of the request or to a draft, and `decide` has to place it. So a remedy is never a guess from
//! the reasons, which often hide a second reason behind the first. The price is one decision per
//! proposal, and every search is bounded: two rules, the nodes that a rule excludes, at most 16
//! device counts, at most 8 amounts (the largest first, taken from what is open on devices that
//! lack only memory), and one eviction plan over the 16 nearest nodes. A binary search for the
//! amount was rejected: on cards of different sizes and with portions, fitting is not monotonic.

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
use crate::units::{Bytes, Name, SizeFormat};
use crate::verdict::{NeedVerdict, NodeVerdict, Table};

/// A change that would make the request fit, verified by a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    pub kind: RemedyKind,
    /// The change as text, which reads after "it would fit if".
    pub text: String,
    /// The holders, the node or the rule to change.
    pub target: Vec<Name>,
    /// The bytes to request, the bytes to release, or the number of devices.
    pub amount: Option<u64>,
}

/// The kind of a remedy, in the order of harm: changes that cost other requests nothing come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyKind {
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
    /// A smaller type of the key-value cache.
    SmallerCache,
    /// Less memory.
    AskLess,
    /// Holders that stop and release their memory.
    #[serde(rename = "give_up")]
    StopHolders,
}

/// Returns the smallest changes that would make a rejected request fit, the least harmful first.
pub fn remedies(
    ledger: &Ledger,
    policy: &Policy,
    request: &Request,
    rejected: &Decision,
) -> Vec<Remedy> {
    let advisor = Advisor { ledger, policy, request, rejected };
    let found = [
        advisor.plain_rule(),
        advisor.other_node(),
        advisor.more_devices(),
        advisor.fewer_devices(),
        advisor.ask_less(),
        advisor.stop_holders(),
    ];
    found.into_iter().flatten().collect()
}

/// Returns the holder whose release would make a rejected gang fit, if there is one. A change that
/// helps a single member is not proposed.
///
/// Tries only single holders, the smallest first and at most `HOLDERS_TRIED` of them, because each
/// costs a decision of the whole gang. The number of sets of holders is exponential.
pub fn gang_remedies(ledger: &Ledger, policy: &Policy, gang: &Gang) -> Vec<Remedy> {
    let mut holders: Vec<(HoldingId, &Holding)> =
        ledger.holdings().filter(|(_, holding)| could_stop(holding)).collect();
    holders.sort_by_key(|(_, holding)| {
        (holding.bytes().is_none(), holding.bytes(), holding.request.clone())
    });
    let enough = holders.into_iter().take(HOLDERS_TRIED).find(|(id, _)| {
        let mut draft = gang.draft(ledger);
        draft.without(*id);
        decide_gang_on(&draft, policy, gang).placed
    });
    enough
        .map(|(_, holding)| stop_holders(&[&holding.request], "stopped", holding.bytes()))
        .into_iter()
        .collect()
}

/// The number of holders that are tried for a gang.
const HOLDERS_TRIED: usize = 24;

/// Returns true if a holder could be stopped and is not being stopped yet.
fn could_stop(holding: &Holding) -> bool {
    !holding.terms.pinned && !holding.stage.is_releasing() && !holding.charges.is_empty()
}

fn stop_holders(holders: &[&RequestId], verb: &str, bytes: Option<Bytes>) -> Remedy {
    let names: Vec<Name> = holders.iter().map(|id| Name::from(id.to_string())).collect();
    let size = bytes
        .map_or(String::new(), |bytes| format!(" ({})", SizeFormat::for_size(bytes).show(bytes)));
    Remedy {
        kind: RemedyKind::StopHolders,
        text: format!("{} {verb}{size}", names.join(" and ")),
        target: names,
        amount: bytes.map(Bytes::get),
    }
}

/// A rejected request, and the searches for its remedies.
struct Advisor<'a> {
    ledger: &'a Ledger,
    policy: &'a Policy,
    request: &'a Request,
    rejected: &'a Decision,
}

impl Advisor<'_> {
    /// Decides the request with a changed spec; `None` if it is not placed.
    fn fits(&self, change: impl FnOnce(&mut Spec)) -> Option<Decision> {
        let mut spec = Spec::clone(&self.request.spec);
        change(&mut spec);
        let request = Request { spec: Arc::new(spec), ..self.request.clone() };
        let decision = decide(&self.draft(), self.policy, &request);
        decision.chosen().is_some().then_some(decision)
    }

    /// Creates a draft without the promise to the request, which must not block the request itself.
    fn draft(&self) -> Draft<'_> {
        let mut draft = Draft::new(self.ledger);
        draft.without_promise_to(&self.request.id);
        draft
    }

    fn first_need(&self) -> Option<&Need> {
        let shape = self.request.spec.shapes().last()?;
        shape.containers.iter().flat_map(|container| &container.needs).next()
    }

    fn verdicts(&self) -> impl Iterator<Item = NodeVerdict<'_>> {
        self.rejected.table().into_iter().flat_map(Table::by_name)
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
            kind: RemedyKind::PlainRule,
            text: format!("requests without declared memory counted as {rule} (--plain {rule})"),
            target: vec![rule.to_string().into()],
            amount: None,
        })
    }

    fn other_node(&self) -> Option<Remedy> {
        let verdict = self.verdicts().filter(is_excluded_by_rule_only).find(|verdict| {
            let name = verdict.view.node.name.clone();
            let tolerations = verdict.view.node.taints.iter().map(tolerate).collect();
            let rules = NodeRules { named: Some(name), tolerations, ..NodeRules::default() };
            self.fits(|spec| spec.rules = rules).is_some()
        })?;
        let node = &verdict.view.node.name;
        let reason = verdict.reason.as_ref().expect("only nodes that a rule excludes are tried");
        Some(Remedy {
            kind: RemedyKind::OtherNode,
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
            kind: RemedyKind::MoreDevices,
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
            kind: RemedyKind::FewerDevices,
            text,
            target: Vec::new(),
            amount: Some(u64::from(amount)),
        })
    }

    /// Finds the largest amount that fits, among what is open on devices that lack only memory.
    fn ask_less(&self) -> Option<Remedy> {
        let need = self
            .first_need()
            .filter(|need| matches!(need.amount, Amount::Bytes(_) | Amount::Portion(_)))?;
        let wanted = usize::from(need.count.get());
        let mut offers: Vec<Bytes> = self
            .verdicts()
            .filter(|verdict| verdict.reason.is_none())
            .filter_map(|verdict| largest_amount_on(verdict, need))
            .map(Bytes::floor_mib)
            .filter(|bytes| *bytes >= self.least_realistic(need) && !bytes.is_zero())
            .collect();
        offers.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
        offers.dedup();
        let most = offers.into_iter().take(AMOUNTS_TRIED).find(|most| {
            self.fits(|spec| spec.change_needs(|need| lower_amount(need, *most))).is_some()
        })?;
        let each = if wanted > 1 { " on each device" } else { "" };
        Some(Remedy {
            kind: RemedyKind::AskLess,
            text: format!(
                "it asked for at most {}{each}",
                SizeFormat::for_size(most).show_limit(most)
            ),
            target: Vec::new(),
            amount: Some(most.get()),
        })
    }

    /// Returns the smallest amount worth proposing: half of what is asked. A request that needs a
    /// model's memory cannot do with a fraction of it.
    fn least_realistic(&self, need: &Need) -> Bytes {
        let asked = match &need.amount {
            Amount::Bytes(bytes) => Some(Bytes::new(bytes.get())),
            // A portion is another amount on every kind of device.
            _ => {
                let needs = self.verdicts().flat_map(|verdict| &verdict.finding.needs);
                needs.flat_map(|need| &need.devices).filter_map(|device| device.need).min()
            }
        };
        Bytes::new(asked.unwrap_or_default().get().div_ceil(2))
    }

    /// Returns the nodes that lack the least. Only their holders are considered.
    fn nearest_nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<_> =
            self.verdicts().map(|verdict| (distance(verdict), &verdict.view.node.name)).collect();
        nodes.sort();
        nodes.iter().take(NODES_TRIED).filter_map(|(_, name)| self.ledger.node_id(name)).collect()
    }

    fn stop_holders(&self) -> Option<Remedy> {
        let is_stoppable = |holding: &Holding| {
            !holding.terms.pinned && !matches!(holding.stage, Stage::Releasing { .. })
        };
        let nearest = self.nearest_nodes();
        let plan =
            evict::plan_by_bytes(self.ledger, self.policy, self.request, &nearest, is_stoppable);
        let Planned::Found(plan) = plan else {
            return None;
        };
        let stopped =
            if self.fits_without(&plan.victims) { plan.victims.clone() } else { plan.after };
        if stopped.is_empty() {
            return None;
        }
        let bytes = stopped.iter().try_fold(Bytes::ZERO, |sum, id| {
            Some(sum.plus(self.ledger.of_request(id)?.1.bytes()?))
        });
        let verb = if plan.victims.is_empty() { "had stopped" } else { "stopped" };
        Some(stop_holders(&stopped.iter().collect::<Vec<_>>(), verb, bytes))
    }

    /// Returns true if the request fits without these holders, before any release in progress.
    fn fits_without(&self, victims: &[RequestId]) -> bool {
        let mut draft = self.draft();
        for (id, _) in victims.iter().filter_map(|victim| self.ledger.of_request(victim)) {
            draft.without(id);
        }
        decide(&draft, self.policy, self.request).chosen().is_some()
    }
}

/// The number of amounts that are tried, the largest first.
const AMOUNTS_TRIED: usize = 8;

/// The number of nodes whose holders are considered.
const NODES_TRIED: usize = 16;

/// Returns true if the request's own rules exclude a node on which every need fits.
fn is_excluded_by_rule_only(verdict: &NodeVerdict) -> bool {
    let by_rule = matches!(
        verdict.reason,
        Some(
            NodeReason::NotNamed { .. }
                | NodeReason::SelectorMismatch { .. }
                | NodeReason::AffinityMismatch
                | NodeReason::TaintNotTolerated { .. }
        )
    );
    by_rule && verdict.needs.iter().all(|need| need.passed)
}

/// Returns the largest amount that enough devices of a node have open, among devices that lack only
/// memory. Where the device plugin picks the card, every card must have it.
fn largest_amount_on(verdict: NodeVerdict, need: &Need) -> Option<Bytes> {
    let failed = verdict.needs.iter().find(|need| !need.passed)?;
    let rooms = verdict.view.room.devices();
    let mut open: Vec<Bytes> = failed
        .devices
        .iter()
        .filter(|device| lacks_only_memory(device.reason.as_ref()))
        .filter_map(|device| {
            let room = &rooms[usize::from(device.ordinal)];
            if need.slots > 0 { room.open_with_token() } else { room.open() }
        })
        .collect();
    open.sort_unstable();
    let floats = verdict.view.node.floats(&need.kind);
    let wanted = usize::from(need.count.get());
    let at = if floats { 0 } else { open.len().checked_sub(wanted)? };
    open.get(at).copied()
}

fn lacks_only_memory(reason: Option<&Reason>) -> bool {
    matches!(
        reason,
        None | Some(
            Reason::ShortOfMemory { .. }
                | Reason::TenantsMayMeet { .. }
                | Reason::TooSmall { .. }
                | Reason::TooSmallTogether { .. }
                | Reason::TooFew { .. }
                | Reason::ChoiceNotOwned
                | Reason::NumaNotFit { .. }
        )
    )
}

/// Lowers the amount of a need to at most `most`.
fn lower_amount(need: &mut Need, most: Bytes) {
    let is_above = match need.amount {
        Amount::Portion(_) => true,
        Amount::Bytes(asked) => asked.get() > most.get(),
        _ => false,
    };
    if is_above {
        need.amount = Amount::bytes(most);
    }
}

/// Orders nodes by how much they lack: nodes without a lasting reason first, then by the memory
/// that their needs lack in sum. A need that lacks something other than memory counts as the
/// largest size.
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
