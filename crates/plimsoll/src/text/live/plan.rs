//! A plan: what would change, where each model would go, and what it would evict.

use plimsoll_api::rows::DecisionRow;
use plimsoll_core::units::Bytes;
use serde_json::Value;

use super::decision::memory_text;
use crate::commands::{Effect, FieldChange, Planned};
use crate::text::count;
use crate::text::decision::{clauses, help, without_needs};
use crate::text::page::{BAD, FAINT, GOOD, NEW, ODD, PLAIN, Page, STRONG};

/// Prints the plan for each model, and a summary.
pub(crate) fn plan(page: &mut Page, rows: &[Planned]) {
    for row in rows {
        model(page, row);
    }
    let number = |effect: Effect| rows.iter().filter(|row| row.result == effect).count();
    page.heading("Plan");
    let text = format!(
        "{} to create, {} to change, {} unchanged; nothing was sent",
        number(Effect::Created),
        number(Effect::Changed),
        number(Effect::Unchanged)
    );
    page.line(2, &text);
}

fn model(page: &mut Page, row: &Planned) {
    let (mark, style, text) = match row.result {
        Effect::Created => ("+ ", GOOD, " would be created"),
        Effect::Changed => ("~ ", ODD, " would change"),
        Effect::Unchanged => ("  ", FAINT, " is unchanged"),
    };
    page.pieces(0, &[(style, mark), (STRONG, &row.model), (style, text)]);
    row.changes.iter().for_each(|one| change(page, one));
    if row.result == Effect::Changed && row.slots > 0 {
        page.styled(4, FAINT, &format!("{} stay as they were created", count(row.slots, "slot")));
    }
    placement(page, row);
}

/// Prints where one more slot would go, what it would evict, or why it would not be placed.
pub(crate) fn placement(page: &mut Page, row: &Planned) {
    let decision: &DecisionRow = &row.decision.decision;
    if let Some(memory) = memory_text(decision.memory.as_ref()) {
        page.line(4, &memory);
    }
    let runner = decision.runner_id.as_deref().unwrap_or("?");
    if decision.placed {
        let gpus = super::gpus(decision.gpu_allocation.as_ref());
        let text = match gpus.as_str() {
            "-" => format!("a slot would go to {runner}"),
            gpus => format!("a slot would go to {runner}, GPU {gpus}"),
        };
        return page.styled(4, GOOD, &text);
    }
    let evicted: Vec<String> = decision
        .evictions
        .iter()
        .map(|eviction| format!("{} ({})", eviction.slot_id, eviction.model))
        .collect();
    if !evicted.is_empty() {
        page.styled(4, ODD, &format!("a slot would evict {}", evicted.join(", ")));
        return help(page, 4, decision.explanation.promised.as_ref(), &[]);
    }
    page.styled(4, BAD, &format!("a slot would not be placed: {}", decision.explanation.brief));
    clauses(page, 6, without_needs(&decision.explanation.clauses));
    help(page, 6, decision.explanation.promised.as_ref(), &row.decision.would_fit_if);
}

/// Prints a field that changes, with its values before and after.
pub(crate) fn change(page: &mut Page, change: &FieldChange) {
    let shown = |value: &Option<Value>| match value {
        None => "(none)".to_string(),
        Some(value) => field_text(&change.field, value),
    };
    let (before, after) = (shown(&change.before), shown(&change.after));
    let pieces =
        [(PLAIN, &*change.field), (PLAIN, ": "), (BAD, &*before), (PLAIN, " to "), (NEW, &*after)];
    page.pieces(4, &pieces);
}

/// The fields that have a size, or a list of sizes.
const SIZES: [&str; 2] = ["memory", "overhead"];

/// Formats the value of a field of a declaration, sizes with their unit.
fn field_text(field: &str, value: &Value) -> String {
    let is_size = field.rsplit('.').next().is_some_and(|name| SIZES.contains(&name));
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) if is_size => {
            let sizes: Vec<String> = values.iter().map(|value| field_text(field, value)).collect();
            sizes.join(" + ")
        }
        Value::Number(number) if is_size => match number.as_u64() {
            Some(bytes) => Bytes::new(bytes).to_string(),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_have_a_unit_and_other_numbers_have_none() {
        assert_eq!(field_text("memory", &json!(8_u64 << 30)), "8 GiB");
        assert_eq!(field_text("memory", &json!([8_u64 << 30, 1_u64 << 20])), "8 GiB + 1 MiB");
        assert_eq!(field_text("memory", &json!("measure")), "measure");
        assert_eq!(field_text("runtime.vllm.overhead", &json!(1024)), "1 KiB");
        assert_eq!(field_text("context", &json!(1024)), "1024");
    }
}
