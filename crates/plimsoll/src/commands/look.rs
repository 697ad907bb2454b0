//! Lists of a server, printed once or refreshed, in any order and format.

use std::cmp::Ordering;
use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Result, bail};
use crossterm::{cursor, execute, terminal};
use serde::Serialize;
use serde_json::Value;

use crate::cli::{ListFormat, ShowArgs};
use crate::client::Client;
use crate::output::{self, Outcome, Verbosity};
use crate::text::Page;
use crate::{near, progress};

/// The shortest refresh interval, to spare the server.
const SHORTEST: Duration = Duration::from_millis(100);

/// A list of rows and how to print them.
pub(super) struct View<'a, T> {
    /// Requests the rows.
    pub(super) rows: &'a dyn Fn() -> Result<Vec<T>>,
    pub(super) print: &'a dyn Fn(&mut Page, &[T]),
    /// Returns the name of a row, for `-o name` and the default order.
    pub(super) name: &'a dyn Fn(&T) -> String,
    pub(super) outcome: &'a dyn Fn(&[T]) -> Outcome,
}

/// The order of a list unless another one is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// By name, with numbers in it compared as numbers.
    ByName,
    /// As the server sends it.
    AsSent,
}

/// The rows as structured output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Many {
    List,
    One,
}

/// Prints a list by name; with `--watch`, prints it again whenever it changes, until interrupted.
pub(super) fn show<T: Serialize + PartialEq>(
    client: &Client,
    args: &ShowArgs,
    verbosity: Verbosity,
    view: &View<'_, T>,
) -> Result<Outcome> {
    refreshed(client, args, verbosity, view, (Order::ByName, Many::List))
}

/// Prints a list in the order of the server.
pub(super) fn show_in_order<T: Serialize + PartialEq>(
    client: &Client,
    args: &ShowArgs,
    verbosity: Verbosity,
    view: &View<'_, T>,
) -> Result<Outcome> {
    refreshed(client, args, verbosity, view, (Order::AsSent, Many::List))
}

/// Prints one thing, which is an object in structured output.
pub(super) fn show_one<T: Serialize + PartialEq>(
    client: &Client,
    args: &ShowArgs,
    verbosity: Verbosity,
    view: &View<'_, T>,
) -> Result<Outcome> {
    refreshed(client, args, verbosity, view, (Order::AsSent, Many::One))
}

fn refreshed<T: Serialize + PartialEq>(
    client: &Client,
    args: &ShowArgs,
    verbosity: Verbosity,
    view: &View<'_, T>,
    (order, many): (Order, Many),
) -> Result<Outcome> {
    let activity = format!("asking {}", client.server());
    let rows = || sorted((view.rows)()?, args.sort_by.as_deref(), order, view);
    let text = |rows: &[T]| text(args.output, view, rows, many);
    let mut last = progress::meanwhile(verbosity, &activity, rows)?;
    let Some(every) = args.watch else {
        output::text(&text(&last)?)?;
        return Ok((view.outcome)(&last));
    };
    let interval = Duration::from_millis(every.0).max(SHORTEST);
    let is_table = matches!(args.output, ListFormat::Table | ListFormat::Wide);
    let screen =
        if is_table && io::stdout().is_terminal() { Screen::Refreshed } else { Screen::Appended };
    let mut is_read = print(&text(&last)?, screen)?;
    let mut has_failed = false;
    while is_read {
        std::thread::sleep(interval);
        match rows() {
            Ok(next) => {
                // A live page is always drawn again, because it shows ages.
                if screen == Screen::Refreshed || has_failed || next != last {
                    is_read = print(&text(&next)?, screen)?;
                }
                (last, has_failed) = (next, false);
            }
            // The server may come back; the error is printed once.
            Err(error) => {
                if !has_failed {
                    output::note(&format!("{error:#}; trying again every {every}"));
                }
                has_failed = true;
            }
        }
    }
    Ok((view.outcome)(&last))
}

