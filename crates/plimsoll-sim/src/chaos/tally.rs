//! What happened in a day or in many, counted.

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "every variant has its words in `Count::ALL`")]
pub enum Count {
    Days,
    Events,
    Decisions,
    Placed,
    Waited,
    Refused,
    Evictions,
    Starts,
    Stops,
    EffectsDone,
    EffectsFailed,
    EffectsLate,
    EffectsLost,
    EffectsDoubled,
    OrdersRepeated,
    OrdersStale,
    WordsDone,
    WordsLate,
    WordsLost,
    WordsDoubled,
    WordsStale,
    CrashesBeforeBatch,
    CrashesBeforeDurable,
    CrashesBeforeCommitted,
    CrashesBeforeEffects,
    CrashesAmongEffects,
    CrashesWithMoreStaged,
    FromJournal,
    FromRows,
    Replayed,
    NodesCut,
    NodesRebooted,
    NodesLost,
    CardsMoved,
    CardsSwapped,
    CardsLost,
    Grown,
    Foreign,
    Unknown,
    SeenOver,
    Compared,
    Objections,
}

impl Count {
    /// All of them in the order in which they are shown: how they are called in JSON, and what they are.
    pub const ALL: [(Count, &'static str, &'static str); 42] = [
        (Count::Days, "days", "days"),
        (Count::Events, "events", "events"),
        (Count::Decisions, "decisions", "decisions"),
        (Count::Placed, "placed", "answers: placed or offered"),
        (Count::Waited, "waited", "answers: waits"),
        (Count::Refused, "refused", "answers: refused"),
        (Count::Evictions, "evictions", "holders evicted"),
        (Count::Starts, "starts", "effects: starts"),
        (Count::Stops, "stops", "effects: stops"),
        (Count::EffectsDone, "effects_done", "orders that arrived in time"),
        (Count::EffectsFailed, "effects_failed", "orders that arrived and failed"),
        (Count::EffectsLate, "effects_late", "orders that came late"),
        (Count::EffectsLost, "effects_lost", "orders that were lost"),
        (Count::EffectsDoubled, "effects_doubled", "orders that came twice"),
        (Count::OrdersRepeated, "orders_repeated", "orders sent again by reconciliation"),
        (Count::OrdersStale, "orders_stale", "orders for a generation that was over"),
        (Count::WordsDone, "words_done", "reports that arrived in time"),
        (Count::WordsLate, "words_late", "reports that came late"),
        (Count::WordsLost, "words_lost", "reports that were lost"),
        (Count::WordsDoubled, "words_doubled", "reports that came twice"),
        (Count::WordsStale, "words_stale", "reports of a generation that was over"),
        (Count::CrashesBeforeBatch, "crashes_before_batch", "crashes with work staged"),
        (
            Count::CrashesBeforeDurable,
            "crashes_before_durable",
            "crashes before a batch was durable",
        ),
        (
            Count::CrashesBeforeCommitted,
            "crashes_before_committed",
            "crashes after it was, before anybody knew",
        ),
        (Count::CrashesBeforeEffects, "crashes_before_effects", "crashes before the effects left"),
        (Count::CrashesAmongEffects, "crashes_among_effects", "crashes while the effects left"),
        (
            Count::CrashesWithMoreStaged,
            "crashes_with_more_staged",
            "crashes with a batch under way and more staged",
        ),
        (Count::FromJournal, "recovered_from_journal", "recoveries from snapshot and journal"),
        (Count::FromRows, "recovered_from_rows", "recoveries from rows written and read"),
        (Count::Replayed, "replayed", "records decided again"),
        (Count::NodesCut, "nodes_cut_off", "nodes cut off"),
        (Count::NodesRebooted, "nodes_rebooted", "nodes rebooted"),
        (Count::NodesLost, "nodes_lost", "nodes lost for good"),
        (Count::CardsMoved, "cards_reordered", "nodes back with their cards reordered"),
        (Count::CardsSwapped, "cards_swapped", "cards swapped"),
        (Count::CardsLost, "cards_lost", "cards lost"),
        (Count::Grown, "grown", "processes grown past their charge"),
        (Count::Foreign, "foreign", "foreign memory measured"),
        (Count::Unknown, "unknown_slots", "unknown slots found running"),
        (Count::SeenOver, "seen_over", "steps in which reality was over a line"),
        (Count::Compared, "compared", "comparisons of everything"),
        (Count::Objections, "breaches", "breaches found"),
    ];

    /// Those that are crashes.
    const CRASHES: [Count; 6] = [
        Count::CrashesBeforeBatch,
        Count::CrashesBeforeDurable,
        Count::CrashesBeforeCommitted,
        Count::CrashesBeforeEffects,
        Count::CrashesAmongEffects,
        Count::CrashesWithMoreStaged,
    ];

    /// Those that are faults of messages, machines and memory.
    const FAULTS: [Count; 18] = [
        Count::EffectsFailed,
        Count::EffectsLate,
        Count::EffectsLost,
        Count::EffectsDoubled,
        Count::OrdersStale,
        Count::WordsLate,
        Count::WordsLost,
        Count::WordsDoubled,
        Count::WordsStale,
        Count::NodesCut,
        Count::NodesRebooted,
        Count::NodesLost,
        Count::CardsMoved,
        Count::CardsSwapped,
        Count::CardsLost,
        Count::Grown,
        Count::Foreign,
        Count::Unknown,
    ];
}

/// How often each thing happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally([u64; Count::ALL.len()]);

impl Default for Tally {
    fn default() -> Self {
        Tally([0; Count::ALL.len()])
    }
}

impl Tally {
    /// How often this happened.
    pub fn of(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// How often the machine was killed.
    pub fn crashes(&self) -> u64 {
        Count::CRASHES.iter().map(|count| self.of(*count)).sum()
    }

    /// How many faults there were besides.
    pub fn faults(&self) -> u64 {
        Count::FAULTS.iter().map(|count| self.of(*count)).sum()
    }

    /// One more of these.
    pub(crate) fn count(&mut self, count: Count) {
        self.count_all(count, 1);
    }

    /// So many more of these.
    pub(crate) fn count_all(&mut self, count: Count, more: usize) {
        self.0[count as usize] += more as u64;
    }

    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Tally) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_its_words_at_its_place() {
        assert!(Count::ALL.iter().enumerate().all(|(at, (count, _, _))| *count as usize == at));
    }
}
