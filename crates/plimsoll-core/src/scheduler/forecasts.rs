//! Makes forecasts of pending requests from the ledger and the queue. Reads only; nothing of it is
//! journalled, because positions and times change without an event.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::Scheduler;
use super::retry::Kind;
use crate::account::AccountRow;
use crate::charge::{Activity, Holding, Stage};
use crate::evict::{self, Clearing, Endless, EndlessHolders};
use crate::forecast::{EndlessHolder, ExpectedStart, Forecast, LISTED, Listed, Pause};
use crate::ledger::{NodeId, Promise};
use crate::queue::{PendingReason, PendingRequest};
use crate::reason::RequestReason;
use crate::rejection::Rejection;
use crate::request::{Request, RequestId};
use crate::units::{Millis, Name, Timespan};

/// The most nodes that all forecasts of one [`Forecasts`] judge. A forecast of a request without a
/// promise judges nodes, and a list of very different requests must not hold up decisions.
const NODES_JUDGED: usize = 20_000;

/// Forecasts at one moment. The order of the queue and the accounts are read once.
#[derive(Debug)]
pub struct Forecasts<'a> {
    scheduler: &'a Scheduler,
    now: Millis,
    /// Read on first use: most reservations in a list are not pending.
    in_turn: OnceCell<InTurn<'a>>,
    accounts: BTreeMap<Name, AccountRow>,
    cleared: BTreeMap<Kind, Cleared>,
    nodes_left: usize,
}

/// The pending requests in the order in which they would be tried now.
#[derive(Debug)]
struct InTurn<'a> {
    entries: Vec<&'a PendingRequest>,
    positions: BTreeMap<&'a RequestId, usize>,
}

impl<'a> InTurn<'a> {
    fn read(scheduler: &'a Scheduler) -> InTurn<'a> {
        let entries = scheduler.pending_in_turn();
        let positions = entries.iter().enumerate().map(|(at, entry)| (&entry.request.id, at));
        InTurn { positions: positions.collect(), entries }
    }

    /// Returns the entries before a request; all of them if it is not pending.
    fn before(&self, request: &RequestId) -> &[&'a PendingRequest] {
        let end = self.positions.get(request).copied().unwrap_or(self.entries.len());
        &self.entries[..end]
    }
}

/// The holders whose end would make room for a request, over all nodes.
#[derive(Clone, Debug)]
enum Cleared {
    /// The end of holders that can be retired for it, on this node.
    Retirable(NodeId),
    /// Only the end of holders that stay as long as they want.
    Endless(EndlessHolders),
    /// Nothing: it does not fit on an empty node either.
    Never,
    NotSearched,
}

impl Scheduler {
    /// Returns the forecasts of all pending requests at a time; each is made when it is asked for.
    pub fn forecasts(&self, now: Millis) -> Forecasts<'_> {
        Forecasts {
            scheduler: self,
            now,
            in_turn: OnceCell::new(),
            accounts: BTreeMap::new(),
            cleared: BTreeMap::new(),
            nodes_left: NODES_JUDGED,
        }
    }

    /// Returns the expected start of a request that is promised memory; `None` if it is not, or if
    /// nothing is in the way any more.
    pub fn promised_start(&self, request: &RequestId) -> Option<ExpectedStart> {
        let promise = self.ledger.promise_to(request)?;
        self.start_after(promise)
    }

    fn start_after(&self, promise: &Promise) -> Option<ExpectedStart> {
        let holders = promise.after.iter().filter_map(|holder| self.ledger.of_request(holder));
        let holders: Vec<&Holding> = holders.map(|(_, holding)| holding).collect();
        let (stopping, running): (Vec<&Holding>, Vec<&Holding>) =
            holders.iter().copied().partition(|holding| holding.stage.is_releasing());
        if !running.is_empty() {
            let working: Vec<&Holding> = running.into_iter().filter(|one| !is_idle(one)).collect();
            let requests = working.iter().map(|holding| requests_in_flight(holding)).sum();
            let working = Listed::of(working.iter().map(|holding| &holding.request));
            let stop_limit = longest_stop(&holders);
            return Some(ExpectedStart::AfterWork { working, requests, stop_limit });
        }
        (!stopping.is_empty()).then(|| after_stop(&stopping))
    }
}

/// Returns the longest limit of a stop; `None` if a holder has none.
fn longest_stop(holders: &[&Holding]) -> Option<Timespan> {
    let limits: Option<Vec<Timespan>> =
        holders.iter().map(|holding| holding.terms.stop_limit).collect();
    limits?.into_iter().max()
}

