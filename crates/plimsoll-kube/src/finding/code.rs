//! The stable codes of findings.

use std::fmt;

macro_rules! codes {
    ($($name:ident = $text:literal,)*) => {
        /// The stable code of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// All codes, in the order of `docs/audit.md`.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Returns the code in kebab case.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    DeviceOverLine = "device-over-line",
    NodeOverLine = "node-over-line",
    ResourceOverLine = "resource-over-line",
    SlicesOverlap = "slices-overlap",
    MemoryUndeclared = "memory-undeclared",
    LedgerSumsDiffer = "ledger-sums-differ",
    HoldersRecordDamaged = "holders-record-damaged",
    AllocationUnknownDevice = "allocation-unknown-device",
    AllocationUnreadable = "allocation-unreadable",
    PodUnreadable = "pod-unreadable",
    LedgerAnnotationContradicts = "ledger-annotation-contradicts",
    LedgerAnnotationByUser = "ledger-annotation-by-user",
    ObjectGivenTwice = "object-given-twice",
    NodeUnknown = "node-unknown",
    ClaimUnallocated = "claim-unallocated",
    ClaimUnread = "claim-unread",
    ClaimUnknownDevice = "claim-unknown-device",
    ClaimNodeUnknown = "claim-node-unknown",
    DeviceResourceUnknown = "device-resource-unknown",
    DeviceKindMissing = "device-kind-missing",
    GpuWithoutRequest = "gpu-without-request",
    WorkloadCut = "workload-cut",
    ReplicasContradict = "replicas-contradict",
    CapacityContradiction = "capacity-contradiction",
    AllocatableContradiction = "allocatable-contradiction",
    CardsUnhealthy = "cards-unhealthy",
    CountLabelMissing = "count-label-missing",
    MemoryLabelMissing = "memory-label-missing",
    LabelUnreadable = "label-unreadable",
    QuantityUnreadable = "quantity-unreadable",
    TooManyDevices = "too-many-devices",
    MigInvalid = "mig-invalid",
    TaintEffectUnknown = "taint-effect-unknown",
    RegisterScaled = "register-scaled",
    RegisterUnreadable = "register-unreadable",
    RegisterMissing = "register-missing",
    RegisterEmpty = "register-empty",
    RegisterAboveAdvertised = "register-above-advertised",
    MigProfilesUnreadable = "mig-profiles-unreadable",
    DeviceListedTwice = "device-listed-twice",
    CardsAdvertisedTwice = "cards-advertised-twice",
    MigStale = "mig-stale",
    RegisterUnread = "register-unread",
    CoresScaled = "cores-scaled",
    CordonUnknown = "cordon-unknown",
    ScoreUnreadable = "score-unreadable",
    DeclarationUnreadable = "declaration-unreadable",
    DeclarationContradicts = "declaration-contradicts",
    DeclarationEmpty = "declaration-empty",
    DeviceChoiceUnreadable = "device-choice-unreadable",
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl PartialEq<str> for Code {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Code {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_describe_every_code_in_its_order() {
        let page = include_str!("../../../../docs/audit.md");
        let headings: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(headings, codes);
    }
}
