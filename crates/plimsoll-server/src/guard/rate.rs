//! The rate limit of each address: a token bucket each, and a limit on the number of buckets.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// The most addresses remembered. One more makes the limiter forget addresses with a full bucket.
const ADDRESSES: usize = 16_384;

/// A bucket for each address.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    burst: f64,
    buckets: HashMap<IpAddr, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rate {
    /// Creates a limiter with a sustained rate and a burst.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Rate { per_second: per_second.into(), burst: burst.into(), buckets: HashMap::new() }
    }

    /// Takes one request from an address, or says after how long there is one again.
    pub(crate) fn take(&mut self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = client(address);
        if self.buckets.len() >= ADDRESSES && !self.buckets.contains_key(&address) {
            self.forget(now);
        }
        let full = Bucket { left: self.burst, at: now };
        let bucket = *self.buckets.get(&address).unwrap_or(&full);
        let left = self.left(bucket, now);
        let taken = if left >= 1.0 { left - 1.0 } else { left };
        self.buckets.insert(address, Bucket { left: taken, at: now });
        if left >= 1.0 {
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - left) / self.per_second))
    }

    fn left(&self, bucket: Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.left + since * self.per_second).min(self.burst)
    }

    /// Forgets addresses whose bucket is full, which changes nothing for them. If there are none,
    /// forgets all: an attacker with many addresses must not lock out the next client, nor fill the
    /// memory.
    fn forget(&mut self, now: Instant) {
        let full = |bucket: &Bucket| self.left(*bucket, now) >= self.burst;
        let kept: HashMap<IpAddr, Bucket> = self
            .buckets
            .iter()
            .filter(|(_, bucket)| !full(bucket))
            .map(|(a, b)| (*a, *b))
            .collect();
        self.buckets = if kept.len() < ADDRESSES { kept } else { HashMap::new() };
    }
}

/// One client has a whole /64 of IPv6, and the IPv4 addresses within IPv6 are those of IPv4.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn each_address_has_a_burst_and_then_its_rate() {
        let (mut rate, now) = (Rate::new(2, 3), Instant::now());
        let one = address("192.0.2.1");
        assert!((0..3).all(|_| rate.take(one, now).is_ok()));
        assert_eq!(rate.take(one, now), Err(Duration::from_millis(500)));
        assert!(rate.take(address("192.0.2.2"), now).is_ok(), "another address has its own");
        assert!(rate.take(one, now + Duration::from_millis(500)).is_ok());
        assert!(rate.take(one, now + Duration::from_millis(600)).is_err());
    }

    #[test]
    fn a_client_does_not_get_more_by_changing_its_address_within_its_network() {
        let (mut rate, now) = (Rate::new(1, 1), Instant::now());
        assert!(rate.take(address("2001:db8::1"), now).is_ok());
        assert!(rate.take(address("2001:db8::2"), now).is_err());
        assert!(rate.take(address("2001:db8:0:1::1"), now).is_ok());
        assert!(rate.take(address("192.0.2.1"), now).is_ok());
        assert!(rate.take(address("::ffff:192.0.2.1"), now).is_err());
    }

    #[test]
    fn memory_is_bounded_and_limited_addresses_stay_limited() {
        let (mut rate, now) = (Rate::new(1, 2), Instant::now());
        let greedy = address("192.0.2.1");
        assert!((0..2).all(|_| rate.take(greedy, now).is_ok()) && rate.take(greedy, now).is_err());
        let later = now + Duration::from_millis(900);
        for number in 0..100_000_u32 {
            let wait = Duration::from_micros(u64::from(number));
            let _ = rate.take(IpAddr::V4((number + (10 << 24)).into()), now + wait);
            assert!(rate.buckets.len() <= ADDRESSES);
            if number == 1000 {
                assert!(rate.take(greedy, later).is_err());
            }
        }
    }
}
