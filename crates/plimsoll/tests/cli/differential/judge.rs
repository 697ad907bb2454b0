//! Compares the output of a simulation with the model.

use serde_json::Value;

use super::model::{Assignment, Node};
use super::objects::card_name;
use super::world::{Work, World};

const MIB: u64 = 1 << 20;

/// The number of answers of each kind.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) placed: u64,
    pub(super) rejected: u64,
}

/// A cluster and the model of it.
pub(super) struct Judge<'a> {
    world: &'a World,
    nodes: Vec<Node>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(world: &'a World) -> Judge<'a> {
        let mut nodes: Vec<Node> = world.nodes.iter().map(Node::new).collect();
        for running in &world.running {
            nodes[running.node].observe(running);
        }
        Judge { world, nodes }
    }

    /// Follows the decisions, pod by pod, and compares the sums at the end.
    pub(super) fn judge(mut self, sheet: &Value, seen: &mut Seen) -> Result<(), String> {
        let mut promised = false;
        for work in &self.world.pending {
            match row(sheet, "placements", &work.name) {
                Some(placement) => {
                    self.place(work, placement)?;
                    seen.placed += 1;
                }
                None => {
                    let unplaced = row(sheet, "unplaced", &work.name);
                    let unplaced = unplaced.ok_or(format!("{} is lost", work.name))?;
                    // What is promised to one pod is not open to the next, and the model knows no
                    // promises.
                    promised |= !unplaced["promised"].is_null();
                    if !promised {
                        self.reject(work, unplaced)?;
                    }
                    seen.rejected += 1;
                }
            }
        }
        self.compare_sums(sheet)
    }

    fn place(&mut self, work: &Work, placement: &Value) -> Result<(), String> {
        let name = placement["node"].as_str().unwrap_or_default();
        let at = self.world.nodes.iter().position(|machine| machine.name == name);
        let at = at.ok_or(format!("{} is on an unknown node {name}", work.name))?;
        let assignment = self.assignment(at, work, placement);
        if !self.nodes[at].fits(work, &assignment) {
            return Err(format!(
                "{work:?} was placed on {name} {assignment:?}, and does not fit there: {:?}",
                self.nodes[at]
            ));
        }
        self.nodes[at].book(work, &assignment);
        Ok(())
    }

    fn reject(&self, work: &Work, unplaced: &Value) -> Result<(), String> {
        for (machine, node) in self.world.nodes.iter().zip(&self.nodes) {
            // The peak beside init containers counts in full where the plugin picks the card.
            let in_full = machine.floats() && work.init.iter().any(|ask| ask.cards() > 0);
            let fitting = node.fitting(work);
            if let (Some(found), false) = (fitting.first(), in_full) {
                return Err(format!(
                    "{work:?} was not placed ({}), and fits on {} {found:?}: {node:?}",
                    unplaced["summary"], machine.name
                ));
            }
        }
        Ok(())
    }

    /// Reads the cards of each container.
    fn assignment(&self, at: usize, work: &Work, placement: &Value) -> Assignment {
        let machine = &self.world.nodes[at];
        let card =
            |label: &str| (0..machine.memory.len()).find(|card| card_name(machine, *card) == label);
        let rows = placement["containers"].as_array().expect("containers");
        let init = (0..work.init.len()).map(|at| format!("i{at}"));
        let names = init.chain((0..work.apps.len()).map(|at| format!("a{at}")));
        let cards = names.map(|name| {
            let row = rows.iter().find(|row| row["name"] == name.as_str());
            let devices = row.and_then(|row| row["devices"].as_array()).into_iter().flatten();
            devices.filter_map(|device| card(device["uuid"].as_str()?)).collect()
        });
        if machine.floats() { Vec::new() } else { cards.collect() }
    }

    fn compare_sums(&self, sheet: &Value) -> Result<(), String> {
        let rows = sheet["devices"].as_array().expect("devices");
        for (machine, node) in self.world.nodes.iter().zip(&self.nodes) {
            for (at, card) in node.cards.iter().enumerate() {
                let label = card_name(machine, at);
                let row = rows.iter().find(|row| row["uuid"] == label.as_str());
                let row = row.ok_or(format!("{label} is not in the output"))?;
                if node.closed {
                    let told = format!("{label}: a tenant has no bound, but {row}");
                    row["free"].is_null().then_some(()).ok_or(told)?;
                    continue;
                }
                let load =
                    if machine.floats() { node.worst_floating() } else { card.used.mib } * MIB;
                let held = ["held", "releasing", "floating"].map(|name| row[name].as_u64());
                let held: u64 = held.into_iter().flatten().sum();
                let total = card.memory.map(|mib| mib * MIB);
                // A tenant that may be on another card is not surely on this one.
                let over =
                    total.map(|total| card.used.mib.saturating_mul(MIB).saturating_sub(total));
                let told = (row["total"].as_u64(), row["over_by"].as_u64());
                if (load, total, over) != (held, told.0, told.1) {
                    return Err(format!("{label}: load {load}, over by {over:?}, but {row}"));
                }
            }
        }
        Ok(())
    }
}

fn row<'a>(sheet: &'a Value, list: &str, pod: &str) -> Option<&'a Value> {
    sheet[list].as_array()?.iter().find(|row| row["pod"] == pod)
}
