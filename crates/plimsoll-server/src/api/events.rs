//! The stream of what is made durable.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use serde::Deserialize;
use utoipa::IntoParams;

use super::input::{self, Params};
use super::problem::{Answer, Problem};
use super::state::AppState;
use crate::events::{self, From, Message, NoReader, Reader};
use plimsoll_api::rows::EventRow;
use plimsoll_engine::engine::NoAnswer;

/// The interval of comments on a quiet stream, so that proxies keep it open.
const QUIET: Duration = Duration::from_secs(15);

/// From where on.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Since {
    /// The id of the last event that was read, or `beginning`. Without it, only new events are
    /// sent.
    after: Option<String>,
}

/// Decisions and changes of the ledger as they happen
///
/// Server-sent events: `decision` for decisions, `ledger` for other changes, `reservation` for a
/// reservation that has ended (live only, without an id), `lagged` if the reader was too slow or
/// the journal does not reach back that far. The id of an event is the number of its journal
/// record.
#[utoipa::path(get, path = "/api/v1/events", operation_id = "stream_events", tag = "events",
params(Since, ("Last-Event-ID" = Option<String>, Header, description = "The same as `after`; browsers send it when they reconnect")), responses(
    (status = 200, description = "A stream; the data of each event", body = EventRow, content_type = "text/event-stream"),
))]
pub(crate) async fn stream(
    State(app): State<AppState>,
    headers: HeaderMap,
    Params(since): Params<Since>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let engine = app.engine()?.clone();
    let from = from(&headers, since.after.as_deref())?;
    let reader = Reader::start(app, from).await?;
    let events = stream::unfold((reader, engine), |(mut reader, engine)| async move {
        let message = tokio::select! {
            message = reader.next() => message?,
            () = engine.ending() => return None,
        };
        Some((Ok(event(&message)), (reader, engine)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET)))
}

impl std::convert::From<NoReader> for Problem {
    fn from(why: NoReader) -> Self {
        match why {
            NoReader::Ending => NoAnswer::Stopped.into(),
            NoReader::TooMany => {
                let detail = format!("{} event streams are open already", events::READERS);
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
            }
        }
    }
}

fn from(headers: &HeaderMap, after: Option<&str>) -> Answer<From> {
    const LAST: HeaderName = HeaderName::from_static("last-event-id");
    // A browser that reconnects repeats the original address, and adds the header with its last
    // event.
    let (field, text) = match (input::header_text(headers, &LAST)?, after) {
        (Some(last), _) => ("Last-Event-ID", last),
        (None, Some(after)) => ("after", after),
        (None, None) => return Ok(From::Now),
    };
    if text == "beginning" {
        return Ok(From::Beginning);
    }
    let wrong = |_| {
        Problem::bad(
            field,
            format!("{text:?} is not the id of an event; send a number, or `beginning`"),
        )
    };
    text.parse().map(From::After).map_err(wrong)
}

/// Converts a message of the feed.
pub(crate) fn event(message: &Message) -> Event {
    let data = |value: Result<String, serde_json::Error>| value.expect("rows are plain data");
    match message {
        Message::Record(row) => {
            let event = Event::default().id(row.seq.to_string()).event(row.kind());
            event.data(data(serde_json::to_string(row)))
        }
        Message::Ended(row) => {
            Event::default().event("reservation").data(data(serde_json::to_string(&**row)))
        }
        Message::Lagged(row) => {
            Event::default().event("lagged").data(data(serde_json::to_string(row)))
        }
    }
}
