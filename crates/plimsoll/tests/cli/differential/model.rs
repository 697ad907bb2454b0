//! The rules of `docs/kubernetes.md` on plain numbers, by trying everything.

use super::asks::Ask;
use super::world::{Cards, Machine, Running, Work};

/// A node with its tenants.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) cards: Vec<Card>,
    /// Bookings on a card that the device plugin picks.
    pub(super) floating: Vec<Floating>,
    /// True if a tenant of unknown size may be on every card.
    pub(super) closed: bool,
    /// True if nothing tells the devices, or two plugins hand out the same.
    unknown: bool,
    source: Cards,
    floats: bool,
    tokens: Amount,
    widgets: Amount,
    cpu: Amount,
    instances: Amount,
}

/// An allocatable resource.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    allocatable: u64,
    used: u64,
}

/// A card with its tenants, in MiB.
#[derive(Clone, Debug)]
pub(super) struct Card {
    pub(super) memory: Option<u64>,
    slots: Option<u64>,
    /// Hundredths of compute; 0 if not counted.
    cores: u64,
    pub(super) used: Use,
    tenants: u64,
}

/// The part of a card that one pod uses, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) mib: u64,
    cores: u64,
    slots: u64,
    /// Tenants that take the card whole.
    wholes: u64,
}

/// A booking on a card that the device plugin picks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floating {
    mib: u64,
    /// The booking has a token, so that it is on the card of that token.
    tokened: bool,
    ending: bool,
}

/// The cards of each container, init containers first. Empty on nodes where the plugin picks.
pub(super) type Assignment = Vec<Vec<usize>>;

impl Node {
    pub(super) fn new(machine: &Machine) -> Node {
        let (slots, cores) = match machine.source {
            Cards::Register { slots } => (Some(slots), 100),
            Cards::EqualShares { slots } => (Some(slots), 100),
            Cards::Sliced { tokens } | Cards::Mps { tokens } => (Some(tokens), 0),
            Cards::Uncounted { advertised } if advertised > 1 => (Some(advertised), 0),
            Cards::Exclusive | Cards::Mig | Cards::Uncounted { .. } | Cards::Unread => (None, 0),
        };
        let card = |memory: &Option<u64>| Card {
            memory: *memory,
            slots,
            cores,
            used: Use::default(),
            tenants: 0,
        };
        let instances = if machine.source == Cards::Mig { machine.memory.len() as u64 } else { 0 };
        let allocatable = |allocatable| Amount { allocatable, used: 0 };
        let mut node = Node {
            cards: machine.memory.iter().map(card).collect(),
            floating: Vec::new(),
            closed: false,
            unknown: machine.source == Cards::Unread || machine.second_plugin,
            source: machine.source,
            floats: machine.floats(),
            tokens: allocatable(machine.tokens),
            widgets: allocatable(machine.widgets),
            cpu: allocatable(machine.cpu),
            instances: allocatable(instances),
        };
        for claim in &machine.claims {
            let card = &mut node.cards[claim.card];
            let mib = claim.mib.or(card.memory).unwrap_or(0);
            card.add(Use { mib, wholes: u64::from(claim.mib.is_none()), ..Use::default() });
        }
        node
    }

    /// Adds a pod that runs, whether it fits or not.
    pub(super) fn observe(&mut self, running: &Running) {
        self.take_resources(&running.work);
        let shared = match self.source {
            Cards::Sliced { .. } => true,
            Cards::Uncounted { advertised } => advertised > 1,
            _ => false,
        };
        let asks = &running.work.apps;
        if running.unknown || (shared && asks.iter().any(|ask| matches!(ask, Ask::Plain(_)))) {
            self.closed = true;
            return;
        }
        if self.floats {
            self.float(&running.work, running.ending);
            return;
        }
        let free = || self.cards.iter().position(|card| card.tenants == 0);
        let own = matches!(self.source, Cards::Register { .. } | Cards::Exclusive | Cards::Mig);
        let card = running.card.or_else(|| if own { free() } else { Some(0) });
        let card = card.expect("the kubelet starts no more tenants than there are cards");
        let used = asks
            .iter()
            .map(|ask| self.use_of(*ask, card).expect("running pods ask for what their card has"));
        let used = used.fold(Use::default(), Use::plus);
        self.cards[card].add(used);
    }

    /// Books a pod on these cards, and on those of the plugin's choice where it picks.
    pub(super) fn book(&mut self, work: &Work, assignment: &Assignment) {
        self.take_resources(work);
        if self.floats {
            self.float(work, false);
            return;
        }
        for (card, used) in self.peaks(work, assignment).expect("it fits") {
            self.cards[card].add(used);
        }
    }