fn after_stop(stopping: &[&Holding]) -> ExpectedStart {
    let listed = Listed::of(stopping.iter().map(|holding| &holding.request));
    let ends: Option<Vec<Millis>> = stopping.iter().map(|holding| stops_by(holding)).collect();
    match ends.and_then(|ends| ends.into_iter().max()) {
        Some(at) => ExpectedStart::By { at, stopping: listed },
        None => ExpectedStart::AfterStop { stopping: listed },
    }
}

fn stops_by(holding: &Holding) -> Option<Millis> {
    match holding.stage {
        Stage::Releasing { since } => Some(since.after(holding.terms.stop_limit?)),
        _ => None,
    }
}

fn is_idle(holding: &Holding) -> bool {
    matches!(holding.activity, Activity::Idle { .. })
}

fn requests_in_flight(holding: &Holding) -> u32 {
    match holding.activity {
        Activity::Active { requests } => requests,
        Activity::Idle { .. } | Activity::Unknown => 0,
    }
}

impl<'a> Forecasts<'a> {
    /// Returns the time of the forecasts.
    pub fn now(&self) -> Millis {
        self.now
    }

    fn in_turn(&self) -> &InTurn<'a> {
        self.in_turn.get_or_init(|| InTurn::read(self.scheduler))
    }

    /// Returns the forecast of a pending request; `None` if it is not pending.
    pub fn of(&mut self, id: &RequestId) -> Option<Forecast> {
        let entry = self.scheduler.queue.get(id)?;
        let before = self.in_turn().before(id);
        let position = before.len() + 1;
        let ahead = Listed {
            first: before.iter().take(LISTED).map(|entry| entry.request.id.clone()).collect(),
            more: u32::try_from(before.len().saturating_sub(LISTED)).unwrap_or(u32::MAX),
        };
        let (account, parent) = self.accounts_of(&entry.request);
        Some(Forecast {
            position: u32::try_from(position).unwrap_or(u32::MAX),
            ahead,
            account,
            parent,
            promised_since: self.scheduler.ledger.promise_to(id).map(|promise| promise.made),
            start: self.start_of(entry),
        })
    }

    /// Returns the rows of a request's account and of its parent, if it has one.
    pub fn accounts_of(&mut self, request: &Request) -> (AccountRow, Option<AccountRow>) {
        let scheduler = self.scheduler;
        let levels = scheduler.ledger.shares().levels(request.account());
        let has_parent = levels.top != levels.account;
        let account = self.account_row(levels.account);
        (account, has_parent.then(|| self.account_row(levels.top)))
    }

    fn account_row(&mut self, account: &Name) -> AccountRow {
        let row = self.accounts.entry(account.clone());
        row.or_insert_with(|| self.scheduler.account_row(account)).clone()
    }

    fn start_of(&mut self, entry: &PendingRequest) -> ExpectedStart {
        let (scheduler, request) = (self.scheduler, &entry.request);
        if let Some(backoff) = entry.backoff.filter(|_| !entry.may_try(self.now)) {
            let pause = Pause::FailedStarts { failures: backoff.failures };
            return ExpectedStart::NotBefore { at: backoff.until, pause };
        }
        if request.terms.speculative && scheduler.queue.has_real_work() {
            return ExpectedStart::BehindRealWork;
        }
        let own = scheduler.ledger.of_request(&request.id).map(|(_, own)| own);
        if let Some(own) = own.filter(|own| own.stage.is_releasing()) {
            return after_stop(&[own]);
        }
        if let Some(start) = scheduler.promised_start(&request.id) {
            return start;
        }
        match (&entry.reason, &entry.gang) {
            (PendingReason::Rejected(rejection), None) => self.start_without(request, rejection),
            (PendingReason::Rejected(_), Some(gang)) => match self.request_ahead(request) {
                Some(request) => ExpectedStart::AfterRequest { request },
                None => ExpectedStart::GangWaits { gang: gang.name.clone() },
            },
            _ => ExpectedStart::AtNextChange,
        }
    }

    /// Returns the expected start of a request that is rejected and has no promise.
    pub fn start_without(&mut self, request: &Request, rejection: &Rejection) -> ExpectedStart {
        let scheduler = self.scheduler;
        let account = || scheduler.ledger.shares().levels(request.account()).account.clone();
        if rejection.request.as_ref().is_some_and(RequestReason::is_by_account) {
            return ExpectedStart::AccountAtMaximum { account: account() };
        }
        match self.cleared(request, rejection) {
            Cleared::NotSearched => ExpectedStart::NotSearched,
            Cleared::Never => ExpectedStart::AfterFleetChange,
            Cleared::Endless(EndlessHolders { holders, more }) => {
                let holders = holders.into_iter().map(|(holder, reason)| {
                    let evictable_from = self.evictable_from(&holder, reason);
                    EndlessHolder { request: holder, reason, evictable_from }
                });
                ExpectedStart::NoBound { holders: holders.collect(), more }
            }
            Cleared::Retirable(node) => {
                if let Some(at) = scheduler.displaces_from(request, self.now) {
                    return ExpectedStart::NotBefore { at, pause: Pause::Residency };
                }
                let promised = self.promised_ahead(request, node);
                match promised.or_else(|| self.request_ahead(request)) {
                    Some(request) => ExpectedStart::AfterRequest { request },
                    None if scheduler.ledger.shares().is_empty() => ExpectedStart::AtNextChange,
                    None => ExpectedStart::AccountShareUsed { account: account() },
                }
            }
        }
    }

    /// Returns the time from which an idle holder of a higher priority is evictable nevertheless.
    fn evictable_from(&self, holder: &RequestId, reason: Endless) -> Option<Millis> {
        let Endless::HigherPriority { .. } = reason else { return None };
        let (_, holding) = self.scheduler.ledger.of_request(holder)?;
        let residency = self.scheduler.settings.residency;
        evict::evictable_since(holding, self.now, residency).err()?.until()
    }

    /// Returns a request that is promised memory of a node before this one.
    fn promised_ahead(&self, request: &Request, node: NodeId) -> Option<RequestId> {
        let scheduler = self.scheduler;
        let is_there =
            |promise: &Promise| scheduler.ledger.node_id(&promise.placement.node) == Some(node);
        let mut promises = scheduler.ledger.promises().filter(|(_, promise)| is_there(promise));
        let ahead = promises.find(|(id, _)| **id != request.id && scheduler.is_ahead(id, request));
        ahead.map(|(id, _)| id.clone())
    }

    /// Returns the request for which room is made before this one: that with a promise of retired
    /// holders, else the first in turn that displaces work.
    fn request_ahead(&self, request: &Request) -> Option<RequestId> {
        let scheduler = self.scheduler;
        let is_other = |id: &RequestId| *id != request.id && scheduler.is_ahead(id, request);
        let promised = scheduler.retirements().map(|(id, _)| id).find(|id| is_other(id));
        promised.cloned().or_else(|| {
            let first = self.in_turn().before(&request.id).iter().find(|entry| {
                entry.may_try(self.now)
                    && !evict::displaces_nothing(&entry.request)
                    && scheduler.is_ahead(&entry.request.id, request)
            });
            first.map(|entry| entry.request.id.clone())
        })
    }

    /// Judges the nodes without the holders that can be retired for a request, the nearest one
    /// first. Equal requests share the result.
    fn cleared(&mut self, request: &Request, rejection: &Rejection) -> Cleared {
        let kind = self.scheduler.kind(request);
        if let Some(known) = self.cleared.get(&kind) {
            return known.clone();
        }
        let cleared = self.search(request, rejection);
        self.cleared.insert(kind, cleared.clone());
        cleared
    }

    fn search(&mut self, request: &Request, rejection: &Rejection) -> Cleared {
        let (ledger, policy) = (&self.scheduler.ledger, &self.scheduler.settings.policy);
        let occupied = rejection.occupied.as_ref().map(|occupied| &occupied.node);
        let nearest = rejection.nearest_node().or(occupied).and_then(|name| ledger.node_id(name));
        let others = ledger.nodes().map(|(id, _)| id).filter(|id| Some(*id) != nearest);
        let nodes: Vec<NodeId> = nearest.into_iter().chain(others).collect();
        let mut endless = None;
        for id in nodes {
            if self.nodes_left == 0 {
                return Cleared::NotSearched;
            }
            self.nodes_left -= 1;
            match evict::clearing(ledger, policy, request, id, LISTED) {
                Clearing::Retirable => return Cleared::Retirable(id),
                Clearing::Endless(holders) => endless = endless.or(Some(holders)),
                Clearing::Never => {}
            }
        }
        endless.map_or(Cleared::Never, Cleared::Endless)
    }
}
