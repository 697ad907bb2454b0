//! `plimsoll context`: named servers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::{ContextAction, ContextArgs, ListFormat, ServerArgs};
use crate::client::Client;
use crate::contexts::{Contexts, NamedServer};
use crate::output::{self, Outcome};
use crate::text::live::contexts;

pub(super) fn run(args: &ContextArgs) -> Result<Outcome> {
    let mut known = Contexts::load()?;
    let done = match args.action.as_ref() {
        None => return list(&known, args.list.output),
        Some(ContextAction::List(list_args)) => return list(&known, list_args.output),
        Some(ContextAction::Use { name }) => {
            let server = known.find(name)?.server.clone();
            known.current = Some(name.clone());
            format!("using {name} ({server})")
        }
        Some(ContextAction::Set { name, server }) => set(&mut known, name, server)?,
        Some(ContextAction::Delete { name }) => {
            known.find(name)?;
            known.contexts.remove(name);
            known.current = known.current.filter(|current| current != name);
            format!("deleted context {name}")
        }
    };
    known.save()?;
    output::text(&format!("{done}\n"))?;
    Ok(Outcome::Fine)
}

fn list(known: &Contexts, format: ListFormat) -> Result<Outcome> {
    match format {
        ListFormat::Table | ListFormat::Wide => {
            let mut page = output::page();
            contexts::contexts(&mut page, known);
            output::text(page.text())?;
        }
        ListFormat::Json => output::json(known)?,
        ListFormat::Yaml => output::yaml(known)?,
        ListFormat::Name => {
            known.contexts.keys().try_for_each(|name| output::text(&format!("{name}\n")))?;
        }
    }
    Ok(Outcome::Fine)
}

/// Adds or replaces a named server, after the checks of every request to it.
fn set(known: &mut Contexts, name: &str, args: &ServerArgs) -> Result<String> {
    let Some(server) = args.server.clone() else {
        bail!("give the address of {name} with --server");
    };
    Client::new(args)?;
    let ServerArgs { token_file, ca_file, insecure, .. } = args;
    let named = NamedServer {
        server: server.clone(),
        token_file: token_file.as_deref().map(absolute).transpose()?,
        ca_file: ca_file.as_deref().map(absolute).transpose()?,
        insecure: *insecure,
    };
    known.contexts.insert(name.to_string(), named);
    let is_first = known.current.is_none();
    if is_first {
        known.current = Some(name.to_string());
    }
    let hint = if is_first { ", the current context" } else { "" };
    Ok(format!("saved {name} ({server}){hint}"))
}

/// Makes a path independent of the directory in which a later command runs.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("invalid path {}", path.display()))
}
