//! The profile of a day: how often things go wrong, and how much is asked.

use plimsoll_core::event::Settings;
use plimsoll_core::policy::Policy;
use plimsoll_core::units::Timespan;
use plimsoll_slots::desk::DeskConfig;
use plimsoll_slots::lease::Lease;
use plimsoll_slots::size::Span;

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
    policy.search_steps = *random.pick(&[100, 300, 1_000]);
    Settings {
        policy,
        telemetry_for: Some(Timespan::seconds(600)),
        residency: Timespan::millis(*random.pick(&[0, 30_000, 300_000])),
        serial_starts: random.percent(50),
        ..Settings::default()
    }
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
