//! The server's own measurements of its time.

use std::net::SocketAddr;

use crate::http::Client;

/// Sums over all batches so far.
#[derive(Clone, Copy)]
pub(crate) struct Inside {
    batches: f64,
    rows: f64,
    deciding: f64,
    committing: f64,
}

impl Inside {
    /// As the metrics say now.
    pub(crate) fn of(server: SocketAddr) -> Inside {
        let text = Client::new(server).send("GET", "/metrics", "").good("metrics");
        let text = String::from_utf8(text).expect("text");
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(f64::NAN)
        };
        Inside {
            batches: value("plimsoll_commit_seconds_count"),
            rows: value("plimsoll_commit_rows_sum"),
            deciding: value("plimsoll_decide_seconds_sum"),
            committing: value("plimsoll_commit_seconds_sum"),
        }
    }

    /// Returns the difference from an earlier reading, per batch.
    pub(crate) fn since(self, earlier: Inside) -> String {
        let batches = self.batches - earlier.batches;
        format!(
            "{batches:.0} batches of {:.1} rows; a batch took {:.2} ms to decide and {:.2} ms to become durable",
            (self.rows - earlier.rows) / batches,
            (self.deciding - earlier.deciding) * 1000.0 / batches,
            (self.committing - earlier.committing) * 1000.0 / batches,
        )
    }
}
