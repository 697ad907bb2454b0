//! `plimsoll audit`: what is wrong in a cluster that anybody's scheduler filled.

use anyhow::Result;
use plimsoll_core::units::Name;
use plimsoll_sim::simulation;

use super::load;
use crate::cli::{AuditArgs, AuditFormat};
use crate::output::{self, Outcome};
use crate::text::{Page, findings, understood};
use crate::{json, load as loading};

pub(super) fn run(args: &AuditArgs, quiet: bool) -> Result<Outcome> {
    let loaded = load(&args.input, "audit", quiet)?;
    let (scheduler, uncounted) = simulation::observe(&loaded.cluster);
    let found = loading::audit(&loaded.cluster, scheduler.ledger());
    match args.output {
        AuditFormat::Json => output::json(&json::audit(&loaded.cluster, &found))?,
        AuditFormat::Sarif => {
            let file_of = |node: Option<&Name>| loaded.file_of(node);
            output::json(&json::sarif(&found, &file_of))?;
        }
        AuditFormat::Table => {
            let mut page = Page::default();
            if !quiet {
                understood::understood(&mut page, &loaded.cluster, args.input.plain.rule());
            }
            findings::findings(&mut page, &found);
            findings::uncounted(&mut page, &uncounted);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::wanting(!found.is_empty()))
}
