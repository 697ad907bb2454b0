//! The server's clock: it never goes back, and a step of the wall clock does not make it jump.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plimsoll_core::units::Millis;

/// The clock runs at most this part faster or slower than elapsed time while it approaches the wall
/// clock. A lease of 15 s then lasts at least 13 s, and an hour is made up for in eight.
const SLEW: u32 = 8;

/// A clock in milliseconds since 1970 that counts elapsed time and approaches the wall clock.
///
/// Leases, deadlines and idle times are durations, so they must follow elapsed time. If the clock
/// followed a forward step of the wall clock (NTP, a resumed virtual machine), every runner would
/// be silent and every deadline expired at once. The dates that people read should still be right
/// in the end. Therefore a difference is slewed: the clock runs faster or slower by one part in
/// `SLEW` until the difference is gone. Only a start reads the wall clock directly.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The last reading, since 1970. Nanoseconds, so that frequent readings lose no fraction.
    last: Duration,
    at: Instant,
}

impl Clock {
    /// Creates a clock that shows the wall clock's time, or continues after the last time of an
    /// earlier run if that is later.
    pub fn after(last: Millis) -> Clock {
        Clock { last: Duration::from_millis(last.0).max(wall()), at: Instant::now() }
    }

    /// Returns the time.
    pub fn now(&mut self) -> Millis {
        self.read(wall(), Instant::now())
    }

    /// Returns how far the wall clock is behind this clock.
    pub fn ahead(&self) -> Duration {
        self.last.saturating_sub(wall())
    }

    fn read(&mut self, wall: Duration, at: Instant) -> Millis {
        let elapsed = at.saturating_duration_since(self.at);
        let due = self.last.saturating_add(elapsed);
        let most = elapsed / SLEW;
        // Never back: the correction is smaller than the elapsed time.
        self.last = wall.clamp(due.saturating_sub(most), due.saturating_add(most));
        self.at = self.at.max(at);
        Millis(u64::try_from(self.last.as_millis()).unwrap_or(u64::MAX))
    }
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    /// A clock that shows one hour, beside a wall clock that a test sets.
    struct Setup {
        clock: Clock,
        start: Instant,
    }

    impl Setup {
        fn new() -> Setup {
            let start = Instant::now();
            Setup { clock: Clock { last: Duration::from_millis(HOUR), at: start }, start }
        }

        /// Reads the clock after a number of microseconds, with the wall clock at a millisecond.
        fn read(&mut self, passed: u64, wall: u64) -> u64 {
            let at = self.start + Duration::from_micros(passed);
            self.clock.read(Duration::from_millis(wall), at).0
        }
    }

    #[test]
    fn it_shows_the_wall_clock_while_that_keeps_time() {
        let mut setup = Setup::new();
        for second in 1..100 {
            assert_eq!(setup.read(second * 1_000_000, HOUR + second * 1000), HOUR + second * 1000);
        }
    }

    #[test]
    fn a_forward_step_of_the_wall_clock_shortens_durations_by_an_eighth_at_most() {
        let mut setup = Setup::new();
        for second in 1..=80 {
            let shown = setup.read(second * 1_000_000, 2 * HOUR + second * 1000);
            assert_eq!(shown, HOUR + second * 1125, "after {second} s");
        }
        let day = 8 * HOUR + 1000;
        assert_eq!(setup.read(day * 1000, 2 * HOUR + day), 2 * HOUR + day, "made up for in time");
    }

    #[test]
    fn a_backward_step_of_the_wall_clock_slows_time_and_never_turns_it_back() {
        let mut setup = Setup::new();
        let mut last = HOUR;
        for reading in 1..=10_000 {
            let shown = setup.read(reading * 300, HOUR / 2);
            assert!(shown >= last, "{shown} after {last}");
            last = shown;
        }
        assert_eq!(last, HOUR + 3000 - 375, "three seconds at seven eighths of the speed");
        let later = 8 * HOUR;
        assert_eq!(setup.read(later * 1000, HOUR / 2 + later), HOUR / 2 + later);
    }

    #[test]
    fn it_goes_on_after_the_last_time_of_an_earlier_run() {
        let mut clock = Clock::after(Millis(u64::MAX / 2));
        assert!(clock.now() >= Millis(u64::MAX / 2));
        assert!(clock.ahead() > Duration::from_secs(60));
        assert_eq!(Clock::after(Millis(0)).ahead(), Duration::ZERO);
    }
}
