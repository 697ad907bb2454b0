//! The server's clock: wall-clock time that never goes back, within one run or across restarts.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plimsoll_core::units::Millis;

/// A monotonic clock in milliseconds since 1970. If the wall clock was set back, it continues by
/// elapsed time: a deadline must not wait until the wall clock has caught up.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    last: Millis,
    at: Instant,
}

impl Clock {
    /// Creates a clock that continues after the last time of an earlier run.
    pub fn after(last: Millis) -> Clock {
        Clock { last, at: Instant::now() }
    }

    /// Returns the time.
    pub fn now(&mut self) -> Millis {
        self.read(wall(), Instant::now())
    }

    /// Returns how far the wall clock is behind this clock.
    pub fn ahead(&self) -> Duration {
        Duration::from_millis(self.last.0.saturating_sub(wall().0))
    }

    fn read(&mut self, wall: Millis, at: Instant) -> Millis {
        let passed =
            u64::try_from(at.saturating_duration_since(self.at).as_millis()).unwrap_or(u64::MAX);
        let due = Millis(self.last.0.saturating_add(passed));
        // Elapsed time is counted from the point where this clock left the wall clock. Counting
        // from each reading would lose a fraction of a millisecond every time.
        if wall >= due {
            *self = Clock { last: wall, at };
        }
        wall.max(due)
    }
}

fn wall() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_at(clock: &mut Clock, start: Instant, passed: u64, wall: u64) -> u64 {
        clock.read(Millis(wall), start + Duration::from_micros(passed)).0
    }

    #[test]
    fn it_follows_the_wall_forward() {
        let start = Instant::now();
        let mut clock = Clock { last: Millis(0), at: start };
        assert_eq!(read_at(&mut clock, start, 0, 1000), 1000);
        assert_eq!(read_at(&mut clock, start, 5000, 1005), 1005);
        assert_eq!(
            read_at(&mut clock, start, 6000, 90_000),
            90_000,
            "the machine slept, or was set right"
        );
    }

    #[test]
    fn a_wall_that_was_put_back_does_not_hold_time_up() {
        let start = Instant::now();
        let mut clock = Clock { last: Millis(0), at: start };
        read_at(&mut clock, start, 0, 100_000);
        for microseconds in (0..10_000).step_by(300) {
            read_at(&mut clock, start, microseconds, 40_000);
        }
        assert_eq!(read_at(&mut clock, start, 10_000, 40_010), 100_010);
        assert_eq!(read_at(&mut clock, start, 20_000, 100_500), 100_500, "and it follows again");
    }

    #[test]
    fn it_goes_on_after_what_an_earlier_run_told() {
        let mut clock = Clock::after(Millis(u64::MAX / 2));
        assert!(clock.now() >= Millis(u64::MAX / 2));
        assert!(clock.ahead() > Duration::from_secs(60));
        assert_eq!(Clock::after(Millis(0)).ahead(), Duration::ZERO);
    }
}
