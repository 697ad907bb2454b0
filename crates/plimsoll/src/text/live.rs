//! What a server says, as text for people.

pub(crate) mod decision;
pub(crate) mod decisions;
pub(crate) mod gpu;
pub(crate) mod queue;
pub(crate) mod reservation;
pub(crate) mod runners;
pub(crate) mod schedulerlog;
pub(crate) mod slots;

use plimsoll_core::units::Bytes;

use crate::client::rows::{Allocation, Moment};

/// What is not known.
const UNKNOWN: &str = "?";

/// What there is none of.
const NONE: &str = "-";

/// A text, or that there is none.
fn or_none(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(NONE).to_string()
}

/// A number, or that it is not known.
fn or_unknown(value: Option<impl ToString>) -> String {
    value.map_or(UNKNOWN.to_string(), |value| value.to_string())
}

/// How long ago something was.
fn ago(moment: Option<Moment>, now: Moment) -> String {
    moment.map_or(UNKNOWN.to_string(), |moment| moment.ago(now))
}

/// The GPUs of an allocation by their index: `0, 1`.
pub(crate) fn gpus(allocation: Option<&Allocation>) -> String {
    let Some(allocation) = allocation.filter(|allocation| !allocation.gpus.is_empty()) else {
        return NONE.to_string();
    };
    let name = |gpu: &crate::client::rows::OnGpu| {
        gpu.index.map_or(gpu.uuid.clone(), |index| index.to_string())
    };
    allocation.gpus.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// What an allocation holds, each GPU by itself: `2 x 30 GiB`.
pub(crate) fn memory(allocation: Option<&Allocation>) -> String {
    let amount =
        |bytes: Option<Bytes>| bytes.map_or("undeclared".to_string(), |bytes| bytes.to_string());
    let amounts: Vec<String> = allocation
        .into_iter()
        .flat_map(|allocation| &allocation.gpus)
        .map(|gpu| amount(gpu.bytes))
        .collect();
    match &amounts[..] {
        [] => NONE.to_string(),
        [one] => one.clone(),
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            format!("{} x {first}", amounts.len())
        }
        several => several.join(" + "),
    }
}
