//! The witness's own books: nodes, devices and holdings in plain records, summed on demand.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::charge::{Booked, Charge, Holding, Stage};
use plimsoll_core::device::{Device, Health, Node, Telemetry};
use plimsoll_core::event::Event;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::{NodeNeed, RequestId};
use plimsoll_core::room::Measured;
use plimsoll_core::scheduler::Scheduler;
use plimsoll_core::units::{Millis, Name};

use super::place::{Place, match_devices, usable, whole_bytes};
use super::scope::Scope;

/// The bound that the core clamps amounts to; more than any device has.
const MOST: u128 = 1 << 48;

/// Nodes and holdings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pub nodes: BTreeMap<Name, Place>,
    pub holdings: BTreeMap<RequestId, Held>,
    /// The requests whose holdings changed in this step.
    changed: BTreeSet<RequestId>,
    /// The nodes that were reported in this step, or that lost a holding.
    changed_nodes: BTreeSet<Name>,
}

/// The holding of one request.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub node: Name,
    pub stage: Stage,
    pub bookings: Vec<Booking>,
    /// Amounts of the node's resources by name.
    pub resources: BTreeMap<Name, u128>,
    /// A decision placed it, so that an observation never lowers its charges.
    placed: bool,
    generation: Option<u64>,
}

/// A charge on one device, or on one of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Booking {
    pub on: Vec<usize>,
    pub amount: Amount,
    pub cores: u128,
    pub slots: u128,
    pub mask: u64,
    /// True for several containers, each of which may be on another card.
    pub several: bool,
}

/// The memory of a booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    Share(u128),
    /// The whole device; `None` if its size is unknown.
    Whole(Option<u128>),
    Undeclared,
}

impl Booking {
    /// Converts a charge.
    pub(crate) fn from_charge(charge: &Charge) -> Self {
        let mut on: Vec<usize> = charge.on.iter().map(|ordinal| usize::from(*ordinal)).collect();
        on.sort_unstable();
        let (cores, slots) = (u128::from(charge.cores.0), u128::from(charge.slots));
        let several = charge.parts.len() > 1;
        let amount = Amount::from_charge(charge);
        Booking { on, amount, cores, slots, mask: mask_of(charge), several }
    }

    /// Returns true if a charge books the same.
    pub(crate) fn matches(&self, charge: &Charge) -> bool {
        self.on.len() == charge.on.len()
            && charge.on.iter().all(|ordinal| self.on.contains(&usize::from(*ordinal)))
            && (self.amount, self.mask) == (Amount::from_charge(charge), mask_of(charge))
            && (self.cores, self.slots) == (u128::from(charge.cores.0), u128::from(charge.slots))
    }

    /// Returns the bytes; zero if they are unknown.
    pub(crate) fn bytes(&self) -> u128 {
        match self.amount {
            Amount::Share(bytes) => bytes,
            Amount::Whole(bytes) => bytes.unwrap_or(0),
            Amount::Undeclared => 0,
        }
    }

    fn known_bytes(&self) -> Option<u128> {
        match self.amount {
            Amount::Share(bytes) => Some(bytes),
            Amount::Whole(bytes) => bytes,
            Amount::Undeclared => None,
        }
    }

    /// Returns true if it is on one of several devices.
    pub(crate) fn floats(&self) -> bool {
        self.on.len() > 1
    }
}

impl Amount {
    fn from_charge(charge: &Charge) -> Self {
        match charge.amount {
            Booked::Share(bytes) => Amount::Share(u128::from(bytes.get())),
            Booked::Whole { bytes } => Amount::Whole(bytes.map(|bytes| u128::from(bytes.get()))),
            Booked::Undeclared => Amount::Undeclared,
        }
    }
}

fn mask_of(charge: &Charge) -> u64 {
    match (&charge.slice, charge.amount) {
        (Some(slice), _) => bits(slice.span.start, slice.span.size),
        (None, Booked::Whole { .. }) => u64::MAX,
        (None, _) => 0,
    }
}

/// Returns the mask of the bits from `start` to before `start + size`.
pub(crate) fn bits(start: u8, size: u8) -> u64 {
    (0..64)
        .filter(|bit| (u32::from(start)..u32::from(start) + u32::from(size)).contains(bit))
        .map(|bit| 1_u64 << bit)
        .sum()
}

