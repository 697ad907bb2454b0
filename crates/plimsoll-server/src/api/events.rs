//! The stream of what is made durable.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use utoipa::IntoParams;

use super::input::{self, Params};
use super::parts::Parts;
use super::problem::{Answer, Problem};
use crate::events::{EventRow, From, Reader, Told};
use plimsoll_engine::engine::NoAnswer;

/// How often a quiet stream says that it is there.
const QUIET: Duration = Duration::from_secs(15);

/// From where on.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Since {
    /// The id of the last event that was read, or `beginning`; without it, only what comes from here on.
    after: Option<String>,
}

/// Decisions and changes of the ledger as they happen
///
/// Server-sent events: `decision` where something was decided, `ledger` where something changed besides, `lagged` where the reader
/// was too slow or the journal does not go back so far. The id of an event is the number of its journal record.
#[utoipa::path(get, path = "/api/v1/events", operation_id = "stream_events", tag = "events",
params(Since, ("Last-Event-ID" = Option<String>, Header, description = "The same as `after`; a browser sends it when it comes back")), responses(
    (status = 200, description = "A stream; the data of each event is this", body = EventRow, content_type = "text/event-stream"),
))]
pub(crate) async fn stream(
    State(parts): State<Parts>,
    headers: HeaderMap,
    Params(since): Params<Since>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let engine = parts.engine()?.clone();
    let from = from(&headers, since.after.as_deref())?;
    let reader = Reader::start(parts, from).await?.ok_or(NoAnswer::Stopped)?;
    let events = stream::unfold((reader, engine), |(mut reader, engine)| async move {
        let told = tokio::select! {
            told = reader.next() => told?,
            () = engine.ending() => return None,
        };
        Some((Ok(event(&told)), (reader, engine)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET)))
}

fn from(headers: &HeaderMap, after: Option<&str>) -> Answer<From> {
    const LAST: HeaderName = HeaderName::from_static("last-event-id");
    // A browser that comes back sends the address it began with, and the header with what it read since.
    let (field, text) = match (input::header_text(headers, &LAST)?, after) {
        (Some(last), _) => ("Last-Event-ID", last),
        (None, Some(after)) => ("after", after),
        (None, None) => return Ok(From::Now),
    };
    if text == "beginning" {
        return Ok(From::Beginning);
    }
    let wrong = |_| {
        Problem::bad(field, format!("{text:?} is no event's id; send a number, or `beginning`"))
    };
    text.parse().map(From::After).map_err(wrong)
}

fn event(told: &Told) -> Event {
    let data = |value: Result<String, serde_json::Error>| value.expect("rows are plain data");
    match told {
        Told::Record(row) => {
            let event = Event::default().id(row.seq.to_string()).event(row.kind());
            event.data(data(serde_json::to_string(row)))
        }
        Told::Lagged(row) => {
            Event::default().event("lagged").data(data(serde_json::to_string(row)))
        }
    }
}
