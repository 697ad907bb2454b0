//! The charges that a placement should make, computed from the request and the placement alone.

use plimsoll_core::decide::Decision;
use plimsoll_core::device::{Device, DeviceChoice, Health, Node, Sharing, Strategy};
use plimsoll_core::fit::Placement;
use plimsoll_core::request::{self, Compute, Container, Need, PlainRule, Role};

use super::books::{Amount, Booking, Books};
use super::place::usable;

/// Returns the bookings that a placement should make; `None` if it uses hardware slices, which
/// `checks` compares with each other instead.
pub(crate) fn expected(
    books: &Books,
    decision: &Decision,
    place: &Placement,
) -> Result<Option<Vec<Booking>>, String> {
    let node = &books.nodes.get(&place.node).ok_or("it was placed on a missing node")?.node;
    let shape = decision
        .spec
        .shapes()
        .get(usize::from(place.shape))
        .ok_or("it was placed in a shape that it does not have")?;
    let needs: Vec<(&Container, &Need)> =
        shape.containers.iter().flat_map(|c| c.needs.iter().map(move |n| (c, n))).collect();
    if needs.len() != place.picks.len() {
        return Err(format!("{} needs got {} picks", needs.len(), place.picks.len()));
    }
    let mut rows: Vec<Row> = Vec::new();
    for ((container, need), pick) in needs.iter().zip(&place.picks) {
        let pick: Vec<usize> = pick.iter().map(|ordinal| usize::from(*ordinal)).collect();
        let choice = choice(node, need);
        check_pick(node, container, need, &pick, choice)?;
        let floats = choice == DeviceChoice::Plugin;
        for at in pick {
            let device = &node.devices[at];
            if device.geometry.is_some() {
                return Ok(None);
            }
            let part = part(device, container.role, need)?;
            match rows.iter_mut().find(|row| row.at == at) {
                Some(row) if !floats && row.containers.contains(&container.name) => {
                    return Err(format!("container {} got device {at} twice", container.name));
                }
                Some(row) => row.add(container, part),
                None => {
                    rows.push(Row {
                        at,
                        floats,
                        containers: vec![container.name.clone()],
                        parts: vec![part],
                    });
                }
            }
        }
    }
    rows.sort_by_key(|row| row.at);
    Ok(Some(bookings(node, &rows)))
}

/// The parts of the request on one device.
struct Row {
    at: usize,
    floats: bool,
    containers: Vec<plimsoll_core::units::Name>,
    parts: Vec<Part>,
}

impl Row {
    fn add(&mut self, container: &Container, part: Part) {
        self.containers.push(container.name.clone());
        self.parts.push(part);
    }
}

/// The amounts of one need on one device.
#[derive(Clone, Copy)]
struct Part {
    role: Role,
    bytes: u128,
    cores: u128,
    slots: u128,
    whole: bool,
}

/// Returns the chooser of the card for a need: the device plugin, if several cards are shared.
fn choice(node: &Node, need: &Need) -> DeviceChoice {
    let of_kind: Vec<&Device> =
        node.devices.iter().filter(|device| device.kind == need.kind).collect();
    let tokens = of_kind.iter().any(|device| matches!(device.sharing, Sharing::Tokens { .. }));
    if of_kind.len() > 1 && tokens { node.choice } else { DeviceChoice::Owned }
}

fn check_pick(
    node: &Node,
    container: &Container,
    need: &Need,
    pick: &[usize],
    choice: DeviceChoice,
) -> Result<(), String> {
    let wanted = usize::from(need.count.get());
    let floats = choice == DeviceChoice::Plugin;
    if !floats && pick.len() != wanted {
        return Err(format!(
            "container {} asked {wanted} devices and got {}",
            container.name,
            pick.len()
        ));
    }
    // Each slice of a partitioned card is a device to its container.
    let is_whole = |at: &usize| node.devices.get(*at).is_none_or(|one| one.geometry.is_none());
    let mut cards: Vec<usize> = pick.iter().copied().filter(is_whole).collect();
    cards.sort_unstable();
    if cards.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("container {} got one device twice", container.name));
    }
    for at in pick {
        let device = node.devices.get(*at).ok_or_else(|| format!("there is no device {at}"))?;
        if device.kind != need.kind || device.health != Health::Healthy || device.cordoned {
            return Err(format!("device {at} is of another kind, faulty or cordoned"));
        }
    }
    let numa: Vec<Option<u16>> = pick.iter().map(|at| node.devices[*at].numa).collect();
    if need.selector.one_numa
        && !floats
        && numa.windows(2).any(|pair| pair[0].is_none() || pair[0] != pair[1])
    {
        return Err(format!("container {} wanted one NUMA node and got {numa:?}", container.name));
    }
    Ok(())
}

