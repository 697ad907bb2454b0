//! The rule for cards that the device plugin chooses, against every assignment of bookings.

use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Part, Stage};
use plimsoll_core::device::{
    Device, DeviceChoice, Node, Sharing, Source, Strategy as SharingStrategy, Telemetry,
};
use plimsoll_core::fit::Placement;
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::{
    Amount, Container, Need, NodeNeed, Request, RequestId, Role, Shape, Spec, Terms,
};
use plimsoll_core::room::Measured;
use plimsoll_core::units::{Bytes, Cores, Millis};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Card {
    gib: u64,
    tokens: u32,
    foreign: u64,
}

/// A booking of one container, or of two with their own amounts.
#[derive(Clone, Debug)]
struct Booking {
    /// One bit per card that it may be on.
    on: usize,
    gib: Vec<u64>,
    /// Tokens of each container.
    slots: u32,
    releasing: bool,
    charging: Charging,
}

/// The charges of a booking of several containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charging {
    /// One per container, as for containers that run at the same time.
    Each,
    /// One for all.
    Together,
}

/// The cards, what is on them, and a new request: the memory and the tokens of each container.
#[derive(Clone, Debug)]
struct Case {
    cards: Vec<Card>,
    bookings: Vec<Booking>,
    needs: Vec<(u64, u32)>,
}

/// One container somewhere: its memory, the cards it may be on, and whether it holds a token there.
#[derive(Clone, Debug)]
struct Piece {
    on: Vec<usize>,
    gib: u64,
    token: bool,
}

impl Booking {
    fn cards(&self, count: usize) -> Vec<usize> {
        (0..count).filter(|card| self.on >> card & 1 == 1).collect()
    }

    /// Returns the tokens of all its containers.
    fn slots(&self) -> u32 {
        self.slots * u32::try_from(self.gib.len()).unwrap()
    }
}

impl Case {
    /// Returns every container that stays, the new one included, and every one that may have given
    /// its token back.
    fn pieces(&self) -> Vec<Piece> {
        let count = self.cards.len();
        let pieces = self.bookings.iter().flat_map(|booking| {
            let token = booking.slots > 0 && !booking.releasing;
            let piece = move |gib: &u64| Piece { on: booking.cards(count), gib: *gib, token };
            booking.gib.iter().map(piece)
        });
        let new = self.needs.iter().map(|(gib, slots)| Piece {
            on: (0..count).collect(),
            gib: *gib,
            token: *slots > 0,
        });
        pieces.chain(new).collect()
    }

    /// Returns true if the tokens do not hold the new request beside all others.
    fn lacks_tokens(&self) -> bool {
        let used: u32 = self.bookings.iter().map(Booking::slots).sum();
        let all: u32 = self.cards.iter().map(|card| card.tokens).sum();
        used + self.tokens() > all
    }

    /// Returns the tokens of the new request.
    fn tokens(&self) -> u32 {
        self.needs.iter().map(|need| need.1).sum()
    }

    /// Returns true if no card has more pinned tokens than tokens: nothing contradicts the facts.
    fn is_consistent(&self) -> bool {
        let pinned = |card: usize| -> u32 {
            let here = self.bookings.iter().filter(|booking| booking.on == 1 << card);
            here.map(Booking::slots).sum()
        };
        (0..self.cards.len()).all(|card| pinned(card) <= self.cards[card].tokens)
    }

