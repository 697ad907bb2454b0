//! A rejection in one sentence.

use plimsoll_core::decide::Decision;
use plimsoll_core::reason::Change;
use plimsoll_core::summary;
use plimsoll_core::verdict::NodeVerdict;

use super::Rejected;

impl Rejected {
    /// Renders the rejection in one sentence, with the nearest miss and the holders there.
    pub fn sentence(&self) -> String {
        let sentence = summary::sentence(&self.decision);
        match occupied_device(&self.decision) {
            Some(occupied) => format!("{sentence} ({occupied})"),
            None => sentence,
        }
    }
}

/// Names the holders of the first device that would do without its tenants, where memory is not what is lacking: the
/// core's sentence names holders only beside a nearest miss.
fn occupied_device(decision: &Decision) -> Option<String> {
    let table = decision.table()?;
    if decision.nearest_miss().is_some() || table.unordered().any(|verdict| verdict.fits()) {
        return None;
    }
    let judged = table.by_name().into_iter().filter(|verdict| verdict.reason.is_none());
    judged.into_iter().find_map(occupied_on)
}

fn occupied_on(verdict: NodeVerdict) -> Option<String> {
    let needs = verdict.needs.iter().filter(|need| !need.passed);
    let occupied = needs.flat_map(|need| &need.devices).filter(|device| {
        device.reason.as_ref().is_some_and(|reason| reason.clears_on() == Change::LoadFell)
    });
    let (ordinal, holders) = occupied
        .map(|device| (device.ordinal, summary::holders(verdict, device.ordinal)))
        .find(|(_, holders)| !holders.is_empty())?;
    let label = verdict.view.node.device_label(usize::from(ordinal));
    Some(format!("{label} on {} is held by {holders}", verdict.view.node.name))
}
