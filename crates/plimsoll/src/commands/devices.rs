//! `plimsoll devices`: every device of a cluster, and the pods that hold it.

use anyhow::Result;
use plimsoll_api::device;
use plimsoll_api::offline::{DevicesOutput, InputRow, PromisedPodRow, SCHEMA_VERSION};
use plimsoll_core::policy::Policy;
use plimsoll_kube::cluster::Cluster;
use plimsoll_sim::simulation::{self, Advising, Simulation, simulate};

use super::simulate::promised;
use super::{Offline, load};
use crate::cli::{DevicesArgs, Format};
use crate::output::{self, Outcome, Verbosity};
use crate::text;

pub(super) fn run(args: &DevicesArgs, verbosity: Verbosity) -> Result<Outcome> {
    let cluster = load(&args.input, Offline::Devices, verbosity)?.cluster;
    let decided = simulate(&cluster, &Policy::default(), &Advising::all(), &mut |_| {});
    let output = devices_output(&cluster, &decided);
    match args.output {
        Format::Json => output::json(&output)?,
        Format::Yaml => output::yaml(&output)?,
        Format::Table => {
            let mut page = output::page();
            if verbosity.is_normal() {
                text::input::input(&mut page, &cluster, args.input.plain.rule());
            }
            text::devices::devices(&mut page, &output);
            output::text(page.text())?;
        }
    }
    Ok(Outcome::with_open(output.devices.iter().filter(|device| device.is_over())))
}

/// Describes the devices as they are held now: pending pods hold nothing, but may have a promise.
pub(super) fn devices_output(cluster: &Cluster, decided: &Simulation) -> DevicesOutput {
    let (scheduler, _) = simulation::observe(cluster);
    let promised = decided.rejected.iter().filter_map(|rejected| {
        let id = &cluster.pending[rejected.pending].request.id;
        let promised = promised(&rejected.advice)?;
        Some(PromisedPodRow { namespace: id.account.clone(), pod: id.name.clone(), promised })
    });
    DevicesOutput {
        schema_version: SCHEMA_VERSION,
        input: InputRow::new(cluster),
        devices: device::devices(cluster, scheduler.ledger()),
        promised: promised.collect(),
    }
}
