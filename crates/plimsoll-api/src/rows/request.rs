//! The identity of a request of any front end.

use plimsoll_core::request::RequestId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request of the core: a pod, or one slot of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestRow {
    /// The namespace of a pod, or the model of a slot.
    pub account: String,
    pub name: String,
    /// Distinguishes requests that reuse a name. Equal to the name for slots.
    pub uid: String,
}

impl From<&RequestId> for RequestRow {
    fn from(id: &RequestId) -> Self {
        RequestRow {
            account: id.account.to_string(),
            name: id.name.to_string(),
            uid: id.uid.to_string(),
        }
    }
}
