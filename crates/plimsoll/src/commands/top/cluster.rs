//! `plimsoll top --kubeconfig`: the devices and pending pods of a cluster, listed again and again.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Result;
use crossterm::{cursor, execute, terminal};
use plimsoll_cluster::Access;
use plimsoll_core::policy::Policy;
use plimsoll_kube::cluster::Reading;
use plimsoll_sim::simulation::{Advising, simulate};

use crate::cli::TopArgs;
use crate::commands::devices::devices_output;
use crate::commands::simulate::{Candidates, simulate_output};
use crate::load::{self, Inputs};
use crate::output::{self, Outcome, Verbosity};
use crate::text::simulate::Names;
use crate::text::{self, Page};

/// The shortest refresh interval: each refresh lists every pod of the cluster.
const SHORTEST: Duration = Duration::from_secs(2);

/// Shows the cluster until the reader leaves; once if there is no terminal.
pub(super) fn run(access: &Access, args: &TopArgs, verbosity: Verbosity) -> Result<Outcome> {
    let first = frame(access, verbosity)?;
    if !io::stdout().is_terminal() {
        output::text(first.text())?;
        return Ok(Outcome::Fine);
    }
    let every = Duration::from_millis(args.every.0).max(SHORTEST);
    let mut page = first;
    loop {
        execute!(io::stdout(), cursor::MoveTo(0, 0), terminal::Clear(terminal::ClearType::All))?;
        if !output::is_read(page.text())? {
            return Ok(Outcome::Fine);
        }
        std::thread::sleep(every);
        page = frame(access, Verbosity::Quiet)?;
    }
}

fn frame(access: &Access, verbosity: Verbosity) -> Result<Page> {
    let inputs = Inputs { files: &[], cluster: Some(access) };
    let cluster = load::load(&inputs, &Reading::default(), verbosity)?.cluster;
    let mut page = output::page();
    let simulation = simulate(&cluster, &Policy::default(), &Advising::all(), &mut |_| {});
    text::devices::devices(&mut page, &devices_output(&cluster, &simulation));
    let output = simulate_output(&cluster, &simulation, Candidates::None);
    text::simulate::pending(&mut page, &output, Names::Some);
    Ok(page)
}
