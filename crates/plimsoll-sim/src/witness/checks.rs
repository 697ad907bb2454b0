//! The comparisons after each step: the witness's own sums with the ledger's.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::account::{Account, Share};
use plimsoll_core::charge::Stage;
use plimsoll_core::device::Allocatable;
use plimsoll_core::event::Settings;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::room::DeviceRoom;
use plimsoll_core::units::{Bytes, Name};

use super::Objection;
use super::books::{Amount, Booking, Books, Held};
use super::place::usable;
use super::scope::Scope;

/// Checks that the ledger has the same holders, charges and sums.
pub(crate) fn same_sums(books: &Books, ledger: &Ledger, scope: &Scope) -> Vec<Objection> {
    let mut objections = same_holders(books, ledger, scope);
    if matches!(scope, Scope::All) {
        objections.extend(same_accounts(books, ledger));
    }
    if !ledger.nodes().map(|(_, view)| &view.node.name).eq(books.nodes.keys()) {
        let shown: Vec<_> = ledger.nodes().map(|(_, view)| &view.node.name).collect();
        objections.push(Objection(format!(
            "the ledger shows the nodes {shown:?}, and there are {:?}",
            books.nodes.keys()
        )));
        return objections;
    }
    for (_, view) in ledger.nodes().filter(|(_, view)| scope.covers(&view.node.name)) {
        let place = &books.nodes[&view.node.name];
        if place.node.devices.len() != view.room.devices().len() {
            objections.push(Objection(format!(
                "{} has another number of devices than it should",
                view.node.name
            )));
            continue;
        }
        let mine = sums(books, ledger, &view.node.name);
        for (ordinal, (room, mine)) in view.room.devices().iter().zip(mine).enumerate() {
            let theirs = shown_sums(room);
            if mine != theirs {
                objections.push(Objection(format!(
                    "{}/{ordinal} should read {mine:?} and reads {theirs:?}",
                    view.node.name
                )));
            }
        }
    }
    objections
}

/// The sums of one device.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    held: u128,
    floating: u128,
    releasing: u128,
    foreign: u128,
    promised: u128,
    free: Option<u128>,
    cores: u128,
    slots: u128,
    occupied: u64,
}

fn wide(bytes: Bytes) -> u128 {
    u128::from(bytes.get())
}

fn shown_sums(room: &DeviceRoom) -> Sums {
    Sums {
        held: wide(room.held()),
        floating: wide(room.floating()),
        releasing: wide(room.releasing()),
        foreign: wide(room.foreign()),
        promised: wide(room.promised()),
        free: room.free().map(wide),
        cores: u128::from(room.cores()),
        slots: u128::from(room.slots()),
        occupied: room.occupied(),
    }
}

/// Adds up the sums of a node's devices from the books.
fn sums(books: &Books, ledger: &Ledger, node: &Name) -> Vec<Sums> {
    let place = &books.nodes[node];
    let empty = |foreign: &u128| Sums { foreign: *foreign, ..Sums::default() };
    let mut sums: Vec<Sums> = place.foreign.iter().map(empty).collect();
    let mut undeclared = vec![false; sums.len()];
    for (_, held) in books.on_node(node) {
        for booking in &held.bookings {
            for at in &booking.on {
                undeclared[*at] |= booking.amount == Amount::Undeclared;
                sums[*at].add(booking, held.stage);
            }
        }
    }
    for (at, sums) in sums.iter_mut().enumerate() {
        sums.floating = floating(books, node, at, not_releasing(books, node, at));
        let load = sums.held + sums.floating + sums.releasing + sums.foreign;
        let usable = usable(&place.node.devices[at]).filter(|_| !undeclared[at]);
        sums.free = usable.map(|usable| usable.saturating_sub(load));
        sums.promised = promises_on(ledger, node, at).iter().map(Booking::bytes).sum();
    }
    sums
}

impl Sums {
    fn add(&mut self, booking: &Booking, stage: Stage) {
        let column = match (stage.is_releasing(), booking.floats()) {
            (true, _) => &mut self.releasing,
            (false, true) => &mut 0,
            (false, false) => &mut self.held,
        };
        *column += booking.bytes();
        self.cores += booking.cores;
        self.slots += booking.slots;
        self.occupied |= booking.mask;
    }
}

/// Returns the most that the floating bookings among `bookings` can come to on one card: of those
/// that take a token of the plugin the largest ones up to its tokens, and all of the rest.
fn floating<'a>(
    books: &Books,
    node: &Name,
    ordinal: usize,
    bookings: impl Iterator<Item = &'a Booking>,
) -> u128 {
    let (mut pinned, mut always, mut tokened) = (0, 0, Vec::new());
    for booking in bookings {
        match (booking.floats(), booking.slots > 0 && !booking.several) {
            (false, _) => pinned += booking.slots,
            (true, false) => always += booking.bytes(),
            (true, true) => tokened.push(booking.bytes()),
        }
    }
    let slots = books.nodes[node].node.devices[ordinal].slots.map(u128::from);
    let mut left = slots.filter(|slots| *slots >= pinned).map(|slots| slots - pinned);
    tokened.sort_unstable();
    while let Some(largest) = tokened.pop() {
        match &mut left {
            Some(0) => break,
            Some(left) => *left -= 1,
            None => {}
        }
        always += largest;
    }
    always
}

