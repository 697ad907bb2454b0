//! Explanations from a server: a decision, a slot, a reservation, or a client by name.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::cli::{ExplainArgs, Format};
use crate::client::rows::{DecisionRow, Moment, ReservationRow, SchedulerLog, SlotRow};
use crate::client::{Answer, Client, SERVER_VARIABLE, pretty, segment};
use crate::output::{self, Outcome};
use crate::progress;
use crate::text::Page;
use crate::text::live::{decision, reservation, schedulerlog};

/// Decisions of a model among which the last one about a slot is looked for.
const LOOKED_AT: usize = 200;

/// Whether a server is meant: it is named, here or in the environment.
pub(super) fn is_meant(args: &ExplainArgs) -> bool {
    args.server.server.is_some()
        || std::env::var_os(SERVER_VARIABLE).is_some_and(|server| !server.is_empty())
}

/// What may be asked about.
enum What<'a> {
    Decision(&'a str),
    Slot(&'a str),
    Reservation(&'a str),
    Who(&'a str, &'a str),
}

impl What<'_> {
    fn of(text: &str) -> What<'_> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if let Some((namespace, name)) = text.split_once('/') {
            return What::Who(namespace, name);
        }
        match text.split_once('.') {
            Some((seq, index)) if is_number(seq) && is_number(index) => What::Decision(text),
            _ if text.strip_prefix("reservation-").is_some_and(is_number) => {
                What::Reservation(text)
            }
            // A slot that a runner brought along may be called anything.
            _ => What::Slot(text),
        }
    }
}

/// What came of it: what to print for programs and for people.
struct Told {
    json: String,
    page: Page,
    outcome: Outcome,
}

/// Asks the server and prints.
pub(super) fn run(args: &ExplainArgs, quiet: bool) -> Result<Outcome> {
    let Some(what) = &args.what else {
        bail!(
            "nothing to explain; name a decision (1234.0), a slot (slot-7), a reservation (reservation-12) or NAMESPACE/NAME"
        );
    };
    let what = What::of(what);
    let client = Client::new(&args.server)?;
    let asking = format!("asking {}", client.server());
    let told = progress::meanwhile(quiet, &asking, || tell(&client, &what, args.output))?;
    match args.output {
        Format::Json => output::text(&told.json)?,
        Format::Table => output::text(told.page.text())?,
    }
    Ok(told.outcome)
}

fn tell(client: &Client, what: &What, format: Format) -> Result<Told> {
    // Programs get what they asked for, and ask again for more.
    let for_people = format == Format::Table;
    match *what {
        What::Decision(id) => {
            let answer = client.get(&format!("/api/v1/scheduler/decisions/{}", segment(id)))?;
            let row: DecisionRow = answer.read()?;
            let now =
                if for_people && !row.placed { decided_now(client, &row.model)? } else { None };
            Ok(told(&answer, row.placed, |page| {
                decision::decision(page, &row, Moment::now());
                now.iter().for_each(|now| decision::now(page, now));
            }))
        }
        What::Slot(id) => {
            let answer = client.get(&format!("/api/v1/scheduler/slots/{}", segment(id)))?;
            let row: SlotRow = answer.read()?;
            let waits = row.stage.as_deref() == Some("pending");
            let last = if for_people { last_decision(client, &row.model, &row.id)? } else { None };
            let now = if for_people && waits { decided_now(client, &row.model)? } else { None };
            Ok(told(&answer, !waits, |page| {
                reservation::slot(page, &row, Moment::now());
                last.iter().for_each(|last| decision::decision(page, last, Moment::now()));
                now.iter().for_each(|now| decision::now(page, now));
            }))
        }
        What::Reservation(id) => {
            let answer = client.get(&format!("/api/v1/scheduler/slots/{}", segment(id)))?;
            let row: ReservationRow = answer.read()?;
            let served = matches!(row.status.as_deref(), Some("ready" | "starting" | "released"));
            let waits = row.status.as_deref() == Some("pending");
            let slot = row.slot_id.as_ref().filter(|_| for_people);
            let last = slot.map_or(Ok(None), |slot| last_decision(client, &row.model, slot))?;
            // One who waits for room in the slots that there may be is not helped by a device.
            let now = if last.is_some() && waits { decided_now(client, &row.model)? } else { None };
            Ok(told(&answer, served, |page| {
                reservation::reservation(page, &row, Moment::now());
                last.iter().for_each(|last| decision::decision(page, last, Moment::now()));
                now.iter().for_each(|now| decision::now(page, now));
            }))
        }
        What::Who(namespace, name) => {
            let (ns, pod) = (segment(namespace), segment(name));
            let answer = client.get(&format!("/api/v1/namespaces/{ns}/pods/{pod}/schedulerlog"))?;
            let log: SchedulerLog = answer.read()?;
            let who = format!("{namespace}/{name}");
            let decided = log.decision_id.as_ref().filter(|_| for_people);
            let decided = decided.map_or(Ok(None), |id| known_decision(client, id))?;
            let waits = log.filter.status == "failed";
            let now =
                if decided.is_some() && waits { decided_now(client, &log.model)? } else { None };
            Ok(told(&answer, log.status == "succeeded", |page| {
                schedulerlog::steps(page, &who, &log);
                match &decided {
                    Some(decided) => decision::decision(page, decided, Moment::now()),
                    None => schedulerlog::nodes(page, &log),
                }
                now.iter().for_each(|now| decision::now(page, now));
            }))
        }
    }
}

/// What would be decided for one more slot of a model now; nothing where the model is not declared any more.
fn decided_now(client: &Client, model: &str) -> Result<Option<DecisionRow>> {
    let question = serde_json::json!({ "model": model });
    match client.post("/api/v1/scheduler/whatif", &question, Duration::ZERO) {
        Ok(answer) => Ok(Some(answer.read()?)),
        Err(error) if error.status() == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn told(answer: &Answer, fits: bool, draw: impl FnOnce(&mut Page)) -> Told {
    let mut page = Page::default();
    draw(&mut page);
    Told { json: pretty::pretty(&answer.text), page, outcome: Outcome::wanting(!fits) }
}

/// The last decision about a slot, with every GPU, where it is among the last ones of its model.
fn last_decision(client: &Client, model: &str, slot: &str) -> Result<Option<DecisionRow>> {
    let path = format!("/api/v1/scheduler/decisions?model={}&limit={LOOKED_AT}", segment(model));
    let rows: Vec<DecisionRow> = client.list(&path, Some(LOOKED_AT))?.read()?;
    let about = rows.into_iter().find(|row| row.slot_id.as_deref() == Some(slot));
    let Some(id) = about.and_then(|row| row.id) else { return Ok(None) };
    known_decision(client, &id)
}

/// A decision with every GPU, where the server still has it.
fn known_decision(client: &Client, id: &str) -> Result<Option<DecisionRow>> {
    match client.get(&format!("/api/v1/scheduler/decisions/{}", segment(id))) {
        Ok(answer) => Ok(Some(answer.read()?)),
        Err(error) if error.status() == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
