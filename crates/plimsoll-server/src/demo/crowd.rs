//! Simulated users: they come in waves, stay a while, and give their places back.

use std::time::{Duration, Instant};

use plimsoll_core::units::Timespan;
use plimsoll_slots::desk::{ClientName, NewReservation, ReservationId, ReservationStatus};
use plimsoll_slots::lease::Lease;

use super::Chance;
use crate::SlotEngine as Engine;
use plimsoll_engine::engine::NoAnswer;

/// Each model with its peak rate of reservations, in a thousandth per tick.
const TASTES: [(&str, u64); 9] = [
    ("qwen3:30b", 90),
    ("qwen3:8b", 160),
    ("qwen2.5-vl-7b", 80),
    ("llama3.3:70b", 60),
    ("embeddings", 60),
    ("whisper", 110),
    ("flux-dev", 60),
    ("deepseek-r1:671b", 12),
    ("tokenizer", 20),
];

/// The period of the waves in demand for one model.
const WAVE: Duration = Duration::from_secs(24);

/// Models with one reservation from the beginning to the end. The second does not fit beside the
/// first, so that something is always pending.
pub(super) const RESIDENTS: [&str; 2] = ["safety-filter", "video-studio"];

/// Returns the reservation of a resident.
pub(super) fn resident(model: &str) -> NewReservation {
    let client = ClientName { namespace: "support".to_string(), name: model.to_string() };
    let (client, lease) = (Some(client), Some(Lease::Off));
    NewReservation { client, lease, ..NewReservation::of_model(model) }
}

/// Reservations before the waves begin, with their times in milliseconds: several small, short
/// ones, then a large one, which evicts others.
const OPENING: [(u64, &str); 7] = [
    (0, "qwen3:8b"),
    (0, "qwen2.5-vl-7b"),
    (400, "whisper"),
    (800, "flux-dev"),
    (1200, "qwen2.5-vl-7b"),
    (5000, "llama3.3:70b"),
    (6000, "deepseek-r1:671b"),
];

/// When the waves begin.
const WAVES: Duration = Duration::from_secs(9);

/// The range of a reservation's duration, in milliseconds, at the opening and later.
const SHORT_STAY: (u64, u64) = (300, 600);
const STAY: (u64, u64) = (800, 6000);

/// The users who are there.
#[derive(Default)]
pub(super) struct Crowd {
    came: u64,
    /// The number of opening reservations made so far.
    opened: usize,
    here: Vec<Guest>,
    since: Option<Instant>,
}

/// A simulated client with a reservation.
struct Guest {
    reservation: ReservationId,
    stay: Duration,
    /// When they leave, once they are served.
    leaves: Option<Instant>,
}

impl Crowd {
    /// Reserves for the residents.
    pub(super) async fn settle(engine: &Engine) -> Result<(), NoAnswer> {
        engine
            .write(|desk, core| {
                for model in RESIDENTS {
                    desk.reserve(core, resident(model)).expect("the demo declares its models");
                }
            })
            .await
    }

    /// Some come, some leave.
    pub(super) async fn act(
        &mut self,
        engine: &Engine,
        chance: &mut Chance,
    ) -> Result<(), NoAnswer> {
        let now = Instant::now();
        let age = now.duration_since(*self.since.get_or_insert(now));
        while let Some((at, model)) = OPENING.get(self.opened)
            && age >= Duration::from_millis(*at)
        {
            self.opened += 1;
            self.arrive(engine, model, SHORT_STAY, chance).await?;
        }
        if let Some(age) = age.checked_sub(WAVES) {
            for (taste, (model, most)) in (0_u32..).zip(TASTES) {
                if chance.happens(interest(age, taste) * most / 100) {
                    self.arrive(engine, model, STAY, chance).await?;
                }
            }
        }
        self.depart(engine, now).await
    }

    async fn arrive(
        &mut self,
        engine: &Engine,
        model: &'static str,
        (least, most): (u64, u64),
        chance: &mut Chance,
    ) -> Result<(), NoAnswer> {
        self.came += 1;
        let namespace =
            ["research", "support", "search"][usize::try_from(chance.between(0, 3)).unwrap_or(0)];
        let client =
            ClientName { namespace: namespace.to_string(), name: format!("request-{}", self.came) };
        let reserved = engine.write(move |desk, core| {
            let deadline = Some(core.now().after(Timespan::seconds(20)));
            let new = NewReservation::of_model(model);
            desk.reserve(core, NewReservation { client: Some(client), deadline, ..new })
        });
        if let Ok(reservation) = reserved.await? {
            let stay = Duration::from_millis(chance.between(least, most));
            self.here.push(Guest { reservation, stay, leaves: None });
        }
        Ok(())
    }

    async fn depart(&mut self, engine: &Engine, now: Instant) -> Result<(), NoAnswer> {
        let here: Vec<ReservationId> = self.here.iter().map(|guest| guest.reservation).collect();
        let statuses = engine.read(move |desk, core| {
            let desk = desk.view(core.scheduler());
            here.into_iter().map(|id| (id, desk.reservation_status(id))).collect::<Vec<_>>()
        });
        let mut leaving = Vec::new();
        for (reservation, status) in statuses.await? {
            let Some(at) = self.here.iter().position(|guest| guest.reservation == reservation)
            else {
                continue;
            };
            match status {
                Some(ReservationStatus::Ready { .. }) => {
                    let guest = &mut self.here[at];
                    let leaves = *guest.leaves.get_or_insert(now + guest.stay);
                    if leaves <= now {
                        leaving.push(reservation);
                        self.here.swap_remove(at);
                    }
                }
                Some(ReservationStatus::Pending | ReservationStatus::Starting { .. }) => {}
                Some(ReservationStatus::Ended(_)) | None => drop(self.here.swap_remove(at)),
            }
        }
        engine
            .write(move |desk, core| {
                leaving.iter().for_each(|reservation| {
                    desk.release(core, *reservation);
                });
            })
            .await
    }
}

/// Returns the demand for a model in percent. It rises and falls, with a phase for each model.
fn interest(age: Duration, taste: u32) -> u64 {
    let wave = u64::try_from(WAVE.as_millis()).unwrap_or(1);
    let at = (u64::try_from(age.as_millis()).unwrap_or(0) + u64::from(taste) * wave / 5) % wave;
    let rising = at * 200 / wave;
    10 + if rising <= 100 { rising } else { 200 - rising }
}