    /// Returns true if the plugin can have picked cards so that one holds more than it has.
    fn can_overcommit(&self) -> bool {
        let mut loads: Vec<(u64, u32)> =
            self.cards.iter().map(|card| (card.foreign, card.tokens)).collect();
        overcommits(&self.cards, &self.pieces(), &mut loads)
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        let mut node = Node::new("n");
        node.choice = DeviceChoice::Plugin;
        for card in &self.cards {
            let mut device = Device::new("NVIDIA", Bytes::gib(card.gib), Source::Declared);
            let strategy = SharingStrategy::TimeSlicing;
            device.sharing = Sharing::Tokens { replicas: card.tokens, strategy };
            device.slots = Some(card.tokens);
            node.devices.push(device);
        }
        ledger.put_node(node);
        for (ordinal, card) in (0_u16..).zip(&self.cards) {
            let foreign = Bytes::gib(card.foreign);
            let telemetry = Telemetry::Fresh { at: Millis(1) };
            let measured = Measured { foreign, telemetry, closed: false };
            ledger.measure(&"n".into(), ordinal, measured).unwrap();
        }
        for (number, booking) in self.bookings.iter().enumerate() {
            ledger.observe(holding(number, booking, self.cards.len())).unwrap();
        }
        ledger
    }

    fn is_admitted(&self) -> bool {
        let containers = self.needs.iter().enumerate().map(|(at, (gib, slots))| {
            let need =
                Need { slots: *slots, ..Need::one("NVIDIA", Amount::bytes(Bytes::gib(*gib))) };
            Container { name: format!("c{at}").into(), role: Role::App, needs: vec![need] }
        });
        let shape = Shape { containers: containers.collect() };
        let spec = Arc::new(Spec::from_shapes(vec![shape]));
        let request = Request { id: RequestId::new("tests", "new"), spec, terms: Terms::default() };
        let cards: Vec<u16> = (0_u16..).take(self.cards.len()).collect();
        let picks = vec![cards; self.needs.len()];
        self.ledger().admits(&request, &Placement { node: "n".into(), shape: 0, picks })
    }
}

fn holding(number: usize, booking: &Booking, cards: usize) -> Holding {
    let part = |gib: &u64| Part {
        container: format!("c{gib}").into(),
        role: Role::App,
        bytes: Some(Bytes::gib(*gib)),
        cores: Cores(0),
    };
    let charge = |gib: &[u64]| Charge {
        on: booking.cards(cards).iter().map(|card| u16::try_from(*card).unwrap()).collect(),
        amount: Booked::share(Bytes::gib(gib.iter().sum())),
        cores: Cores(0),
        slots: booking.slots * u32::try_from(gib.len()).unwrap(),
        slice: None,
        parts: gib.iter().map(part).collect(),
    };
    let since = Millis(0);
    Holding {
        request: RequestId::new("tests", format!("b{number}")),
        node: "n".into(),
        stage: if booking.releasing {
            Stage::Releasing { since }
        } else {
            Stage::Running { since }
        },
        charges: match booking.charging {
            Charging::Each => booking.gib.chunks(1).map(charge).collect(),
            Charging::Together => vec![charge(&booking.gib)],
        },
        resources: NodeNeed::default(),
        terms: Terms::default(),
        activity: Activity::Unknown,
        spec: None,
    }
}

/// Tries every card for the next piece. `loads` has the load and the free tokens of each card.
fn overcommits(cards: &[Card], pieces: &[Piece], loads: &mut [(u64, u32)]) -> bool {
    let Some((piece, rest)) = pieces.split_first() else {
        return loads.iter().zip(cards).any(|((load, _), card)| *load > card.gib);
    };
    for card in &piece.on {
        let before = loads[*card];
        let Some(left) = before.1.checked_sub(u32::from(piece.token)) else { continue };
        loads[*card] = (before.0 + piece.gib, left);
        let found = overcommits(cards, rest, loads);
        loads[*card] = before;
        if found {
            return true;
        }
    }
    false
}

fn cards() -> impl Strategy<Value = Vec<Card>> {
    let card = (6..14_u64, 1..4_u32, prop_oneof![3 => Just(0), 1 => 0..3_u64])
        .prop_map(|(gib, tokens, foreign)| Card { gib, tokens, foreign });
    prop::collection::vec(card, 2..4)
}

