//! Brute force: every device for every need on every node, judged by a rule of its own. It reads
//! facts and charges, and asks the core for no sum and no fit.

use plimsoll_core::charge::Booked;
use plimsoll_core::device::{Capacity, Device, Health, Sharing};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::{Amount, Compute, Need, PlainRule, RequestId, Role, Shape, Spec};

/// A node with its cards and what is taken of them.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) cards: Vec<Card>,
    cpu_free: Option<u128>,
    missing: usize,
}

/// A card with what is taken of it.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    device: Device,
    usable: u128,
    pub(crate) load: u128,
    cores: u128,
    slots: u128,
    tenants: usize,
    undeclared: bool,
}

/// The devices of each need, in order.
pub(crate) type Assignment = Vec<Vec<usize>>;

/// Returns every node, without some requests.
pub(crate) fn sites(ledger: &Ledger, without: &[RequestId]) -> Vec<Site> {
    let site = |view: &plimsoll_core::room::NodeView| {
        let node = &view.node;
        let here = || {
            ledger
                .holdings()
                .map(|(_, h)| h)
                .filter(|h| h.node == node.name && !without.contains(&h.request))
        };
        let cpu: u128 = here().map(|holding| u128::from(holding.resources.cpu.0)).sum();
        let mut cards: Vec<Card> = node.devices.iter().map(Card::empty).collect();
        for charge in here().flat_map(|holding| &holding.charges) {
            for at in &charge.on {
                let card = &mut cards[usize::from(*at)];
                card.load += match charge.amount {
                    Booked::Share(bytes) => u128::from(bytes.get()),
                    Booked::Whole { .. } => card.usable,
                    Booked::Undeclared => 0,
                };
                card.undeclared |= charge.amount == Booked::Undeclared;
                card.cores += u128::from(charge.cores.0);
                card.slots += u128::from(charge.slots);
                card.tenants += 1;
            }
        }
        Site {
            name: node.name.to_string(),
            cards,
            cpu_free: node.allocatable.cpu.map(|has| u128::from(has.0).saturating_sub(cpu)),
            missing: usize::from(node.missing_cards),
        }
    };
    ledger.nodes().map(|(_, view)| site(view)).collect()
}

impl Card {
    fn empty(device: &Device) -> Self {
        let Capacity::Known { bytes, .. } = device.memory.total else {
            panic!("brute force knows every card's memory")
        };
        let usable =
            u128::from(bytes.get()).saturating_sub(u128::from(device.memory.reserve.get()));
        let usable = device.memory.cap.map_or(usable, |cap| usable.min(u128::from(cap.get())));
        Card {
            device: device.clone(),
            usable,
            load: 0,
            cores: 0,
            slots: 0,
            tenants: 0,
            undeclared: false,
        }
    }

    /// Returns the free bytes.
    pub(crate) fn free(&self) -> u128 {
        self.usable.saturating_sub(self.load)
    }

    fn bytes(&self, need: &Need) -> Option<(u128, bool)> {
        const MIB: u128 = 1 << 20;
        let share = |bytes: u128| (bytes >= 1).then_some((bytes, false));
        match (&need.amount, self.device.sharing) {
            (Amount::Bytes(bytes), _) => share(u128::from(bytes.get())),
            (Amount::Portion(portion), _) => {
                let (parts, of) = portion.parts();
                share(self.usable * u128::from(parts) / u128::from(of) / MIB * MIB)
            }
            (Amount::Plain(PlainRule::Refuse), Sharing::Tokens { .. }) => None,
            (Amount::Plain(PlainRule::EqualShare), Sharing::Tokens { replicas, .. }) => {
                share(self.usable / u128::from(replicas.max(1)) / MIB * MIB)
            }
            (Amount::Whole | Amount::Plain(_), _) => Some((self.usable, true)),
            (Amount::Profile(_) | Amount::Unknown(_), _) => None,
        }
    }

    fn cores_for(&self, need: &Need, whole: bool) -> u128 {
        let has = self.device.cores.map_or(0, |cores| u128::from(cores.0));
        match (whole, need.compute) {
            (true, _) | (_, Compute::All) => has,
            (_, Compute::Any) => 0,
            (_, Compute::Units(units)) => has.min(u128::from(units.0)),
            (_, Compute::Percent(percent)) => (has * u128::from(percent) / 100).max(has.min(1)),
        }
    }

    /// Returns the peak of these parts of one request on this device; `None` if they do not fit.
    fn takes(&self, parts: &[(Role, &Need)]) -> Option<[u128; 3]> {
        if self.device.health != Health::Healthy || self.device.cordoned || self.undeclared {
            return None;
        }
        let mut rows = Vec::new();
        for (role, need) in parts {
            let (bytes, whole) = self.bytes(need)?;
            if *need.kind != *self.device.kind
                || ((whole || need.selector.alone) && self.tenants > 0)
            {
                return None;
            }
            rows.push((*role, [bytes, self.cores_for(need, whole), u128::from(need.slots)]));
        }
        let peak = [0, 1, 2].map(|at| peak(&rows, at));
        let has_cores = self.device.cores.map_or(0, |cores| u128::from(cores.0));
        let fits = peak[0] <= self.free()
            && (has_cores == 0 || peak[1] + self.cores <= has_cores)
            && (has_cores == 0 || self.cores < has_cores)
            && (has_cores == 0 || peak[1] < has_cores || self.tenants == 0)
            && self.device.slots.is_none_or(|slots| peak[2] + self.slots <= u128::from(slots));
        fits.then_some(peak)
    }
}