/// Returns the bookings on a device that are not being released.
fn not_releasing<'a>(
    books: &'a Books,
    node: &'a Name,
    ordinal: usize,
) -> impl Iterator<Item = &'a Booking> {
    let all = books.on_device(node, ordinal);
    all.filter(|(id, _)| !books.holdings[*id].stage.is_releasing()).map(|(_, booking)| booking)
}

/// Returns the promised bookings on a device.
fn promises_on(ledger: &Ledger, node: &str, ordinal: usize) -> Vec<Booking> {
    let here = ledger.promises().filter(|(_, promise)| &*promise.placement.node == node);
    let bookings = here.flat_map(|(_, promise)| promise.charges.iter().map(Booking::from_charge));
    bookings.filter(|booking| booking.on.contains(&ordinal)).collect()
}

fn same_holders(books: &Books, ledger: &Ledger, scope: &Scope) -> Vec<Objection> {
    let mut objections = Vec::new();
    for (id, held) in books.holdings.iter().filter(|(_, held)| scope.covers(&held.node)) {
        let Some((_, holding)) = ledger.of_request(id) else {
            objections.push(Objection(format!("{id} should have a holding and has none")));
            continue;
        };
        let same = (&holding.node, holding.stage) == (&held.node, held.stage)
            && holding.charges.len() == held.bookings.len()
            && held
                .bookings
                .iter()
                .zip(&holding.charges)
                .all(|(booking, charge)| booking.matches(charge));
        if !same {
            let theirs = Held::new(holding, holding.stage);
            objections.push(Objection(format!("{id} should be {held:?} and is {theirs:?}")));
        }
    }
    if ledger.holdings().count() > books.holdings.len() {
        let extra = ledger.holdings().map(|(_, holding)| &holding.request);
        let extra = extra.filter(|id| !books.holdings.contains_key(*id));
        objections
            .extend(extra.map(|id| Objection(format!("{id} has a holding that no decision made"))));
    }
    objections
}

fn same_accounts(books: &Books, ledger: &Ledger) -> Vec<Objection> {
    let mut accounts: BTreeMap<&str, BookedAccount> = BTreeMap::new();
    for (id, held) in &books.holdings {
        accounts.entry(&id.account).or_default().add(held);
    }
    let differs = |(name, mine): (&str, BookedAccount)| {
        let Account { bytes, devices, holdings, undeclared } = ledger.account(name);
        let theirs = BookedAccount { bytes: wide(bytes), devices, holdings, undeclared };
        (theirs != mine)
            .then(|| Objection(format!("account {name} should read {mine:?} and reads {theirs:?}")))
    };
    accounts.into_iter().filter_map(differs).collect()
}

/// The holdings of one or several accounts by the witness's books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BookedAccount {
    pub bytes: u128,
    pub devices: u32,
    pub holdings: u32,
    pub undeclared: u32,
}

impl BookedAccount {
    pub(crate) fn add(&mut self, held: &Held) {
        self.holdings += 1;
        for booking in &held.bookings {
            self.devices += 1;
            match booking.amount {
                Amount::Undeclared | Amount::Whole(None) => self.undeclared += 1,
                _ => self.bytes += booking.bytes(),
            }
        }
    }
}

/// Checks that no account, and no parent of accounts, got something beyond its maximum. Observed
/// work may exceed it, but nothing is granted then.
pub(crate) fn account_maxima(
    books: &Books,
    settings: &Settings,
    granted: &BTreeSet<&RequestId>,
) -> Vec<Objection> {
    let shares: BTreeMap<Name, Share> = settings.accounts.clone().into();
    let mut objections = Vec::new();
    for (name, share) in &shares {
        let own = |(other, one): (&Name, &Share), id: &RequestId| {
            id.account == *other || one.members.contains(&id.account)
        };
        let covers = |id: &RequestId| {
            let children = shares.iter().filter(|(_, child)| child.parent.as_ref() == Some(name));
            own((name, share), id) || children.into_iter().any(|child| own(child, id))
        };
        let Some(new) = granted.iter().find(|id| covers(id)) else { continue };
        let mut sum = BookedAccount::default();
        books.holdings.iter().filter(|(id, _)| covers(id)).for_each(|(_, held)| sum.add(held));
        let over_memory =
            share.maximum.memory.is_some_and(|most| sum.bytes > wide(most) || sum.undeclared > 0);
        if over_memory || share.maximum.devices.is_some_and(|most| sum.devices > most) {
            objections.push(Objection(format!(
                "{new} was granted, and account {name} then holds {sum:?}, over its maximum of {:?}",
                share.maximum
            )));
        }
    }
    objections
}