fn booking(
    on: impl Strategy<Value = usize>,
    containers: usize,
    charging: impl Strategy<Value = Charging>,
) -> impl Strategy<Value = Booking> {
    let gib = prop::collection::vec(1..5_u64, 1..=containers);
    let slots = prop_oneof![5 => Just(1), 1 => Just(0)];
    let releasing = prop_oneof![6 => Just(false), 1 => Just(true)];
    (on, gib, slots, releasing, charging).prop_map(|(on, gib, slots, releasing, charging)| {
        Booking { on, gib, slots, releasing, charging }
    })
}

/// The needs of one to three containers.
fn needs() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let need = (1..8_u64, prop_oneof![5 => Just(1), 1 => Just(0)]);
    prop::collection::vec(need, 1..4)
}

/// Bookings whose containers may be on all cards, or are on a known one.
fn case_of_equal_choice() -> impl Strategy<Value = Case> {
    cards().prop_flat_map(|cards| {
        let all = (1 << cards.len()) - 1;
        let on = prop_oneof![4 => Just(all), 1 => (0..cards.len()).prop_map(|card| 1 << card)];
        let bookings = prop::collection::vec(booking(on, 2, Just(Charging::Each)), 0..6);
        (Just(cards), bookings, needs()).prop_map(|(cards, bookings, needs)| Case {
            cards,
            bookings,
            needs,
        })
    })
}

/// Bookings of one or two containers that may be on any set of cards.
fn case_of_any_choice() -> impl Strategy<Value = Case> {
    cards().prop_flat_map(|cards| {
        let bookings = prop::collection::vec(
            booking(
                1..1_usize << cards.len(),
                2,
                prop_oneof![Just(Charging::Each), Just(Charging::Together)],
            ),
            0..6,
        );
        (Just(cards), bookings, needs()).prop_map(|(cards, bookings, needs)| Case {
            cards,
            bookings,
            needs,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_request_is_admitted_exactly_if_no_choice_of_the_plugin_overcommits_a_card(
        case in case_of_equal_choice(),
    ) {
        prop_assume!(case.is_consistent());
        // A card that is too small even when empty rejects, also if it has no token to give.
        let largest = case.needs.iter().map(|need| need.0).max().unwrap();
        prop_assume!(case.cards.iter().all(|card| largest <= card.gib));
        let without = Case { needs: vec![(1, 0)], ..case.clone() };
        prop_assume!(!without.lacks_tokens());
        let safe = !case.lacks_tokens() && !case.can_overcommit();
        prop_assert_eq!(case.is_admitted(), safe);
    }

    #[test]
    fn no_admitted_request_lets_the_plugin_overcommit_a_card_whatever_the_others_are_on(
        case in case_of_any_choice(),
    ) {
        prop_assume!(case.is_consistent());
        if case.is_admitted() {
            prop_assert!(case.tokens() == 0 || !case.lacks_tokens());
            prop_assert!(!case.can_overcommit());
        }
    }
}

#[test]
fn equal_requests_fill_all_tokens_and_no_card_is_overcommitted() {
    for (count, gib, tokens, each, taken) in [
        (4, 16, 4, vec![4], 16),
        (8, 80, 4, vec![1], 32),
        (2, 32, 50, vec![8], 4),
        (2, 16, 1, vec![16], 2),
        // Two containers have two tokens, on one card or on two.
        (4, 16, 4, vec![4, 4], 8),
        (4, 16, 4, vec![5, 3], 2),
        (3, 24, 2, vec![12, 12, 12], 2),
    ] {
        let cards = vec![Card { gib, tokens, foreign: 0 }; count];
        let on = (1 << count) - 1;
        let needs = each.iter().map(|gib| (*gib, 1)).collect();
        let mut case = Case { cards, bookings: Vec::new(), needs };
        while case.is_admitted() {
            let charging = Charging::Each;
            let gib = each.clone();
            case.bookings.push(Booking { on, gib, slots: 1, releasing: false, charging });
        }
        assert_eq!(case.bookings.len(), taken, "{count} x {gib} GiB, {tokens} tokens: {each:?}");
    }
}
