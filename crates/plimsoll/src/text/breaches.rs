//! Devices that hold more than they have, said with the numbers and the names.

use plimsoll_api::breach::sentence;
use plimsoll_core::breach;
use plimsoll_core::ledger::Ledger;

use super::page::{BAD, Page};

/// What is wrong with what is held; nothing is printed where nothing is.
pub(crate) fn breaches(page: &mut Page, ledger: &Ledger) {
    let breaches = breach::audit(ledger);
    if breaches.is_empty() {
        return;
    }
    page.heading("Over the line");
    for breach in &breaches {
        page.styled(2, BAD, &sentence(ledger, breach));
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
