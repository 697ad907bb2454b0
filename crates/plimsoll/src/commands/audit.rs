//! `plimsoll audit`: findings about a cluster, whichever scheduler filled it.

use anyhow::Result;
use plimsoll_api::offline::{AuditOutput, sarif};
use plimsoll_core::units::Name;
use plimsoll_kube::audit;
use plimsoll_sim::simulation;

use super::{Offline, load};
use crate::cli::{AuditArgs, AuditFormat};
use crate::output::{self, Outcome, Verbosity};
use crate::text;

pub(super) fn run(args: &AuditArgs, verbosity: Verbosity) -> Result<Outcome> {
    let loaded = load(&args.input, Offline::Audit, verbosity)?;
    let (scheduler, uncounted) = simulation::observe(&loaded.cluster);
    let findings = audit::audit(&loaded.cluster, scheduler.ledger());
    match args.output {
        AuditFormat::Json => output::json(&AuditOutput::new(&loaded.cluster, &findings))?,
        AuditFormat::Yaml => output::yaml(&AuditOutput::new(&loaded.cluster, &findings))?,
        AuditFormat::Sarif => {
            let file_of = |node: Option<&Name>| loaded.file_of(node);
            output::json(&sarif(&findings, &file_of))?;
        }
        AuditFormat::Table => {
            let mut page = output::page();
            if verbosity.is_normal() {
                text::input::input(&mut page, &loaded.cluster, args.input.plain.rule());
            }
            let output = AuditOutput::new(&loaded.cluster, &findings);
            text::audit::findings(&mut page, &output.findings);
            text::audit::uncounted(&mut page, &uncounted);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::with_open(&findings))
}