    /// Lists all assignments of cards to the containers of a pod that fit.
    pub(super) fn fitting(&self, work: &Work) -> Vec<Assignment> {
        if self.floats {
            return if self.fits(work, &Vec::new()) { vec![Vec::new()] } else { Vec::new() };
        }
        let mut all: Vec<Assignment> = vec![Vec::new()];
        for ask in work.asks() {
            let sets = subsets(self.cards.len(), ask.cards());
            let longer = all.iter().flat_map(|known| {
                sets.iter().map(|set| known.iter().cloned().chain([set.clone()]).collect())
            });
            all = longer.collect();
        }
        all.retain(|assignment| self.fits(work, assignment));
        all
    }

    /// Returns true if a pod fits on these cards.
    pub(super) fn fits(&self, work: &Work, assignment: &Assignment) -> bool {
        if !self.has_resources(work) {
            return false;
        }
        if work.asks().all(|ask| ask.cards() == 0) {
            return true;
        }
        if self.closed || self.unknown || work.asks().any(|ask| !self.serves(ask)) {
            return false;
        }
        if self.floats {
            return self.fits_floating(work);
        }
        let Some(peaks) = self.peaks(work, assignment) else { return false };
        let is_equal = |card: usize, used: Use| {
            let Use { mib, slots, .. } = self.cards[card].used;
            !matches!(self.source, Cards::EqualShares { .. }) || mib == used.mib * slots
        };
        let mut peaks = peaks.into_iter();
        peaks.all(|(card, used)| self.cards[card].takes(used) && is_equal(card, used))
    }

    /// Returns the most that floating bookings can be on one card.
    pub(super) fn worst_floating(&self) -> u64 {
        worst(&self.floating, self.cards.len(), self.cards[0].slots.unwrap_or(0))
    }

    fn serves(&self, ask: Ask) -> bool {
        match ask {
            Ask::Nothing => true,
            Ask::Instances(_) => self.source == Cards::Mig,
            Ask::EqualShare(_) => matches!(self.source, Cards::EqualShares { .. }),
            _ => !matches!(self.source, Cards::Mig | Cards::EqualShares { .. }),
        }
    }

    /// Returns the use of one card by one container; `None` if the card's memory must be known.
    fn use_of(&self, ask: Ask, card: usize) -> Option<Use> {
        let Card { memory, cores, .. } = self.cards[card];
        let part = |percent: u64| Some(memory? * percent / 100);
        let share = |mib: Option<u64>, slots| Some(Use { mib: mib?, slots, ..Use::default() });
        let whole = Use { mib: memory.unwrap_or(0), cores, slots: 1, wholes: 1 };
        match ask {
            Ask::Nothing => Some(Use::default()),
            Ask::Instances(_) => Some(whole),
            Ask::EqualShare(mib) => share(Some(mib), 1),
            Ask::Plain(_) => match self.source {
                Cards::Mps { tokens } => share(Some(memory? / tokens), 1),
                _ => Some(whole),
            },
            Ask::Memory { mib, cores: asked, .. } => {
                Some(Use { cores: asked.min(cores), ..share(memory.map(|_| mib), 1)? })
            }
            Ask::Percent(percent) => share(part(percent), 1),
            Ask::Share { mib, .. } => share(memory.map(|_| mib), 0),
            Ask::ShareWithTokens { mib, .. } => share(memory.map(|_| mib), 1),
            Ask::Fraction(percent) => share(part(percent), 0),
        }
    }

    /// Returns the peak of a pod on each card: the apps together, or one init container.
    fn peaks(&self, work: &Work, assignment: &Assignment) -> Option<Vec<(usize, Use)>> {
        let mut peaks = Vec::new();
        for card in 0..self.cards.len() {
            let (mut apps, mut peak, mut touched) = (Use::default(), Use::default(), false);
            for (at, ask) in work.asks().enumerate() {
                if !assignment.get(at).is_some_and(|cards| cards.contains(&card)) {
                    continue;
                }
                touched = true;
                let used = self.use_of(ask, card)?;
                if at < work.init.len() {
                    peak = peak.max(used);
                } else {
                    apps = apps.plus(used);
                }
            }
            if touched {
                peaks.push((card, peak.max(apps)));
            }
        }
        Some(peaks)
    }

    fn fits_floating(&self, work: &Work) -> bool {
        // The plugin may give a container one card twice.
        if work.asks().any(|ask| ask.cards() > 1) {
            return false;
        }
        let mut with = self.clone();
        with.float(work, false);
        let (cards, slots) = (self.cards.len(), self.cards[0].slots.unwrap_or(0));
        let alone = work.asks().all(|ask| {
            let whole = self.use_of(ask, 0).is_some_and(|used| used.wholes > 0);
            !whole || self.floating.is_empty()
        });
        let most = worst(&with.floating, cards, slots);
        alone && self.cards[0].memory.is_some_and(|mib| most <= mib)
    }