fn amounts(need: &NodeNeed) -> BTreeMap<Name, u128> {
    let named = need.extended.iter().map(|(name, amount)| (name.clone(), u128::from(amount)));
    let mut amounts: BTreeMap<Name, u128> = named.collect();
    amounts.insert("cpu".into(), u128::from(need.cpu.0));
    amounts.insert("memory".into(), u128::from(need.memory.get()));
    amounts.insert("pods".into(), u128::from(need.pods));
    amounts
}

impl Held {
    /// Converts a holding of the core, with the stage that the witness derived.
    pub(crate) fn new(holding: &Holding, stage: Stage) -> Self {
        let need = &holding.resources;
        Held {
            node: holding.node.clone(),
            stage,
            bookings: holding.charges.iter().map(Booking::from_charge).collect(),
            resources: amounts(need),
            placed: holding.spec.is_some(),
            generation: None,
        }
    }

    /// Keeps booked amounts that exceed the observed ones.
    fn keep_larger_bookings(&mut self, own: &Held) {
        if own.node != self.node || !own.placed {
            return;
        }
        for booking in &mut self.bookings {
            let is_larger = |earlier: &&Booking| {
                earlier.on == booking.on && earlier.known_bytes() > booking.known_bytes()
            };
            if let Some(earlier) = own.bookings.iter().find(is_larger) {
                *booking = earlier.clone();
            }
        }
        for (name, booked) in &own.resources {
            let need = self.resources.entry(name.clone()).or_default();
            *need = (*need).max(*booked);
        }
        self.placed = true;
    }
}

impl Books {
    /// Returns the holding of a request.
    pub(crate) fn held(&self, request: &RequestId) -> Option<&Held> {
        self.holdings.get(request)
    }

    /// Starts a step, in which nothing has changed yet.
    pub(crate) fn begin_step(&mut self) {
        self.changed.clear();
        self.changed_nodes.clear();
    }

    /// Returns the nodes that changed in this step, also those where the ledger has the changed
    /// holdings.
    pub(crate) fn touched(&self, ledger: &Ledger) -> BTreeSet<Name> {
        let mut touched = self.changed_nodes.clone();
        for id in &self.changed {
            touched.extend(self.holdings.get(id).map(|held| held.node.clone()));
            touched.extend(ledger.of_request(id).map(|(_, holding)| holding.node.clone()));
        }
        touched
    }

    /// Records a holding in place of an earlier one.
    pub(crate) fn hold(&mut self, request: RequestId, held: Held) {
        self.drop_holding(&request);
        self.changed.insert(request.clone());
        self.holdings.insert(request, held);
    }

    /// Changes the stage of a holding.
    pub(crate) fn restage(&mut self, request: &RequestId, stage: Stage) {
        if let Some(held) = self.holdings.get_mut(request) {
            held.stage = stage;
            self.changed.insert(request.clone());
        }
    }

    /// Reads the generations that evidence must name from the ledger. They are names, not sums.
    pub(crate) fn learn_generations(&mut self, after: &Scheduler) {
        for id in &self.changed {
            if let Some(held) = self.holdings.get_mut(id) {
                held.generation = after.ledger().of_request(id).map(|(generation, _)| generation.0);
            }
        }
    }

