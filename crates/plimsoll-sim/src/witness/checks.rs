//! What the witness compares after each step: its own sums with those that the ledger shows.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::RequestId;
use plimsoll_core::room::DeviceRoom;
use plimsoll_core::units::Bytes;

use super::Objection;
use super::books::{Amount, Booking, Books, Held};
use super::place::usable;

/// That the ledger shows the same holders, the same charges and the same sums.
pub(crate) fn same_sums(books: &Books, ledger: &Ledger) -> Vec<Objection> {
    let mut objections = same_holders(books, ledger);
    objections.extend(same_accounts(books, ledger));
    let shown: BTreeSet<_> = ledger.nodes().map(|(_, view)| view.node.name.clone()).collect();
    if !shown.iter().eq(books.nodes.keys()) {
        objections.push(Objection(format!(
            "the ledger shows the nodes {shown:?}, and there are {:?}",
            books.nodes.keys()
        )));
        return objections;
    }
    for (_, view) in ledger.nodes() {
        let place = &books.nodes[&view.node.name];
        if place.node.devices.len() != view.room.devices().len() {
            objections
                .push(Objection(format!("{} has another number of devices than it should", view.node.name)));
            continue;
        }
        for (ordinal, room) in view.room.devices().iter().enumerate() {
            let (mine, theirs) = (sums(books, ledger, &view.node.name, ordinal), shown_sums(room));
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

#[derive(Debug, PartialEq, Eq)]
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

fn sums(books: &Books, ledger: &Ledger, node: &plimsoll_core::units::Name, ordinal: usize) -> Sums {
    let rows: Vec<(&Held, &Booking)> =
        books.on_device(node, ordinal).map(|(id, booking)| (&books.holdings[id], booking)).collect();
    let sum = |keep: fn(&Held, &Booking) -> bool| -> u128 {
        rows.iter().filter(|(held, booking)| keep(held, booking)).map(|(_, booking)| booking.bytes()).sum()
    };
    let releasing = sum(|held, _| held.stage.is_releasing());
    let floating = sum(|held, booking| !held.stage.is_releasing() && booking.floats());
    let fixed = sum(|held, booking| !held.stage.is_releasing() && !booking.floats());
    let place = &books.nodes[node];
    let foreign = place.foreign[ordinal];
    let undeclared = rows.iter().any(|(_, booking)| booking.amount == Amount::Undeclared);
    let load = fixed + floating + releasing + foreign;
    let free = usable(&place.node.devices[ordinal])
        .map(|usable| usable.saturating_sub(load))
        .filter(|_| !undeclared);
    Sums {
        held: fixed,
        floating,
        releasing,
        foreign,
        promised: promised(ledger, node, ordinal, |_| true),
        free,
        cores: rows.iter().map(|(_, booking)| booking.cores).sum(),
        slots: rows.iter().map(|(_, booking)| booking.slots).sum(),
        occupied: rows.iter().fold(0, |mask, (_, booking)| mask | booking.mask),
    }
}

fn promised(ledger: &Ledger, node: &str, ordinal: usize, of: impl Fn(&RequestId) -> bool) -> u128 {
    let here = ledger.promises().filter(|(id, promise)| &*promise.placement.node == node && of(id));
    let bookings = here.flat_map(|(_, promise)| promise.charges.iter().map(Booking::of));
    bookings.filter(|booking| booking.on.contains(&ordinal)).map(|booking| booking.bytes()).sum()
}

fn same_holders(books: &Books, ledger: &Ledger) -> Vec<Objection> {
    let mut objections = Vec::new();
    let shown: BTreeMap<&RequestId, Held> =
        ledger.holdings().map(|(_, holding)| (&holding.request, Held::of(holding, holding.stage))).collect();
    for (id, held) in &books.holdings {
        match shown.get(id) {
            None => objections.push(Objection(format!("{id} should hold a place and was lost"))),
            Some(theirs)
                if (&theirs.node, theirs.stage, &theirs.bookings)
                    != (&held.node, held.stage, &held.bookings) =>
            {
                objections.push(Objection(format!("{id} should be {held:?} and is {theirs:?}")));
            }
            Some(_) => {}
        }
    }
    let extra = shown.keys().filter(|id| !books.holdings.contains_key(id));
    objections.extend(extra.map(|id| Objection(format!("{id} holds a place that nobody gave it"))));
    objections
}

fn same_accounts(books: &Books, ledger: &Ledger) -> Vec<Objection> {
    let mut accounts: BTreeMap<&str, (u128, u32)> = BTreeMap::new();
    for (id, held) in &books.holdings {
        let row = accounts.entry(&id.account).or_default();
        let unknown = |booking: &Booking| matches!(booking.amount, Amount::Undeclared | Amount::Whole(None));
        if !held.bookings.iter().any(unknown) {
            row.0 += held.bookings.iter().map(Booking::bytes).sum::<u128>();
        }
        row.1 += 1;
    }
    let differs = |(name, mine): (&str, (u128, u32))| {
        let shown = ledger.account(name);
        let theirs = (wide(shown.bytes), shown.holdings);
        (theirs != mine)
            .then(|| Objection(format!("account {name} should read {mine:?} and reads {theirs:?}")))
    };
    accounts.into_iter().filter_map(differs).collect()
}

/// That what was newly promised fits beside all that stays and all that was promised before.
pub(crate) fn promised_once(
    books: &Books,
    ledger: &Ledger,
    is_new: impl Fn(&RequestId) -> bool,
) -> Vec<Objection> {
    let mut objections = Vec::new();
    for (id, promise) in ledger.promises().filter(|(id, _)| is_new(id)) {
        let node = &promise.placement.node;
        let Some(place) = books.nodes.get(node) else { continue };
        for ordinal in
            promise.charges.iter().flat_map(|charge| &charge.on).map(|ordinal| usize::from(*ordinal))
        {
            let stays =
                books.on_device(node, ordinal).filter(|(id, _)| !books.holdings[*id].stage.is_releasing());
            let stays = stays.map(|(_, booking)| booking.bytes()).sum::<u128>() + place.foreign[ordinal];
            let all = stays + promised(ledger, node, ordinal, |_| true);
            if usable(&place.node.devices[ordinal]).is_some_and(|usable| all > usable) {
                objections.push(Objection(format!(
                    "{node}/{ordinal} was promised to {id} and to others: {all} in all"
                )));
            }
        }
    }
    objections
}

/// That nobody who was just granted a hardware slice shares it.
pub(crate) fn no_shared_slices(books: &Books, granted: &BTreeSet<&RequestId>) -> Vec<Objection> {
    let mut objections = Vec::new();
    for (name, place) in &books.nodes {
        for ordinal in 0..place.node.devices.len() {
            let on: Vec<(&RequestId, &Booking)> = books.on_device(name, ordinal).collect();
            for (at, (id, booking)) in on.iter().enumerate().filter(|(_, (id, _))| granted.contains(id)) {
                let shares = |(other, (_, theirs)): (usize, &(&RequestId, &Booking))| {
                    other != at && theirs.mask & booking.mask != 0
                };
                if on.iter().enumerate().any(shares) {
                    objections.push(Objection(format!(
                        "{id} was granted a slice of {name}/{ordinal} that somebody has"
                    )));
                }
            }
        }
    }
    objections
}

/// That no node was granted more processors, memory or pods than it has.
pub(crate) fn node_lines(books: &Books, granted: &BTreeSet<&RequestId>) -> Vec<Objection> {
    let mut objections = Vec::new();
    for (name, place) in &books.nodes {
        let here = || books.holdings.iter().filter(|(_, held)| held.node == *name);
        let has = &place.node.allocatable;
        let limits = [has.cpu.map(|cpu| u128::from(cpu.0)), has.memory.map(wide), has.pods.map(u128::from)];
        for (dimension, limit) in limits.into_iter().enumerate() {
            let load: u128 = here().map(|(_, held)| held.resources[dimension]).sum();
            let newly = here().find(|(id, held)| granted.contains(id) && held.resources[dimension] > 0);
            if let (Some((id, _)), Some(limit)) = (newly, limit)
                && load > limit
            {
                objections.push(Objection(format!(
                    "{id} was granted a place on {name}, which has {limit} and holds {load}"
                )));
            }
        }
    }
    objections
}
