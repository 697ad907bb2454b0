//! The wording of forecasts: the position of a pending request and its expected start.

use std::fmt;

use super::{account_in_queue, list, plural};
use crate::evict::Endless;
use crate::forecast::{EndlessHolder, ExpectedStart, Forecast, Listed, Pause};
use crate::units::{Millis, Timespan};

/// Renders the place in the queue and the account: `position 2 after a/slot-1; account b holds …`.
pub fn place_in_queue(forecast: &Forecast) -> String {
    let Forecast { position, ahead, account, parent, .. } = forecast;
    let mut text = format!("position {position}");
    match ahead.count() {
        0 => {}
        _ => text.push_str(&format!(" after {}", names(ahead))),
    }
    text.push_str(&format!("; {}", account_in_queue(account)));
    if let Some(parent) = parent {
        text.push_str(&format!(", {}", account_in_queue(parent)));
    }
    text
}

/// Renders the expected start at a time, in one sentence.
pub fn expected_start(start: &ExpectedStart, now: Millis) -> String {
    match start {
        ExpectedStart::By { at, stopping } => {
            let (names, have) = (names(stopping), have(stopping));
            match is_past(*at, now) {
                true => {
                    format!("{} ago: {names} {have} not stopped in time", seconds(now.since(*at)))
                }
                false => format!("within {}, when {names} {have} stopped", seconds(at.since(now))),
            }
        }
        ExpectedStart::AfterStop { stopping } => format!(
            "when {} {} stopped; how long that takes is not known",
            names(stopping),
            have(stopping)
        ),
        ExpectedStart::AfterWork { working, requests, stop_limit } => {
            after_work(working, *requests, *stop_limit)
        }
        ExpectedStart::NotBefore { at, pause } => {
            let wait = seconds(at.since(now));
            match pause {
                Pause::FailedStarts { failures } => format!(
                    "not before {wait} from now: back-off after {failures} failed {}",
                    plural(*failures, "start", "starts")
                ),
                Pause::Residency => format!(
                    "not before {wait} from now: its model was evicted, and displaces work of its \
                     own priority only after the residency"
                ),
            }
        }
        ExpectedStart::AfterRequest { request } => {
            format!("not known: room is made for {request} first")
        }
        ExpectedStart::AccountAtMaximum { account } => {
            format!("not known: account {account} is at its maximum, and must release something")
        }
        ExpectedStart::AccountShareUsed { account } => format!(
            "not known: account {account} would hold more than its share if work of other accounts \
             made room"
        ),
        ExpectedStart::GangWaits { gang } => {
            format!("not known: gang {gang} needs room for its members together")
        }
        ExpectedStart::BehindRealWork => {
            "not known: prewarmed work starts after all other work".to_string()
        }
        ExpectedStart::NoBound { holders, more } => no_bound(holders, *more, now),
        ExpectedStart::AfterFleetChange => {
            "not known: no node would have room even without its holders".to_string()
        }
        ExpectedStart::FitsNow => "it fits now; the scheduler that places it starts it".to_string(),
        ExpectedStart::AtNextChange => {
            "not known: it is tried again at the next change that may help".to_string()
        }
        ExpectedStart::NotSearched => {
            "not searched: too many different requests are pending; explain shows it".to_string()
        }
    }
}

/// Renders the expected start in a few words, for lists.
pub fn expected_start_briefly(start: &ExpectedStart, now: Millis) -> String {
    match start {
        ExpectedStart::By { at, .. } if is_past(*at, now) => "overdue".to_string(),
        ExpectedStart::By { at, .. } => format!("in {}", seconds(at.since(now))),
        ExpectedStart::NotBefore { at, .. } => format!("after {}", seconds(at.since(now))),
        ExpectedStart::AfterStop { .. } => "after a stop".to_string(),
        ExpectedStart::AfterWork { .. } => "after work".to_string(),
        ExpectedStart::NoBound { .. } => "no bound".to_string(),
        ExpectedStart::FitsNow => "fits now".to_string(),
        _ => "unknown".to_string(),
    }
}

fn after_work(working: &Listed, requests: u32, stop_limit: Option<Timespan>) -> String {
    let names = names(working);
    let ended = match requests {
        0 => format!("the work on {names} has ended"),
        1 => format!("the request in flight on {names} has ended"),
        requests => format!("the {requests} requests in flight on {names} have ended"),
    };
    let stop = match stop_limit {
        Some(limit) => format!("at most {limit} later"),
        None => "the time to stop later".to_string(),
    };
    format!(
        "when {ended}, and {stop}; no new work is added, and the end of the present work is not known"
    )
}

fn no_bound(holders: &[EndlessHolder], more: u32, now: Millis) -> String {
    let displaces_nothing =
        |holder: &EndlessHolder| holder.reason == Endless::RequesterDisplacesNothing;
    let name = |holder: &EndlessHolder| match holder.evictable_from {
        _ if displaces_nothing(holder) => holder.request.to_string(),
        None => format!("{} ({})", holder.request, holder.reason),
        Some(from) => format!(
            "{} ({}; evictable in {} if it stays idle)",
            holder.request,
            holder.reason,
            seconds(from.since(now))
        ),
    };
    let names: Vec<String> = holders.iter().map(name).collect();
    let names = list(&names, more);
    match holders.iter().any(displaces_nothing) {
        true => format!("no bound: it displaces no work, and waits for the end of {names}"),
        false => format!("no bound: it waits for {names}"),
    }
}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endless::RequesterDisplacesNothing => f.write_str("the request displaces no work"),
            Endless::Pinned => f.write_str("pinned"),
            Endless::HigherPriority { priority } => write!(f, "has the higher priority {priority}"),
            Endless::SameModel => f.write_str("the same model"),
            Endless::EndsByItself => f.write_str("ends by itself"),
            Endless::Offered => f.write_str("offered"),
        }
    }
}

fn names(listed: &Listed) -> String {
    let names: Vec<String> = listed.first.iter().map(ToString::to_string).collect();
    list(&names, listed.more)
}

fn have(listed: &Listed) -> &'static str {
    if listed.count() == 1 { "has" } else { "have" }
}

fn is_past(at: Millis, now: Millis) -> bool {
    at <= now
}

/// Rounds up to seconds.
fn seconds(span: Timespan) -> Timespan {
    Timespan::seconds(span.as_millis().div_ceil(1000))
}