/// Checks that new promises fit beside the holdings that stay and the earlier promises.
pub(crate) fn promised_once(
    books: &Books,
    ledger: &Ledger,
    is_new: impl Fn(&RequestId) -> bool,
) -> Vec<Objection> {
    let mut objections = Vec::new();
    for (id, promise) in ledger.promises().filter(|(id, _)| is_new(id)) {
        let node = &promise.placement.node;
        let Some(place) = books.nodes.get(node) else { continue };
        for ordinal in promise
            .charges
            .iter()
            .flat_map(|charge| &charge.on)
            .map(|ordinal| usize::from(*ordinal))
        {
            // A promise counts on the release of every holder that is stopping or retired,
            // whether its card is known or not.
            let stays = books.on_device(node, ordinal).filter(|(id, _)| {
                !books.holdings[*id].stage.is_releasing() && ledger.retired_for(id).is_none()
            });
            let promised = promises_on(ledger, node, ordinal);
            let together: Vec<&Booking> =
                stays.map(|(_, booking)| booking).chain(&promised).collect();
            let fixed = together.iter().filter(|booking| !booking.floats());
            let all = fixed.map(|booking| booking.bytes()).sum::<u128>()
                + place.foreign[ordinal]
                + floating(books, node, ordinal, together.iter().copied());
            if usable(&place.node.devices[ordinal]).is_some_and(|usable| all > usable) {
                objections.push(Objection(format!(
                    "{node}/{ordinal} was promised to {id} and to others: {all} in all"
                )));
            }
        }
    }
    objections
}

/// Checks that no new holding floats over cards on one of which the charges that can meet there do
/// not fit.
pub(crate) fn floating_lines(books: &Books, granted: &BTreeSet<&RequestId>) -> Vec<Objection> {
    let mut objections = Vec::new();
    for id in granted {
        let Some(held) = books.holdings.get(*id) else { continue };
        let floats = held.bookings.iter().filter(|booking| booking.floats());
        for ordinal in floats.flat_map(|booking| &booking.on) {
            let place = &books.nodes[&held.node];
            let fixed = books.on_device(&held.node, *ordinal).filter(|(id, booking)| {
                !booking.floats() || books.holdings[*id].stage.is_releasing()
            });
            let fixed: u128 = fixed.map(|(_, booking)| booking.bytes()).sum();
            let stays = not_releasing(books, &held.node, *ordinal);
            let most =
                fixed + place.foreign[*ordinal] + floating(books, &held.node, *ordinal, stays);
            if usable(&place.node.devices[*ordinal]).is_some_and(|usable| most > usable) {
                objections.push(Objection(format!(
                    "{id} was granted a card of {}, and {most} can meet on {ordinal}",
                    held.node
                )));
            }
        }
    }
    objections
}

/// Checks that no new holding shares its hardware slice.
pub(crate) fn no_shared_slices(books: &Books, granted: &BTreeSet<&RequestId>) -> Vec<Objection> {
    let mut objections = Vec::new();
    for (name, place) in &books.nodes {
        for ordinal in 0..place.node.devices.len() {
            let on: Vec<(&RequestId, &Booking)> = books.on_device(name, ordinal).collect();
            for (at, (id, booking)) in
                on.iter().enumerate().filter(|(_, (id, _))| granted.contains(id))
            {
                let shares = |(other, (_, theirs)): (usize, &(&RequestId, &Booking))| {
                    other != at && theirs.mask & booking.mask != 0
                };
                if on.iter().enumerate().any(shares) {
                    objections.push(Objection(format!(
                        "{id} was granted a slice of {name}/{ordinal} that another request has"
                    )));
                }
            }
        }
    }
    objections
}

/// Checks that no new holding exceeds the CPU, memory, pods or named resources of its node.
pub(crate) fn node_lines(books: &Books, granted: &BTreeSet<&RequestId>) -> Vec<Objection> {
    let mut objections = Vec::new();
    for (name, place) in &books.nodes {
        let here = || books.holdings.iter().filter(|(_, held)| held.node == *name);
        let mut sums: BTreeMap<&Name, (u128, Option<&RequestId>)> = BTreeMap::new();
        for (id, held) in here() {
            for (resource, amount) in held.resources.iter().filter(|(_, amount)| **amount > 0) {
                let (load, newly) = sums.entry(resource).or_default();
                *load += amount;
                *newly = newly.or_else(|| granted.get(id).copied());
            }
        }
        for (resource, (load, newly)) in sums {
            let limit = limit(&place.node.allocatable, resource);
            if let (Some(id), Some(limit)) = (newly, limit)
                && load > limit
            {
                objections.push(Objection(format!(
                    "{id} was granted a place on {name}, which has {limit} {resource} and holds {load}"
                )));
            }
        }
    }
    objections
}

/// The most of a resource that a node gives; `None` where nothing limits it.
fn limit(has: &Allocatable, resource: &str) -> Option<u128> {
    match resource {
        "cpu" => has.cpu.map(|cpu| u128::from(cpu.0)),
        "memory" => has.memory.map(wide),
        "pods" => has.pods.map(u128::from),
        named => Some(u128::from(has.extended.get(named))),
    }
}
