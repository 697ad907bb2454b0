//! Named servers, in a file of the user.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::cli::ServerArgs;
use crate::client::SERVER_VARIABLE;
use crate::near;

/// The named servers of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Contexts {
    /// The server that commands use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    pub(crate) contexts: BTreeMap<String, NamedServer>,
}

/// A server and how to reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NamedServer {
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure: bool,
}

impl Contexts {
    /// Reads the file; without one there are no names.
    pub(crate) fn load() -> Result<Contexts> {
        let Some(path) = path() else { return Ok(Contexts::default()) };
        let shown = path.display();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Contexts::default());
            }
            text => text.with_context(|| format!("could not read {shown}"))?,
        };
        if text.trim().is_empty() {
            return Ok(Contexts::default());
        }
        let options = serde_saphyr::options! { with_snippet: false };
        serde_saphyr::from_str_with_options(&text, options)
            .with_context(|| format!("{shown} is not a valid list of servers"))
    }

    /// Writes the file.
    pub(crate) fn save(&self) -> Result<()> {
        let path = path().context("neither XDG_CONFIG_HOME nor HOME is set")?;
        let failed = || format!("could not write {}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(failed)?;
        }
        let text = serde_saphyr::to_string(self).with_context(failed)?;
        fs::write(&path, text).with_context(failed)
    }

    /// Returns a named server, or an error with similar names.
    pub(crate) fn find(&self, name: &str) -> Result<&NamedServer> {
        let Some(found) = self.contexts.get(name) else {
            let names = self.contexts.keys().map(String::as_str);
            let suggestion = near::suggestion(&near::similar_names(name, names));
            bail!("there is no context {name}{suggestion}; `plimsoll context` lists them");
        };
        Ok(found)
    }
}

fn path() -> Option<PathBuf> {
    let absolute =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(home.join("plimsoll/config.yaml"))
}

/// Fills in the current context where neither the command line nor the environment names a server.
pub(crate) fn applied(args: &ServerArgs) -> Result<ServerArgs> {
    let is_set = env::var(SERVER_VARIABLE).is_ok_and(|server| !server.is_empty());
    if args.server.is_some() || is_set {
        return Ok(args.clone());
    }
    let contexts = Contexts::load()?;
    let Some(current) = &contexts.current else { return Ok(args.clone()) };
    let NamedServer { server, token_file, ca_file, insecure } = contexts.find(current)?.clone();
    Ok(ServerArgs {
        server: Some(server),
        token_file: args.token_file.clone().or(token_file),
        ca_file: args.ca_file.clone().or(ca_file),
        insecure: args.insecure || insecure,
    })
}
