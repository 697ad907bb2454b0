//! The network between runners and the server: what becomes of a message.

use super::counters::Counter;
use super::random::Random;

/// The probabilities of network faults, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NetworkFaults {
    pub late: u64,
    pub lost: u64,
    pub duplicated: u64,
}

/// The delivery of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    InTime,
    Late,
    Lost,
    Duplicated,
}

impl NetworkFaults {
    /// Draws the delivery of a message.
    pub(crate) fn draw(&self, random: &mut Random) -> Delivery {
        let drawn = random.below(100);
        if drawn < self.lost {
            Delivery::Lost
        } else if drawn < self.lost + self.late {
            Delivery::Late
        } else if drawn < self.lost + self.late + self.duplicated {
            Delivery::Duplicated
        } else {
            Delivery::InTime
        }
    }
}

impl Delivery {
    /// Returns the delay of each copy in milliseconds. Longer than the interval between messages,
    /// so that messages overtake each other.
    pub(crate) fn delays(self, random: &mut Random) -> Vec<u64> {
        let soon = random.between(1, 2_000);
        match self {
            Delivery::InTime => vec![soon],
            Delivery::Late => vec![random.between(2_000, 1_200_000)],
            Delivery::Lost => Vec::new(),
            Delivery::Duplicated => vec![soon, random.between(1, 3_600_000)],
        }
    }

    /// Returns the counter for a request with this delivery.
    pub(crate) fn request_counter(self) -> Counter {
        match self {
            Delivery::InTime => Counter::Requests,
            Delivery::Late => Counter::RequestsLate,
            Delivery::Lost => Counter::RequestsLost,
            Delivery::Duplicated => Counter::RequestsDuplicated,
        }
    }

    /// Returns the counter for a response with this delivery.
    pub(crate) fn response_counter(self) -> Counter {
        match self {
            Delivery::InTime => Counter::Responses,
            Delivery::Late => Counter::ResponsesLate,
            Delivery::Lost => Counter::ResponsesLost,
            Delivery::Duplicated => Counter::ResponsesDuplicated,
        }
    }
}