fn part(device: &Device, role: Role, need: &Need) -> Result<Part, String> {
    const MIB: u128 = 1 << 20;
    let all = usable(device);
    let known = || all.ok_or("memory of a device of unknown size was granted".to_string());
    let (bytes, whole) = match &need.amount {
        request::Amount::Bytes(bytes) => known().map(|_| (u128::from(bytes.get()), false))?,
        request::Amount::Portion(portion) => {
            let (parts, of) = portion.parts();
            (known()? * u128::from(parts) / u128::from(of) / MIB * MIB, false)
        }
        request::Amount::Whole => (all.unwrap_or(0), true),
        request::Amount::Plain(rule) => match (device.sharing, rule) {
            (Sharing::Tokens { .. }, PlainRule::Refuse) => {
                return Err("an undeclared need was placed under the rule that rejects it".into());
            }
            (Sharing::Tokens { replicas, strategy: Strategy::Mps }, _)
            | (Sharing::Tokens { replicas, .. }, PlainRule::EqualShare) => {
                (known()? / u128::from(replicas.max(1)) / MIB * MIB, false)
            }
            _ => (all.unwrap_or(0), true),
        },
        request::Amount::Profile(_) => {
            return Err("a slice was granted on a device without slices".into());
        }
        request::Amount::Unknown(_) => return Err("an unknown need was granted".into()),
    };
    let has = device.cores.map_or(0, |cores| u128::from(cores.0));
    let cores = match if whole { Compute::All } else { need.compute } {
        Compute::Any => 0,
        Compute::Units(units) => u128::from(units.0).min(has),
        Compute::Percent(percent) => {
            (has * u128::from(percent.min(100)) / 100).max(u128::from(has > 0))
        }
        Compute::All => has,
    };
    Ok(Part { role, bytes, cores, slots: u128::from(need.slots), whole })
}

fn bookings(node: &Node, rows: &[Row]) -> Vec<Booking> {
    let (floating, fixed): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.floats);
    let mut bookings: Vec<Booking> =
        fixed.iter().map(|row| booking(node, row.at, &row.parts)).collect();
    let mut kinds: Vec<&str> = Vec::new();
    for row in &floating {
        let kind = &*node.devices[row.at].kind;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    for kind in kinds {
        let rows = floating.iter().filter(|row| &*node.devices[row.at].kind == kind);
        bookings.extend(floating_bookings(node, &rows.copied().collect::<Vec<_>>()));
    }
    bookings
}

/// Returns the bookings on cards of one kind that the plugin picks: one per container, or one for
/// the peak of all where some of them are init containers.
fn floating_bookings(node: &Node, rows: &[&Row]) -> Vec<Booking> {
    let has_init = rows[0].parts.iter().any(|part| part.role == Role::Init);
    let groups = if has_init { 1 } else { rows[0].parts.len() };
    let group = |at: usize| {
        let booked = rows.iter().map(|row| {
            let parts = if has_init { &row.parts[..] } else { &row.parts[at..=at] };
            booking(node, row.at, parts)
        });
        let booked: Vec<Booking> = booked.collect();
        let on = booked.iter().flat_map(|one| one.on.clone()).collect();
        let largest = booked
            .into_iter()
            .reduce(|largest, next| if next.bytes() > largest.bytes() { next } else { largest });
        Booking { on, ..largest.expect("a need floats on at least one card") }
    };
    (0..groups).map(group).collect()
}

fn booking(node: &Node, at: usize, parts: &[Part]) -> Booking {
    let bytes = peak(parts, |part| part.bytes);
    let whole = parts.iter().any(|part| part.whole);
    let amount = match (whole, bytes) {
        (true, _) => Amount::Whole(usable(&node.devices[at])),
        (false, 0) => Amount::Undeclared,
        (false, bytes) => Amount::Share(bytes),
    };
    let mask = if whole { u64::MAX } else { 0 };
    let (cores, slots) = (peak(parts, |part| part.cores), peak(parts, |part| part.slots));
    Booking { on: vec![at], amount, cores, slots, mask, several: parts.len() > 1 }
}

/// Returns max(each init + the sidecars before it, all sidecars + all apps) of one amount.
fn peak(parts: &[Part], amount: impl Fn(&Part) -> u128) -> u128 {
    let sum = |parts: &[Part], roles: &[Role]| {
        parts.iter().filter(|p| roles.contains(&p.role)).map(&amount).sum::<u128>()
    };
    let inits = parts.iter().enumerate().filter(|(_, part)| part.role == Role::Init);
    let init = inits
        .map(|(at, part)| amount(part) + sum(&parts[..at], &[Role::Sidecar]))
        .max()
        .unwrap_or(0);
    init.max(sum(parts, &[Role::Sidecar, Role::App]))
}