/// Sorts rows by a field, else as is usual for the list.
fn sorted<T: Serialize>(
    mut rows: Vec<T>,
    field: Option<&str>,
    order: Order,
    view: &View<'_, T>,
) -> Result<Vec<T>> {
    let Some(field) = field else {
        if order == Order::ByName {
            rows.sort_by(|one, other| natural(&(view.name)(one), &(view.name)(other)));
        }
        return Ok(rows);
    };
    let mut keyed: Vec<(Value, T)> = Vec::new();
    for row in rows {
        let value = serde_json::to_value(&row)?;
        let key = field.split('.').try_fold(&value, |value, name| value.get(name));
        let Some(key) = key.cloned() else { bail!(no_such_field(field, &value)) };
        keyed.push((key, row));
    }
    keyed.sort_by(|(one, _), (other, _)| compare(one, other));
    Ok(keyed.into_iter().map(|(_, row)| row).collect())
}

fn no_such_field(field: &str, row: &Value) -> String {
    let fields = row.as_object().into_iter().flat_map(|object| object.keys());
    let names: Vec<&str> = fields.map(String::as_str).collect();
    let suggestion = near::suggestion(&near::similar_names(field, names.iter().copied()));
    format!("--sort-by: there is no field {field}{suggestion}; the fields are {}", names.join(", "))
}

/// Compares two values of a field; null comes last.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Number(one), Value::Number(other)) => {
            one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Value::String(one), Value::String(other)) => natural(one, other),
        _ => natural(&one.to_string(), &other.to_string()),
    }
}

/// Compares names with the numbers in them as numbers: slot-2 comes before slot-10.
fn natural(one: &str, other: &str) -> Ordering {
    let key = |name: &str| -> Vec<(String, u64)> {
        let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
        let mut is_in_number = false;
        for c in name.chars() {
            let last = parts.last_mut().expect("there is a first part");
            match c.to_digit(10) {
                Some(digit) => {
                    last.1 = last.1.saturating_mul(10).saturating_add(u64::from(digit));
                    is_in_number = true;
                }
                None if is_in_number => {
                    parts.push((c.to_string(), 0));
                    is_in_number = false;
                }
                None => last.0.push(c),
            }
        }
        parts
    };
    key(one).cmp(&key(other)).then_with(|| one.cmp(other))
}

fn text<T: Serialize>(
    format: ListFormat,
    view: &View<'_, T>,
    rows: &[T],
    many: Many,
) -> Result<String> {
    let value = || match (many, rows) {
        (Many::One, [row]) => serde_json::to_value(row),
        _ => serde_json::to_value(rows),
    };
    Ok(match format {
        // As the server sends it: a value would sort the fields.
        ListFormat::Json => match (many, rows) {
            (Many::One, [row]) => serde_json::to_string_pretty(row)? + "\n",
            _ => serde_json::to_string_pretty(rows)? + "\n",
        },
        ListFormat::Yaml => serde_saphyr::to_string(&value()?)?,
        ListFormat::Name => rows.iter().map(|row| (view.name)(row) + "\n").collect(),
        ListFormat::Table | ListFormat::Wide => {
            let mut page =
                if format == ListFormat::Wide { Page::default() } else { output::page() };
            (view.print)(&mut page, rows);
            page.text().to_string()
        }
    })
}

/// The treatment of the previous frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Screen {
    /// A terminal: the next frame replaces it.
    Refreshed,
    Appended,
}

/// Prints a frame. Returns whether the output is still read.
fn print(text: &str, screen: Screen) -> Result<bool> {
    if screen == Screen::Refreshed {
        execute!(io::stdout(), cursor::MoveTo(0, 0), terminal::Clear(terminal::ClearType::All))?;
    }
    Ok(output::is_read(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let mut names = ["slot-10", "slot-2", "slot-1", "slot-2@b", "a", "slot-02"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["a", "slot-1", "slot-02", "slot-2", "slot-2@b", "slot-10"]);
        assert_eq!(compare(&Value::Null, &Value::from(1)), Ordering::Greater);
    }
}
