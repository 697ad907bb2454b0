//! One reservation: a claim of a client to one concurrency unit of a model.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use plimsoll_core::rejection::Rejection;
use plimsoll_core::units::{Millis, Name};
use serde::{Deserialize, Serialize};

use super::backlog::PendingLimit;
use super::reasons::{Loss, StatusReason};
use crate::lease::Lease;
use crate::size::Span;

/// The number of a reservation; printed `reservation-7`. Reservations are served in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReservationId(pub u64);

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("reservation-{}", self.0))
    }
}

/// An error of parsing a [`ReservationId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a reservation id; write it as reservation-7")]
pub struct InvalidReservationId;

impl FromStr for ReservationId {
    type Err = InvalidReservationId;

    fn from_str(text: &str) -> Result<Self, InvalidReservationId> {
        let number = text.strip_prefix("reservation-").ok_or(InvalidReservationId)?;
        number.parse().map(ReservationId).map_err(|_| InvalidReservationId)
    }
}

/// A client's claim to one concurrency unit of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub id: ReservationId,
    pub model: String,
    pub key: Option<IdempotencyKey>,
    pub client: Option<ClientName>,
    pub created: Millis,
    /// The time at which the reservation expires unless it has been served by then.
    pub deadline: Option<Millis>,
    #[serde(default = "Lease::before_leases")]
    pub lease: Lease,
    pub state: ReservationState,
}

/// The key that tells a repeated request from a new one. The keys of different callers are
/// different keys: otherwise one client could read and release the reservation of another by
/// guessing its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "StoredKey", into = "StoredKey")]
pub struct IdempotencyKey {
    /// The name of the caller's token; `None` on a server without tokens.
    pub caller: Option<String>,
    pub text: String,
}

/// The form in the journal. A key without a caller is its text, as in earlier journals.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredKey {
    Text(String),
    OfCaller { caller: String, key: String },
}

impl From<StoredKey> for IdempotencyKey {
    fn from(stored: StoredKey) -> Self {
        match stored {
            StoredKey::Text(text) => IdempotencyKey { caller: None, text },
            StoredKey::OfCaller { caller, key } => {
                IdempotencyKey { caller: Some(caller), text: key }
            }
        }
    }
}

impl From<IdempotencyKey> for StoredKey {
    fn from(IdempotencyKey { caller, text }: IdempotencyKey) -> Self {
        match caller {
            None => StoredKey::Text(text),
            Some(caller) => StoredKey::OfCaller { caller, key: text },
        }
    }
}

/// The name that a client gives itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientName {
    pub namespace: String,
    pub name: String,
}

/// The stored state of a reservation. How near a seated one is to being served depends on its slot:
/// `ReservationStatus` says that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservationState {
    /// No slot of the model has room, and no further one may be created yet.
    Pending,
    /// In a slot, which is running, starting or itself pending.
    Seated {
        slot: Name,
        since: Millis,
    },
    Ended {
        ending: Ending,
        at: Millis,
    },
}

/// The end of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The client released it.
    Released,
    /// No empty fleet could hold a slot of the model; `slot` was the attempt.
    Impossible { slot: Name, rejection: Arc<Rejection> },
    /// The model's file is damaged: every start would fail in the same way.
    UnusableFile { file: String, problems: BTreeMap<Name, String> },
    /// The model was removed while the reservation was pending.
    ModelRemoved,
    /// Its deadline passed before it was served.
    Expired { pending: Box<StatusReason> },
    /// Its slot ended while serving it.
    Lost(Loss),
    /// Its client did not renew the lease in time.
    LeaseExpired { lease: Span },
}

impl Ending {
    /// All names that `name` returns.
    pub const NAMES: [&str; 6] =
        ["released", "impossible", "model_removed", "expired", "lost", "lease_expired"];

    /// Returns its name in the API and in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Ending::Released => "released",
            Ending::Impossible { .. } | Ending::UnusableFile { .. } => "impossible",
            Ending::ModelRemoved => "model_removed",
            Ending::Expired { .. } => "expired",
            Ending::Lost(_) => "lost",
            Ending::LeaseExpired { .. } => "lease_expired",
        }
    }
}

/// A request for a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReservation {
    pub model: String,
    /// A second request with the same key gets the first one's reservation.
    pub key: Option<IdempotencyKey>,
    pub client: Option<ClientName>,
    pub deadline: Option<Millis>,
    /// The lease; that of the configuration if there is none.
    pub lease: Option<Lease>,
}

impl NewReservation {
    /// A request without key, client and deadline, with the configured lease.
    pub fn of_model(model: impl Into<String>) -> Self {
        let model = model.into();
        NewReservation { model, key: None, client: None, deadline: None, lease: None }
    }
}

/// An error of [`super::Desk::reserve`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    #[error("the model is not declared")]
    UnknownModel,
    #[error(
        "the idempotency key was used for {reservation} of model {model}; use a new key for a new request"
    )]
    KeyUsed { reservation: ReservationId, model: String },
    #[error("{limit} {most}; retry later, or release reservations that are not needed")]
    TooManyPending { limit: PendingLimit, most: NonZeroU32 },
}
