//! The profile of a day: how often things go wrong, and how much is asked.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use plimsoll_core::account::{Quota, Share, Shares};
use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::{Bytes, Name, Timespan};
use plimsoll_slots::desk::DeskConfig;
use plimsoll_slots::lease::Lease;
use plimsoll_slots::size::Span;

use super::models;
use super::network::NetworkFaults;
use super::random::Random;

/// A day with faults, or its end without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Faulty,
    /// No faults and no calls of clients: everything must come to rest.
    Quiet,
}

/// Memory measurements by the runners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measuring {
    On,
    Off,
}

/// The profile of a day. Durations are mean intervals in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    pub network: NetworkFaults,
    pub mode: Mode,
    pub measuring: Measuring,
    /// The percentage of starts that fail.
    pub failed_starts: u64,
    pub tick: u64,
    pub heartbeat: u64,
    pub client_call: u64,
    pub process_event: u64,
    pub machine_fault: u64,
    /// One crash in this many batches; none for 0.
    pub crash_one_in: u64,
    /// Clients for each machine.
    pub clients: u64,
}

impl Profile {
    /// Draws the profile of a day.
    pub(super) fn draw(random: &mut Random) -> Self {
        let is_wild = random.percent(30);
        let most = if is_wild { 25 } else { 8 };
        Profile {
            network: NetworkFaults {
                late: random.below(most),
                lost: random.below(most),
                duplicated: random.below(most),
            },
            mode: Mode::Faulty,
            measuring: *random.pick(&[Measuring::On, Measuring::Off]),
            failed_starts: random.below(most),
            tick: *random.pick(&[20_000, 60_000, 120_000]),
            heartbeat: *random.pick(&[30_000, 60_000, 180_000]),
            client_call: *random.pick(&[120_000, 300_000, 900_000]),
            process_event: *random.pick(&[300_000, 900_000]),
            machine_fault: if is_wild { 7_200_000 } else { 28_800_000 },
            crash_one_in: if is_wild { 60 } else { 250 },
            clients: *random.pick(&[1, 2, 6]),
        }
    }
}

/// Draws the settings of the scheduler.
pub(super) fn draw_settings(random: &mut Random) -> Settings {
    let mut policy: Policy = random.pick(&Policy::all()).clone();
    policy.search_steps = *random.pick(&[100, 300, 2_000]);
    Settings {
        policy,
        telemetry_for: Some(Timespan::seconds(600)),
        residency: Timespan::millis(*random.pick(&[0, 30_000, 300_000])),
        serial_starts: random.percent(50),
        accounts: draw_accounts(random),
        ..Settings::default()
    }
}

/// Draws the shares of teams, whose accounts are models; without any on most days.
fn draw_accounts(random: &mut Random) -> Shares {
    let mut accounts: BTreeMap<Name, Share> = BTreeMap::new();
    if random.percent(60) {
        return Shares::default();
    }
    let has_parents = random.percent(30);
    for (team, first) in ["team-a", "team-b", "team-c"].into_iter().zip([0, 3, 6]) {
        let members = models::names().skip(first).take(3).map(Name::from).collect();
        let gib = |random: &mut Random, most| Bytes::gib(random.between(20, most));
        let guaranteed = Quota {
            memory: random.percent(60).then(|| gib(random, 200)),
            devices: random.percent(20).then(|| u32::try_from(random.between(1, 6)).unwrap_or(6)),
        };
        let above = |random: &mut Random| Some(gib(random, 200).plus(guaranteed.memory?));
        let memory = if random.percent(20) { above(random) } else { None };
        let maximum = Quota { memory, devices: None };
        let weight = NonZeroU32::new(u32::try_from(random.between(1, 3)).unwrap_or(1));
        let parent = (has_parents && team != "team-c").then(|| "company".into());
        let weight = weight.unwrap_or(NonZeroU32::MIN);
        let share = Share { parent, members, guaranteed, maximum, weight };
        accounts.insert(team.into(), share);
    }
    if has_parents {
        accounts.insert("company".into(), Share::default());
    }
    Shares::try_from(accounts).expect("valid shares")
}

/// Draws the configuration of the desk.
pub(super) fn draw_config(random: &mut Random, profile: &Profile) -> DeskConfig {
    DeskConfig {
        heartbeat: Span(profile.heartbeat),
        lease: Span(profile.heartbeat * random.between(3, 8)),
        ended_kept: *random.pick(&[50, 100_000]),
        reservation_lease: *random.pick(&[
            Lease::Off,
            Lease::For(Span::seconds(1_800)),
            Lease::For(Span::seconds(10_800)),
        ]),
        ..DeskConfig::default()
    }
}
