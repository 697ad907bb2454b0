//! Counts of what happened in one day or in many.

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "`Counter::ALL` describes every variant")]
pub enum Counter {
    Days,
    Events,
    Records,
    Decisions,
    Placed,
    Pending,
    Rejected,
    Evictions,
    Starts,
    Stops,
    ClientCalls,
    Reservations,
    Served,
    LeasesRenewed,
    LeasesExpired,
    Requests,
    RequestsLate,
    RequestsLost,
    RequestsDuplicated,
    RequestsRejected,
    Responses,
    ResponsesLate,
    ResponsesLost,
    ResponsesDuplicated,
    ResponsesStale,
    FailedStarts,
    HungProcesses,
    ProcessesEnded,
    CrashesBeforeBatch,
    CrashesBeforeDurable,
    CrashesBeforeCommitted,
    CrashesBeforeAnswers,
    CrashesAmongAnswers,
    CrashesWithMoreStaged,
    FromJournal,
    FromStoredState,
    Replayed,
    Partitions,
    AgentsRestarted,
    Reboots,
    RunnersLost,
    RunnersRemoved,
    GpusReordered,
    GpusAdded,
    GpusLost,
    Overuse,
    ForeignMemory,
    UnknownProcesses,
    OverLine,
    Comparisons,
    Violations,
}

impl Counter {
    /// All counters in the order of the report, with their names in JSON and their descriptions.
    pub const ALL: [(Counter, &'static str, &'static str); 51] = [
        (Counter::Days, "days", "days"),
        (Counter::Events, "events", "events: messages, calls, ticks and faults"),
        (Counter::Records, "records", "journal records"),
        (Counter::Decisions, "decisions", "decisions"),
        (Counter::Placed, "placed", "slots placed"),
        (Counter::Pending, "pending", "slots made pending"),
        (Counter::Rejected, "rejected", "slots rejected"),
        (Counter::Evictions, "evictions", "slots evicted"),
        (Counter::Starts, "starts", "starts ordered"),
        (Counter::Stops, "stops", "stops ordered"),
        (Counter::ClientCalls, "client_calls", "calls of clients and operators"),
        (Counter::Reservations, "reservations", "reservations made"),
        (Counter::Served, "served", "reservations seen ready"),
        (Counter::LeasesRenewed, "leases_renewed", "leases renewed"),
        (Counter::LeasesExpired, "leases_expired", "reservations of vanished clients seen ended"),
        (Counter::Requests, "requests", "runner requests that arrived in time"),
        (Counter::RequestsLate, "requests_late", "runner requests delayed"),
        (Counter::RequestsLost, "requests_lost", "runner requests lost"),
        (Counter::RequestsDuplicated, "requests_duplicated", "runner requests duplicated"),
        (Counter::RequestsRejected, "requests_rejected", "runner requests rejected"),
        (Counter::Responses, "responses", "responses that arrived in time"),
        (Counter::ResponsesLate, "responses_late", "responses delayed"),
        (Counter::ResponsesLost, "responses_lost", "responses lost"),
        (Counter::ResponsesDuplicated, "responses_duplicated", "responses duplicated"),
        (Counter::ResponsesStale, "responses_stale", "responses that were stale on arrival"),
        (Counter::FailedStarts, "failed_starts", "starts that failed"),
        (Counter::HungProcesses, "hung_processes", "loads and stops that hung"),
        (Counter::ProcessesEnded, "processes_ended", "processes that ended by themselves"),
        (Counter::CrashesBeforeBatch, "crashes_before_batch", "crashes with work staged"),
        (
            Counter::CrashesBeforeDurable,
            "crashes_before_durable",
            "crashes before a batch was durable",
        ),
        (
            Counter::CrashesBeforeCommitted,
            "crashes_before_committed",
            "crashes after a batch was durable, before it was acknowledged",
        ),
        (Counter::CrashesBeforeAnswers, "crashes_before_answers", "crashes before answers left"),
        (Counter::CrashesAmongAnswers, "crashes_among_answers", "crashes while answers left"),
        (
            Counter::CrashesWithMoreStaged,
            "crashes_with_more_staged",
            "crashes with a batch in flight and more staged",
        ),
        (Counter::FromJournal, "recovered_from_journal", "recoveries from snapshot and journal"),
        (Counter::FromStoredState, "recovered_from_stored_state", "recoveries from stored state"),
        (Counter::Replayed, "replayed", "records decided again"),
        (Counter::Partitions, "partitions", "runners partitioned"),
        (Counter::AgentsRestarted, "agents_restarted", "agents restarted"),
        (Counter::Reboots, "reboots", "machines rebooted"),
        (Counter::RunnersLost, "runners_lost", "runners lost for good"),
        (Counter::RunnersRemoved, "runners_removed", "runners removed by an operator"),
        (Counter::GpusReordered, "gpus_reordered", "machines with GPUs reordered"),
        (Counter::GpusAdded, "gpus_added", "GPUs added"),
        (Counter::GpusLost, "gpus_lost", "GPUs lost"),
        (Counter::Overuse, "overuse", "processes that exceeded their charge"),
        (Counter::ForeignMemory, "foreign_memory", "changes of foreign memory"),
        (Counter::UnknownProcesses, "unknown_processes", "processes unknown to the server"),
        (Counter::OverLine, "over_line", "records after which reality exceeded a GPU's limit"),
        (Counter::Comparisons, "comparisons", "full comparisons of the accounts"),
        (Counter::Violations, "violations", "violations found"),
    ];

    const CRASHES: [Counter; 6] = [
        Counter::CrashesBeforeBatch,
        Counter::CrashesBeforeDurable,
        Counter::CrashesBeforeCommitted,
        Counter::CrashesBeforeAnswers,
        Counter::CrashesAmongAnswers,
        Counter::CrashesWithMoreStaged,
    ];

    const FAULTS: [Counter; 20] = [
        Counter::RequestsLate,
        Counter::RequestsLost,
        Counter::RequestsDuplicated,
        Counter::ResponsesLate,
        Counter::ResponsesLost,
        Counter::ResponsesDuplicated,
        Counter::ResponsesStale,
        Counter::FailedStarts,
        Counter::HungProcesses,
        Counter::ProcessesEnded,
        Counter::Partitions,
        Counter::AgentsRestarted,
        Counter::Reboots,
        Counter::RunnersLost,
        Counter::GpusReordered,
        Counter::GpusAdded,
        Counter::GpusLost,
        Counter::Overuse,
        Counter::ForeignMemory,
        Counter::UnknownProcesses,
    ];
}

/// A number for each [`Counter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Counters([0; Counter::ALL.len()])
    }
}

impl Counters {
    /// Returns the number of one counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Returns the number of server crashes.
    pub fn crashes(&self) -> u64 {
        Counter::CRASHES.iter().map(|counter| self.get(*counter)).sum()
    }

    /// Returns the number of all other faults.
    pub fn faults(&self) -> u64 {
        Counter::FAULTS.iter().map(|counter| self.get(*counter)).sum()
    }

    /// Adds the numbers of another day.
    pub fn merge(&mut self, other: &Counters) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }

    pub(crate) fn increment(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    pub(crate) fn add(&mut self, counter: Counter, more: usize) {
        self.0[counter as usize] += more as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_described_at_its_index() {
        let all = Counter::ALL.iter().enumerate();
        assert!(all.into_iter().all(|(index, (counter, _, _))| *counter as usize == index));
    }
}
