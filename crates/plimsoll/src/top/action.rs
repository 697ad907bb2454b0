//! Changes that a user of the screen asks for, each after a confirmation.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, ClientError, segment};

/// A change of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    StopSlot { id: String, reservations: u32 },
    Cordon { runner: String },
    Uncordon { runner: String },
}

impl Action {
    /// Formats the question to confirm.
    pub(crate) fn question(&self) -> String {
        match self {
            Action::StopSlot { id, reservations: 0 } => format!("stop {id}?"),
            Action::StopSlot { id, reservations: 1 } => {
                format!("stop {id}? its reservation is lost")
            }
            Action::StopSlot { id, reservations } => {
                format!("stop {id}? its {reservations} reservations are lost")
            }
            Action::Cordon { runner } => format!("cordon {runner}? it gets no new slots"),
            Action::Uncordon { runner } => format!("uncordon {runner}? it gets new slots again"),
        }
    }

    /// Sends the change, and returns what to tell the user.
    pub(crate) fn send(&self, client: &Client) -> Result<String, ClientError> {
        let post = |runner: &str, verb: &str| {
            let path = format!("/api/v1/runners/{}/{verb}", segment(runner));
            client.post::<Value>(&path, &json!({}), Duration::ZERO)
        };
        Ok(match self {
            Action::StopSlot { id, reservations } => {
                // The question named no reservation, so none may be lost that came since.
                let only_idle = if *reservations == 0 { "?if_idle=true" } else { "" };
                client.delete(&format!("/api/v1/scheduler/slots/{}{only_idle}", segment(id)))?;
                format!("stopping {id}")
            }
            Action::Cordon { runner } => {
                post(runner, "cordon")?;
                format!("cordoned {runner}")
            }
            Action::Uncordon { runner } => {
                post(runner, "uncordon")?;
                format!("uncordoned {runner}")
            }
        })
    }
}