    /// Iterates over the holdings on a node.
    pub(crate) fn on_node<'a>(
        &'a self,
        node: &'a Name,
    ) -> impl Iterator<Item = (&'a RequestId, &'a Held)> + Clone {
        self.holdings.iter().filter(move |(_, held)| held.node == *node)
    }

    /// Iterates over the bookings that are or may be on a device.
    pub(crate) fn on_device<'a>(
        &'a self,
        node: &'a Name,
        ordinal: usize,
    ) -> impl Iterator<Item = (&'a RequestId, &'a Booking)> {
        let bookings = |(id, held): (&'a RequestId, &'a Held)| {
            held.bookings.iter().map(move |booking| (id, booking))
        };
        self.on_node(node)
            .flat_map(bookings)
            .filter(move |(_, booking)| booking.on.contains(&ordinal))
    }

    /// Returns the devices whose certain load exceeds their usable memory, with the excess.
    pub(crate) fn over_line(&self, scope: &Scope) -> Vec<(Name, usize, u128)> {
        let mut over = Vec::new();
        for (name, place) in self.nodes.iter().filter(|(name, _)| scope.covers(name)) {
            let mut loads = place.foreign.clone();
            for booking in
                self.on_node(name).flat_map(|(_, held)| &held.bookings).filter(|b| !b.floats())
            {
                booking.on.iter().for_each(|at| loads[*at] += booking.bytes());
            }
            for ((ordinal, device), load) in place.node.devices.iter().enumerate().zip(loads) {
                if let Some(usable) = usable(device).filter(|usable| load > *usable) {
                    over.push((name.clone(), ordinal, load - usable));
                }
            }
        }
        over
    }

    /// Applies the part of an event that does not depend on its outcome. Returns the requests whose
    /// holdings it dropped.
    pub(crate) fn apply(&mut self, now: Millis, event: &Event) -> Vec<RequestId> {
        match event {
            Event::Node { node } => self.put_node(node),
            Event::NodeGone { name } => self.drop_node(name),
            Event::Ask { request } => return self.drop_unstarted(&request.id, None),
            Event::Withdraw { request } => return self.drop_unstarted(request, None),
            Event::Started { request, generation, .. } => self.started(request, *generation, now),
            Event::Failed { request, generation } => {
                return self.drop_unstarted(request, Some(*generation));
            }
            Event::Freed { request, generation, ordinal } => {
                self.freed(request, *generation, *ordinal);
            }
            Event::Observed { holding } => self.observed(holding),
            Event::Measured { node, ordinal, measured } => {
                self.measure(node, usize::from(*ordinal), *measured);
            }
            Event::Grew { request, ordinal, bytes } => {
                self.grew(request, usize::from(*ordinal), u128::from(bytes.get()));
            }
            Event::Tick => return self.expire(now),
            Event::Take { .. }
            | Event::Submit { .. }
            | Event::SubmitGang { .. }
            | Event::Acted { .. }
            | Event::Admit { .. }
            | Event::Judge { .. }
            | Event::Claimed { .. }
            | Event::Configured { .. }
            | Event::Audit => {}
        }
        Vec::new()
    }

    /// Drops an offer or a queued holding; with evidence of its generation, any holding that is not
    /// running.
    fn drop_unstarted(&mut self, request: &RequestId, evidence: Option<u64>) -> Vec<RequestId> {
        let Some(held) = self.holdings.get(request) else {
            return Vec::new();
        };
        let is_dropped = match evidence {
            None => matches!(held.stage, Stage::Offered { .. } | Stage::Queued),
            Some(generation) => {
                held.generation == Some(generation) && !matches!(held.stage, Stage::Running { .. })
            }
        };
        if is_dropped {
            self.drop_holding(request);
        }
        if is_dropped { vec![request.clone()] } else { Vec::new() }
    }

    /// Books a measurement unless there is a newer one.
    fn measure(&mut self, node: &Name, ordinal: usize, measured: Measured) {
        let at = match measured.telemetry {
            Telemetry::None => None,
            Telemetry::Fresh { at } | Telemetry::Stale { since: at } => Some(at.0),
        };
        let Some(place) = self.nodes.get_mut(node).filter(|place| ordinal < place.foreign.len())
        else {
            return;
        };
        if at >= place.measured[ordinal] {
            self.changed_nodes.insert(node.clone());
            place.measured[ordinal] = at;
            place.foreign[ordinal] = u128::from(measured.foreign.get()).min(MOST);
        }
    }

    fn started(&mut self, request: &RequestId, generation: u64, now: Millis) {
        if let Some(held) =
            self.holdings.get_mut(request).filter(|held| held.generation == Some(generation))
            && matches!(held.stage, Stage::Offered { .. } | Stage::Queued | Stage::Sent)
        {
            held.stage = Stage::Running { since: now };
            self.changed.insert(request.clone());
        }
    }

    fn freed(&mut self, request: &RequestId, generation: Option<u64>, ordinal: Option<u16>) {
        let Some(held) = self.holdings.get_mut(request) else { return };
        if generation.is_some() && generation != held.generation {
            return;
        }
        self.changed.insert(request.clone());
        let Some(ordinal) = ordinal else { return self.drop_holding(request) };
        if held.stage.is_releasing() {
            held.bookings.retain(|booking| booking.on != [usize::from(ordinal)]);
            if held.bookings.is_empty() {
                self.drop_holding(request);
            }
        }
    }

    fn observed(&mut self, holding: &Holding) {
        let place =
            self.nodes.entry(holding.node.clone()).or_insert_with(|| Place::unreported(holding));
        let mut held = Held::new(holding, holding.stage);
        if held
            .bookings
            .iter()
            .flat_map(|booking| &booking.on)
            .any(|at| *at >= place.node.devices.len())
        {
            return;
        }
        for booking in &mut held.bookings {
            match &mut booking.amount {
                Amount::Share(bytes) => *bytes = (*bytes).min(MOST),
                Amount::Whole(bytes) => *bytes = whole_bytes(&place.node, &booking.on),
                Amount::Undeclared => {}
            }
        }
        if let Some(own) = self.holdings.get(&holding.request) {
            held.keep_larger_bookings(own);
        }
        // The observation replaces the earlier holding at once: dropping that first could remove a
        // node that is leaving.
        self.changed_nodes.insert(holding.node.clone());
        self.changed.insert(holding.request.clone());
        if let Some(own) = self.holdings.get(&holding.request) {
            self.changed_nodes.insert(own.node.clone());
        }
        self.holdings.insert(holding.request.clone(), held);
        let leaving: Vec<Name> = self
            .nodes
            .iter()
            .filter(|(_, place)| place.leaving)
            .map(|(name, _)| name.clone())
            .collect();
        leaving.iter().for_each(|name| self.drop_if_left(name));
    }

    /// Raises a share. A whole device, a slice and an undeclared amount do not grow.
    fn grew(&mut self, request: &RequestId, ordinal: usize, bytes: u128) {
        let Some(held) = self.holdings.get_mut(request) else { return };
        self.changed.insert(request.clone());
        let here = |booking: &&mut Booking| booking.on.contains(&ordinal) && booking.mask == 0;
        for booking in held.bookings.iter_mut().filter(here) {
            if let Amount::Share(booked) = &mut booking.amount {
                *booked = (*booked).max(bytes.min(MOST));
            }
        }
    }

    fn expire(&mut self, now: Millis) -> Vec<RequestId> {
        let late = |held: &Held| matches!(held.stage, Stage::Offered { until } if until <= now);
        let late: Vec<RequestId> =
            self.holdings.iter().filter(|(_, h)| late(h)).map(|(id, _)| id.clone()).collect();
        for id in &late {
            self.drop_holding(id);
        }
        late
    }

    fn drop_holding(&mut self, request: &RequestId) {
        if let Some(held) = self.holdings.remove(request) {
            self.changed.insert(request.clone());
            self.changed_nodes.insert(held.node.clone());
            self.drop_if_left(&held.node);
        }
    }

    fn drop_if_left(&mut self, name: &Name) {
        let held = self.holdings.values().any(|held| held.node == *name);
        if self.nodes.get(name).is_some_and(|place| place.leaving) && !held {
            self.nodes.remove(name);
        }
    }

    fn drop_node(&mut self, name: &Name) {
        self.changed_nodes.insert(name.clone());
        if let Some(place) = self.nodes.get_mut(name) {
            place.leaving = true;
            place.node.unschedulable = true;
            place.node.devices.iter_mut().for_each(|device| device.health = Health::Gone);
        }
        self.drop_if_left(name);
    }

    /// Books the report of a node. Devices are matched by UUID, or by position without one.
    fn put_node(&mut self, node: &Node) {
        self.changed_nodes.insert(node.name.clone());
        let mut place = Place::reported(node);
        let Some(old) = self.nodes.remove(&node.name) else {
            self.nodes.insert(node.name.clone(), place);
            return;
        };
        let in_use = |ordinal: usize| self.on_device(&node.name, ordinal).next().is_some();
        let mut now_at = match_devices(&old.node, node, in_use);
        for (ordinal, at) in now_at.iter_mut().enumerate() {
            if at.is_none() && in_use(ordinal) {
                place
                    .node
                    .devices
                    .push(Device { health: Health::Gone, ..old.node.devices[ordinal].clone() });
                place.foreign.push(0);
                place.measured.push(None);
                *at = Some(place.node.devices.len() - 1);
            }
            if let Some(at) = *at {
                place.foreign[at] = old.foreign[ordinal];
                place.measured[at] = old.measured[ordinal];
            }
        }
        for held in self.holdings.values_mut().filter(|held| held.node == node.name) {
            for booking in &mut held.bookings {
                booking
                    .on
                    .iter_mut()
                    .for_each(|at| *at = now_at.get(*at).copied().flatten().unwrap_or(*at));
                booking.on.sort_unstable();
                if let Amount::Whole(bytes) = &mut booking.amount {
                    *bytes = whole_bytes(&place.node, &booking.on);
                }
            }
        }
        self.nodes.insert(node.name.clone(), place);
    }
}
