//! A GPU as the server shows it, and its load.

use plimsoll_core::units::Bytes;
use serde::Deserialize;

use crate::text::load::{Load, Unmeasured};

/// A GPU, and what is held of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GpuRow {
    pub(crate) index: Option<u16>,
    pub(crate) uuid: String,
    pub(crate) model: Option<String>,
    pub(crate) total: Option<Bytes>,
    pub(crate) reserve: Option<Bytes>,
    pub(crate) usable: Option<Bytes>,
    pub(crate) held: Option<Bytes>,
    pub(crate) floating: Option<Bytes>,
    pub(crate) releasing: Option<Bytes>,
    pub(crate) foreign: Option<Bytes>,
    pub(crate) free: Option<Bytes>,
    pub(crate) over_by: Option<Bytes>,
    pub(crate) used: Option<Bytes>,
    pub(crate) utilisation: Option<u8>,
    pub(crate) health: Option<String>,
    pub(crate) cordoned: bool,
    pub(crate) closed: bool,
    pub(crate) telemetry: Option<String>,
    pub(crate) tenants: Vec<TenantRow>,
}

/// Somebody on a GPU.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TenantRow {
    /// The model of a slot.
    pub(crate) namespace: String,
    /// The slot.
    pub(crate) pod: String,
    pub(crate) bytes: Option<Bytes>,
    pub(crate) stage: String,
}

impl TenantRow {
    /// Whether it has its place and does not run yet.
    pub(crate) fn is_starting(&self) -> bool {
        ["offered", "sent", "starting"].contains(&&*self.stage)
    }

    /// Its stage in the words of the slots.
    pub(crate) fn stage_words(&self) -> &str {
        if self.is_starting() { "starting" } else { &self.stage }
    }
}

impl GpuRow {
    /// What a bar is drawn from. The sums are the server's own.
    pub(crate) fn load(&self) -> Load {
        let known = |sum: Option<Bytes>| sum.unwrap_or(Bytes::ZERO);
        let undeclared = self.tenants.iter().any(|tenant| tenant.bytes.is_none());
        let starting = self.tenants.iter().filter(|tenant| tenant.is_starting());
        let starting = starting.filter_map(|tenant| tenant.bytes).fold(Bytes::ZERO, Bytes::plus);
        Load {
            usable: self.usable,
            foreign: known(self.foreign),
            held: known(self.held),
            starting: starting.min(known(self.held)),
            releasing: known(self.releasing),
            floating: known(self.floating),
            over_by: known(self.over_by),
            unmeasured: undeclared.then_some(Unmeasured::Undeclared),
            tenants: self.tenants.len(),
        }
    }

    /// Whether it holds more than it has.
    pub(crate) fn is_over(&self) -> bool {
        self.over_by.is_some_and(|over_by| !over_by.is_zero())
    }

    /// Its UUID, or its place where it has none.
    pub(crate) fn name(&self) -> String {
        match (self.index, self.uuid.is_empty()) {
            (Some(index), true) => format!("gpu-{index}"),
            (_, _) => self.uuid.clone(),
        }
    }

    /// What is odd about it: `, faulty, cordoned`.
    pub(crate) fn remarks(&self) -> String {
        let health =
            self.health.as_deref().filter(|health| *health != "healthy").map(str::to_string);
        let cordoned = self.cordoned.then(|| "cordoned".to_string());
        let closed = self.closed.then(|| "closed".to_string());
        let stale = self.telemetry.as_deref().filter(|telemetry| *telemetry == "stale");
        let stale = stale.map(|_| "not measured lately".to_string());
        let words = health.into_iter().chain(cordoned).chain(closed).chain(stale);
        words.map(|word| format!(", {word}")).collect()
    }
}
