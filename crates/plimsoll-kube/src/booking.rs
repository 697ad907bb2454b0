//! The booking that is written on a pod with its node: which container has how much of which
//! device.
//!
//! ```json
//! {"node":"n1","containers":{"main":[{"kind":"NVIDIA","device":"gpu-0","bytes":8388608000}]}}
//! ```
//!
//! A device is named by its UUID, or by its position where no UUID is known. Where the device
//! plugin picks the card, the booking says so (`"chosenBy":"device-plugin"`) and names none.

use std::collections::BTreeMap;

use plimsoll_core::charge::{Booked, Charge, Holding};
use plimsoll_core::device::Node;
use serde::{Deserialize, Serialize};

/// The annotation with the booking of a pod.
pub const ALLOCATED: &str = "plimsoll.dev/allocated";

/// The annotation with the number of the decision behind the booking.
pub const DECISION: &str = "plimsoll.dev/decision";

/// The annotation with the term of the leader that decided.
pub const TERM: &str = "plimsoll.dev/term";

/// The devices that the containers of one pod have on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Booking {
    pub node: String,
    /// By container.
    pub containers: BTreeMap<String, Vec<BookedDevice>>,
}

/// A container's part of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BookedDevice {
    pub kind: String,
    #[serde(flatten)]
    pub card: BookedCard,
    /// `None` if the whole of a device of unknown size is booked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The container has the device for itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

/// The card of a booked device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BookedCard {
    /// Its UUID, or `gpu-0` if no UUID is known.
    Device(String),
    /// It is one of several, and known to its chooser alone.
    ChosenBy(Chooser),
}

/// The component that picks a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chooser {
    DevicePlugin,
}

impl Booking {
    /// Returns the booking of a holding on its node.
    pub fn new(holding: &Holding, node: &Node) -> Booking {
        let mut containers: BTreeMap<String, Vec<BookedDevice>> = BTreeMap::new();
        for charge in &holding.charges {
            for part in &charge.parts {
                let device = BookedDevice {
                    kind: kind(charge, node),
                    card: card(charge, node),
                    bytes: part.bytes.map(plimsoll_core::units::Bytes::get),
                    whole: matches!(charge.amount, Booked::Whole { .. }),
                };
                containers.entry(part.container.to_string()).or_default().push(device);
            }
        }
        Booking { node: holding.node.to_string(), containers }
    }

    /// Reads the annotation.
    pub fn decode(text: &str) -> Result<Booking, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Writes the annotation.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers are valid JSON")
    }
}

fn kind(charge: &Charge, node: &Node) -> String {
    let first = charge.on.first().and_then(|ordinal| node.devices.get(usize::from(*ordinal)));
    first.map_or(String::new(), |device| device.kind.to_string())
}

fn card(charge: &Charge, node: &Node) -> BookedCard {
    match charge.on[..] {
        [ordinal] => BookedCard::Device(node.device_name(usize::from(ordinal)).to_string()),
        _ => BookedCard::ChosenBy(Chooser::DevicePlugin),
    }
}
