//! Devices that hold more than they have, said with the numbers and the names.

use plimsoll_core::breach::{self, Breach};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::units::Name;

use super::page::{BAD, Page};

/// What is wrong with what is held; nothing is printed where nothing is.
pub(crate) fn breaches(page: &mut Page, ledger: &Ledger) {
    let breaches = breach::audit(ledger);
    if breaches.is_empty() {
        return;
    }
    page.heading("Over the line");
    for breach in &breaches {
        page.styled(2, BAD, &words(ledger, breach));
    }
}

/// One thing that is wrong, in a sentence.
pub(crate) fn words(ledger: &Ledger, breach: &Breach) -> String {
    let device =
        |ordinal: &u16| ledger.device_labels(breach.node(), [*ordinal]).pop().unwrap_or_default();
    let by = |holders: &[Name]| holders.join(", ");
    match breach {
        Breach::OverLine { node, ordinal, usable, held, over_by, holders } => {
            let device = device(ordinal);
            format!(
                "{device} on {node} holds {held} of {usable}, over by {over_by}: {}",
                by(holders)
            )
        }
        Breach::NoAssignment { node, usable, held, holders } => {
            format!(
                "however they are spread over the cards of {node}, {held} do not fit {usable}: {}",
                by(holders)
            )
        }
        Breach::SumsDiffer { node, ordinal, sum, holdings } => {
            let device = device(ordinal);
            format!(
                "{device} on {node} is booked with {sum}, its holders have {holdings}: a fault in plimsoll, please report it"
            )
        }
        Breach::SlicesOverlap { node, ordinal, holders } => {
            format!(
                "two tenants sit in one slice of {} on {node}: {}",
                device(ordinal),
                by(holders)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_sim::fixture;

    #[test]
    fn a_device_over_its_line_is_told_with_numbers_and_names() {
        let mut page = Page::default();
        breaches(&mut page, fixture::run(&fixture::too_late()).ledger());
        let text = page.plain();
        assert!(
            text.contains(
                "gpu-node/gpu-0 on gpu-node holds 40000 MiB of 32607 MiB, over by 7393 MiB"
            ),
            "{text}"
        );
        assert!(text.contains("default/test-0, default/test-1"), "{text}");
        let mut page = Page::default();
        breaches(&mut page, fixture::run(&fixture::time_sliced(5)).ledger());
        assert_eq!(page.plain(), "");
    }
}