fn peak(rows: &[(Role, [u128; 3])], at: usize) -> u128 {
    let (mut sidecars, mut apps, mut most) = (0, 0, 0);
    for (role, row) in rows {
        match role {
            Role::Init => most = most.max(sidecars + row[at]),
            Role::Sidecar => sidecars += row[at],
            Role::App => apps += row[at],
        }
    }
    most.max(sidecars + apps)
}

fn needs(shape: &Shape) -> Vec<(usize, Role, &Need)> {
    shape
        .containers
        .iter()
        .enumerate()
        .flat_map(|(at, c)| c.needs.iter().map(move |need| (at, c.role, need)))
        .collect()
}

impl Site {
    /// Returns the site with this choice of devices booked; `None` if it does not serve the shape.
    pub(crate) fn with(&self, spec: &Spec, shape: &Shape, picks: &Assignment) -> Option<Site> {
        let cpu = u128::from(spec.resources.cpu.0);
        if self.cpu_free.is_some_and(|free| cpu > free) {
            return None;
        }
        let needs = needs(shape);
        let mut site = self.clone();
        site.cpu_free = self.cpu_free.map(|free| free - cpu);
        if needs.len() != picks.len() {
            return None;
        }
        for ((_, _, need), pick) in needs.iter().zip(picks) {
            let numa = |at: &usize| self.cards[*at].device.numa;
            if pick.len() != usize::from(need.count.get())
                || (need.selector.one_numa
                    && pick.len() > 1
                    && pick.iter().any(|at| numa(at).is_none() || numa(at) != numa(&pick[0])))
            {
                return None;
            }
        }
        for (at, card) in self.cards.iter().enumerate() {
            let here: Vec<_> = needs
                .iter()
                .zip(picks)
                .filter(|(_, pick)| pick.contains(&at))
                .map(|(need, _)| *need)
                .collect();
            let twice = here
                .iter()
                .enumerate()
                .any(|(i, one)| here[i + 1..].iter().any(|other| one.0 == other.0));
            if here.is_empty() {
                continue;
            }
            let parts: Vec<(Role, &Need)> =
                here.iter().map(|(_, role, need)| (*role, *need)).collect();
            let [bytes, cores, slots] = card.takes(&parts).filter(|_| !twice)?;
            let card = &mut site.cards[at];
            (card.load, card.cores, card.slots) =
                (card.load + bytes, card.cores + cores, card.slots + slots);
            card.tenants += 1;
        }
        let in_use = |site: &Site| site.cards.iter().filter(|card| card.tenants > 0).count();
        let opened = in_use(&site) - in_use(self);
        let spare = self.cards.len().saturating_sub(self.missing).saturating_sub(in_use(self));
        (self.missing == 0 || opened <= spare).then_some(site)
    }

    /// Visits every choice of devices that serves the shape, until one is enough.
    pub(crate) fn each(
        &self,
        spec: &Spec,
        shape: &Shape,
        visit: &mut dyn FnMut(&Site, &Assignment) -> bool,
    ) -> bool {
        self.descend(spec, shape, &mut Vec::new(), visit)
    }

    fn descend(
        &self,
        spec: &Spec,
        shape: &Shape,
        picks: &mut Assignment,
        visit: &mut dyn FnMut(&Site, &Assignment) -> bool,
    ) -> bool {
        let needs = needs(shape);
        let Some((_, _, need)) = needs.get(picks.len()) else {
            return self.with(spec, shape, picks).is_some_and(|site| visit(&site, picks));
        };
        for pick in subsets(self.cards.len(), usize::from(need.count.get())) {
            picks.push(pick);
            let enough = self.descend(spec, shape, picks, visit);
            picks.pop();
            if enough {
                return true;
            }
        }
        false
    }

    /// Returns true if a choice of devices serves the shape.
    pub(crate) fn fits(&self, spec: &Spec, shape: &Shape) -> bool {
        self.each(spec, shape, &mut |_, _| true)
    }
}

/// Every set of `size` out of `of`.
fn subsets(of: usize, size: usize) -> Vec<Vec<usize>> {
    let masks = 0_u32..1 << of;
    let members = |mask: u32| (0..of).filter(|at| mask & (1 << at) != 0).collect::<Vec<_>>();
    masks.map(members).filter(|set| set.len() == size).collect()
}

/// The first shape that any site serves.
pub(crate) fn first_shape(sites: &[Site], spec: &Spec) -> Option<usize> {
    spec.shapes().iter().position(|shape| sites.iter().any(|site| site.fits(spec, shape)))
}