    /// Books a pod on a card of the plugin's choice. Containers that run at the same time can be on
    /// different cards, and each token of one too. Beside init containers the peak counts in full.
    fn float(&mut self, work: &Work, ending: bool) {
        let mib = |ask: &Ask| self.use_of(*ask, 0).map_or(0, |used| used.mib);
        let asking: Vec<Ask> = work.asks().filter(|ask| ask.cards() > 0).collect();
        if work.init.iter().all(|ask| ask.cards() == 0) {
            let each = asking.iter().flat_map(|ask| {
                let floating = Floating { mib: mib(ask), tokened: ask.tokens() > 0, ending };
                std::iter::repeat_n(floating, ask.cards())
            });
            let each: Vec<Floating> = each.collect();
            self.floating.extend(each);
            return;
        }
        let init = work.init.iter().map(mib).max().unwrap_or(0);
        let mib = init.max(work.apps.iter().map(mib).sum());
        let tokened = matches!(asking[..], [ask] if ask.tokens() > 0);
        self.floating.push(Floating { mib, tokened, ending });
    }

    fn resources(&mut self, work: &Work) -> [(&mut Amount, u64); 4] {
        let Node { tokens, widgets, cpu, instances, .. } = self;
        [
            (tokens, work.peak(Ask::tokens)),
            (instances, work.peak(Ask::instances)),
            (widgets, work.widgets),
            (cpu, work.cpu),
        ]
    }

    fn take_resources(&mut self, work: &Work) {
        for (amount, needed) in self.resources(work) {
            amount.used += needed;
        }
    }

    fn has_resources(&self, work: &Work) -> bool {
        let mut copy = self.clone();
        let mut all = copy.resources(work).into_iter();
        all.all(|(amount, needed)| needed == 0 || amount.used + needed <= amount.allocatable)
    }
}

impl Card {
    fn add(&mut self, used: Use) {
        self.used = self.used.plus(used);
        self.tenants += 1;
    }

    fn takes(&self, new: Use) -> bool {
        let fits =
            |used: u64, new: u64, most: Option<u64>| most.is_none_or(|most| used + new <= most);
        let alone = self.tenants == 0;
        let all_cores = self.cores > 0 && new.cores >= self.cores;
        let no_cores = self.cores > 0 && new.cores == 0 && self.used.cores >= self.cores;
        // More tenants than slots can run, and a share without a token needs none.
        (new.slots == 0 || fits(self.used.slots, new.slots, self.slots))
            && fits(self.used.mib, new.mib, self.memory)
            && (self.cores == 0 || fits(self.used.cores, new.cores, Some(self.cores)))
            && (alone || !(new.wholes > 0 || all_cores))
            && !no_cores
            && (self.memory.is_some() || self.used.wholes + new.wholes <= 1)
    }
}

impl Use {
    fn plus(self, other: Use) -> Use {
        Use {
            mib: self.mib + other.mib,
            cores: self.cores + other.cores,
            slots: self.slots + other.slots,
            wholes: self.wholes + other.wholes,
        }
    }

    fn max(self, other: Use) -> Use {
        Use {
            mib: self.mib.max(other.mib),
            cores: self.cores.max(other.cores),
            slots: self.slots.max(other.slots),
            wholes: self.wholes.max(other.wholes),
        }
    }
}

impl Work {
    /// Iterates over the requests of all containers, init containers first.
    pub(super) fn asks(&self) -> impl Iterator<Item = Ask> {
        self.init.iter().chain(&self.apps).copied()
    }

    /// Returns the largest init container, or all apps together if that is more.
    fn peak(&self, amount: fn(Ask) -> u64) -> u64 {
        let init = self.init.iter().map(|ask| amount(*ask)).max().unwrap_or(0);
        init.max(self.apps.iter().map(|ask| amount(*ask)).sum())
    }
}

/// Returns the most that bookings can be on one card, over all assignments of their tokens. What
/// is being deleted may have given its token back, and what has none may be anywhere.
fn worst(bookings: &[Floating], cards: usize, slots: u64) -> u64 {
    let is_bound = |booking: &&Floating| booking.tokened && !booking.ending;
    let unbound: u64 = bookings.iter().filter(|one| !is_bound(one)).map(|one| one.mib).sum();
    let bound: Vec<u64> = bookings.iter().filter(is_bound).map(|one| one.mib).collect();
    let mut loads = vec![(0_u64, slots); cards];
    unbound + heaviest(&bound, &mut loads)
}

fn heaviest(bookings: &[u64], loads: &mut Vec<(u64, u64)>) -> u64 {
    let Some((first, rest)) = bookings.split_first() else {
        return loads.iter().map(|(load, _)| *load).max().unwrap_or(0);
    };
    let mut most = 0;
    for card in 0..loads.len() {
        let (load, tokens) = loads[card];
        if tokens > 0 {
            loads[card] = (load + first, tokens - 1);
            most = most.max(heaviest(rest, loads));
            loads[card] = (load, tokens);
        }
    }
    most
}

/// Lists all sets of `size` different cards.
fn subsets(cards: usize, size: usize) -> Vec<Vec<usize>> {
    let sets = (0_u32..1 << cards).filter(|set| set.count_ones() as usize == size);
    sets.map(|set| (0..cards).filter(|card| set & (1 << card) != 0).collect()).collect()
}
