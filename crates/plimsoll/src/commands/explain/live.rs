//! Explanations from a server: a decision, a slot, a reservation, or a client by name.

use std::time::Duration;

use anyhow::Result;
use plimsoll_api::rows::{
    DecisionRow, LogStatus, ReservationRow, ReservationStatus, SchedulerLogRow, SlotRow, SlotStage,
    WhatIf, WhatIfRow,
};
use plimsoll_api::verdict::Verdict;
use serde::Serialize;

use crate::cli::{ExplainArgs, Format};
use crate::client::{Client, ClientError, segment};
use crate::output::{self, Outcome, Verbosity};
use crate::progress;
use crate::text::age::now;
use crate::text::live::reservation::{self, Lines};
use crate::text::live::{decision, schedulerlog};
use crate::text::{Detail, Page};

/// The decisions of a model among which the last one about a slot is searched.
const LOOKED_AT: usize = 200;

/// The subject of an explanation.
enum Subject<'a> {
    Decision(&'a str),
    Slot(&'a str),
    Reservation(&'a str),
    Client(&'a str, &'a str),
}

impl Subject<'_> {
    fn parse(text: &str) -> Subject<'_> {
        if let Some((namespace, name)) = text.split_once('/') {
            return Subject::Client(namespace, name);
        }
        match text.split_once('.') {
            Some((seq, index)) if is_number(seq) && is_number(index) => Subject::Decision(text),
            _ if text.strip_prefix("reservation-").is_some_and(is_number) => {
                Subject::Reservation(text)
            }
            // An adopted slot may have any name.
            _ => Subject::Slot(text),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The output of `plimsoll explain -o json` from a server: the subject, its last decision, and the
/// decision that the server would make now if the subject is not placed.
#[derive(Serialize)]
struct Explained {
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<SlotRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<ReservationRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedulerlog: Option<SchedulerLogRow>,
    decision: Option<DecisionRow>,
    now: Option<WhatIfRow>,
}

const NOTHING: Explained =
    Explained { slot: None, reservation: None, schedulerlog: None, decision: None, now: None };

/// Asks the server and prints its explanation.
pub(super) fn run(args: &ExplainArgs, what: &str, verbosity: Verbosity) -> Result<Outcome> {
    let client = Client::new(&args.server)?;
    let activity = format!("asking {}", client.server());
    let explained =
        progress::meanwhile(verbosity, &activity, || explain(&client, &Subject::parse(what)))?;
    match args.output {
        Format::Json => output::json(&explained)?,
        Format::Yaml => output::yaml(&explained)?,
        Format::Table => {
            let mut page = output::page();
            print(&mut page, what, &explained, args.detail());
            output::text(page.text())?;
        }
    }
    Ok(if is_placed(&explained) { Outcome::Fine } else { Outcome::Wanting })
}

fn explain(client: &Client, subject: &Subject) -> Result<Explained, ClientError> {
    match *subject {
        Subject::Decision(id) => {
            let row: DecisionRow = client.get(&decision_path(id))?;
            let now = if row.placed { None } else { decided_now(client, &row.model)? };
            Ok(Explained { decision: Some(row), now, ..NOTHING })
        }
        Subject::Slot(id) => {
            let row: SlotRow = client.get(&slot_path(id))?;
            let decision = last_decision(client, &row.model, &row.id)?;
            let is_pending = row.stage == SlotStage::Pending;
            let now = if is_pending { decided_now(client, &row.model)? } else { None };
            Ok(Explained { slot: Some(row), decision, now, ..NOTHING })
        }
        Subject::Reservation(id) => {
            let row: ReservationRow = client.get(&slot_path(id))?;
            let decision = match &row.slot_id {
                Some(slot) => last_decision(client, &row.model, slot)?,
                None => None,
            };
            // A reservation without a slot waits for room in one, and no GPU would help it.
            let is_pending = row.status == ReservationStatus::Pending && decision.is_some();
            let now = if is_pending { decided_now(client, &row.model)? } else { None };
            Ok(Explained { reservation: Some(row), decision, now, ..NOTHING })
        }
        Subject::Client(namespace, name) => {
            let (namespace, name) = (segment(namespace), segment(name));
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/schedulerlog");
            let log: SchedulerLogRow = client.get(&path)?;
            let decision: Option<DecisionRow> = match &log.decision_id {
                Some(id) => client.find(&decision_path(id))?,
                None => None,
            };
            let now = match (&decision, log.filter.status) {
                (Some(decision), Verdict::Failed) => decided_now(client, &decision.model)?,
                _ => None,
            };
            Ok(Explained { schedulerlog: Some(log), decision, now, ..NOTHING })
        }
    }
}

fn print(page: &mut Page, what: &str, explained: &Explained, detail: Detail) {
    let at = now();
    if let Some(slot) = &explained.slot {
        let rejected = explained.decision.as_ref().filter(|decision| !decision.placed);
        let is_repeated = rejected.is_some_and(|row| !row.explanation.clauses.is_empty());
        let lines = if is_repeated { Lines::First } else { Lines::All };
        reservation::slot(page, slot, at, lines);
    }
    if let Some(row) = &explained.reservation {
        reservation::reservation(page, row, at);
    }
    if let Some(log) = &explained.schedulerlog {
        schedulerlog::steps(page, what, log, explained.decision.as_ref());
        if explained.decision.is_none() {
            schedulerlog::nodes(page, log);
        }
    }
    if let Some(row) = &explained.decision {
        decision::decision(page, row, at, detail);
        let is_shown = explained.slot.is_some() || explained.reservation.is_some();
        if let Some(forecast) = row.explanation.forecast.as_ref().filter(|_| !is_shown) {
            page.heading("Still pending");
            reservation::prospects(page, 2, Some(forecast));
        }
    }
    if let Some(row) = &explained.now {
        decision::now(page, row, explained.decision.as_ref());
    }
}

fn is_placed(explained: &Explained) -> bool {
    let Explained { slot, reservation, schedulerlog, decision, .. } = explained;
    match (slot, reservation, schedulerlog, decision) {
        (Some(slot), ..) => slot.stage != SlotStage::Pending,
        (_, Some(reservation), ..) => matches!(
            reservation.status,
            ReservationStatus::Ready | ReservationStatus::Starting | ReservationStatus::Released
        ),
        (_, _, Some(log), _) => log.status == LogStatus::Succeeded,
        (_, _, _, Some(decision)) => decision.placed,
        _ => false,
    }
}

fn decision_path(id: &str) -> String {
    format!("/api/v1/scheduler/decisions/{}", segment(id))
}

fn slot_path(id: &str) -> String {
    format!("/api/v1/scheduler/slots/{}", segment(id))
}

/// Asks for the decision about one more slot of a model; `None` if the model was removed.
fn decided_now(client: &Client, model: &str) -> Result<Option<WhatIfRow>, ClientError> {
    let question = WhatIf { model: Some(model.to_string()), declaration: None };
    match client.post("/api/v1/scheduler/whatif", &question, Duration::ZERO) {
        Ok(row) => Ok(Some(row)),
        Err(error) if error.status() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the last decision about a slot, if it is among the latest decisions of its model.
fn last_decision(
    client: &Client,
    model: &str,
    slot: &str,
) -> Result<Option<DecisionRow>, ClientError> {
    let path = format!("/api/v1/scheduler/decisions?model={}&limit={LOOKED_AT}", segment(model));
    let rows: Vec<DecisionRow> = client.list(&path, Some(LOOKED_AT))?;
    let last = rows.into_iter().find(|row| row.slot_id.as_deref() == Some(slot));
    match last.and_then(|row| row.id) {
        Some(id) => client.find(&decision_path(&id)),
        None => Ok(None),
    }
}
