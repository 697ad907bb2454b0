//! The named servers of a user.

use crate::contexts::Contexts;
use crate::text::page::{FAINT, GOOD, PLAIN, Page};
use crate::text::table::{Align, Table};

/// Prints the named servers; a star marks the current one.
pub(crate) fn contexts(page: &mut Page, known: &Contexts) {
    if known.contexts.is_empty() {
        let text = "no contexts; add one with plimsoll context set NAME --server URL";
        return page.styled(0, FAINT, text);
    }
    let mut table = Table::new(&[
        ("CURRENT", Align::Left),
        ("NAME", Align::Left),
        ("SERVER", Align::Left),
        ("TOKEN", Align::Left),
    ]);
    for (name, server) in &known.contexts {
        let is_current = known.current.as_ref() == Some(name);
        let token = server.token_file.as_ref().map(|file| file.display().to_string());
        table.styled_row([
            (GOOD, if is_current { "*" } else { "" }.to_string()),
            (PLAIN, name.clone()),
            (PLAIN, server.server.clone()),
            (PLAIN, token.unwrap_or("-".to_string())),
        ]);
    }
    table.print(page, 0);
}
