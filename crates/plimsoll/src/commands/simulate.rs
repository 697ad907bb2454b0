//! `plimsoll simulate`: every pending pod has its turn.

use anyhow::Result;
use plimsoll_core::decide::Decision;
use plimsoll_sim::simulation::{Advising, simulate};

use super::{load, log};
use crate::cli::{Format, SimulateArgs};
use crate::json;
use crate::output::{self, Outcome};
use crate::text::{Page, bars, breaches, placements, refused, understood};

pub(super) fn run(args: &SimulateArgs, quiet: bool) -> Result<Outcome> {
    let cluster = load(&args.input, "simulate", quiet)?.cluster;
    let mut number = 0;
    let mut watch = |decision: &Decision| {
        number += 1;
        if args.policy.log_decisions {
            log(decision, number);
        }
    };
    let simulation = simulate(&cluster, &args.policy.policy(), &Advising::all(), &mut watch);
    match args.output {
        Format::Json => output::json(&json::simulate(&cluster, &simulation, args.full))?,
        Format::Table => {
            let mut page = Page::default();
            if !quiet {
                understood::understood(&mut page, &cluster, args.input.plain.rule());
            }
            placements::placements(&mut page, &cluster, &simulation);
            bars::bars(&mut page, &cluster, simulation.ledger());
            breaches::breaches(&mut page, simulation.ledger());
            refused::refused(&mut page, &cluster, &simulation, args.full);
            placements::not_considered(&mut page, &cluster, &simulation);
            placements::tally(&mut page, &simulation);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::wanting(!simulation.rejected.is_empty()))
}
