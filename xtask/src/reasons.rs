//! `docs/reasons.md`, generated from the reasons of the core.

use std::fmt::{Display, Write as _};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plimsoll_core::reason::{Change, NodeReason, NotEvictable, Reason, RequestReason};
use plimsoll_core::request::Misuse;
use plimsoll_core::units::{Bytes, MilliCpu, Millis, Name};

const PAGE: &str = "docs/reasons.md";

/// Codes that HAMi has too.
const HAMI: &[&str] = &[
    "AllocatedCardsInsufficientRequest",
    "CardComputeUnitsExhausted",
    "CardCordoned",
    "CardInsufficientCore",
    "CardInsufficientMemory",
    "CardMigTopologyInfeasible",
    "CardNotHealth",
    "CardTimeSlicingExhausted",
    "CardTypeMismatch",
    "CardUuidMismatch",
    "ExclusiveDeviceAllocateConflict",
    "NumaNotFit",
    "ResourceQuotaNotFit",
];

/// Defines a function that returns an example of every variant with its meaning. The `match` makes
/// a variant without a row an error of the compiler.
macro_rules! examples {
    ($function:ident of $enum:ident: $($variant:ident $fields:tt $meaning:literal)*) => {
        fn $function() -> Vec<($enum, &'static str)> {
            let rows = vec![$(($enum::$variant $fields, $meaning)),*];
            for (reason, _) in &rows {
                match reason {
                    $($enum::$variant { .. } => {})*
                }
            }
            rows
        }
    };
}

examples! { device_reasons of Reason:
    NoSuchDevice { ordinal: 3 } "The request names a device that the node does not have."
    Faulty {} "The node reports the device as unhealthy."
    Gone {} "The node no longer reports the device, but requests still hold it."
    SomeCardFaulty { bookable: 7 }
        "The node reports how many of its cards are unhealthy, but not which ones."
    Cordoned {} "The operator closed the device to new work."
    Closed {} "The device is closed because its accounting does not match its holdings."
    StaleTelemetry { since: EXAMPLE_TIME }
        "The memory in use was last measured too long ago."
    TypeMismatch { wanted: Name::from("H100"), is: Name::from("NVIDIA A100-SXM4-40GB") }
        "The request wants another model."
    ModeMismatch { wanted: Name::from("mig"), is: Some(Name::from("hami-core")) }
        "The request accepts other ways of sharing a device. HAMi's code for this is `ModeNotFit` on Ascend, and `CardTypeMismatch` on NVIDIA."
    NumaNotFit { fitting: 2, wanted: 3 }
        "The request wants devices of one NUMA node, and too few of this one fit."
    UuidMismatch {} "The request selects devices by UUID, and not this one."
    IndexMismatch {} "The request selects devices by index, and not this one."
    SameContainer {} "One container gets different devices, and already has this one."
    SlotsExhausted { slots: 10 } "All sharing slots of the device are in use."
    NotAlone {} "The request wants a device without tenants (HAMi's mutex policy)."
    NeedUnknown { missing: Name::from("the size of the model file") }
        "The needed memory is unknown. Unknown is not zero."
    CapacityUnknown { missing: Name::from("label nvidia.com/gpu.memory is missing") }
        "The memory of the device is unknown. There is no default."
    ShareTooSmall {} "The requested share is less than 1 MiB of this device."
    UndeclaredMemory {}
        "The request declares no memory, the card is shared, and `--plain` rejects such requests."
    HeldUndeclared {} "A tenant declares no memory, so its use is not limited."
    TooSmall { need: Bytes::mib(44_000), usable: Bytes::gib(40), free: Bytes::gib(40) }
        "The device is too small even when empty."
    TooSmallTogether {
        need: Bytes::gib(120), alone: Bytes::gib(60), usable: Bytes::gib(80), free: Bytes::gib(80)
    }
        "The device is large enough for the container, but not for all containers of the request that would be on it."
    ShortOfMemory { need: Bytes::mib(24_000), free: Bytes::mib(10_960), usable: Bytes::gib(40) }
        "The device is large enough, but too much of it is in use."
    TenantsMayMeet {
        need: Bytes::gib(6), tokens: 4, together: Bytes::gib(18), usable: Bytes::gib(16)
    }
        "The device plugin picks the cards, and the requests that may get the tokens of this card are too large together."
    PromisedAway { need: Bytes::gib(30), free: Bytes::gib(40), open: Bytes::gib(20) }
        "Enough memory is free, but it is promised to pending requests."
    ShortOfCores { need: 100, free: 40, total: 100 } "Too many compute cores are in use."
    Exclusive {} "The request wants the whole device, and it has tenants."
    ExclusiveOfUnknownSize { missing: Name::from("label nvidia.com/gpu.count is missing") }
        "The request wants the whole device, which has tenants; it is shared, or may be, and nothing tells its memory."
    ComputeExhausted {} "All compute is booked; a tenant without a booking would get none."
    UnequalShare { need: Bytes::gib(24), load: Bytes::gib(48), shares: 1 }
        "The device gives all tenants equal shares (Kunlun's vXPU), and those in use have another size."
    NoProfile { wanted: Name::from("2g"), known: Name::from("1g, 3g, 6g") }
        "The device has no hardware slices of the wanted profile."
    NoSlice { wanted: Name::from("1g.10gb") } "No hardware slice of the wanted profile is free."
    ChoiceNotOwned {}
        "The device plugin picks the card, and the request does not fit on every card it may pick."
    ChoiceNotDistinct { wanted: 2 }
        "The device plugin picks the cards, and may pick one card twice for one container."
    TooFew { fitting: 4, wanted: 5 } "The device fits, but too few devices of the node do."
}

examples! { node_reasons of NodeReason:
    NoSuchNode {} "The node does not exist."
    NotNamed { wanted: Name::from("node4") } "The request names another node."
    Unschedulable {} "The operator closed the node to new work."
    Silent { since: EXAMPLE_TIME } "The node has sent no heartbeat for too long."
    SelectorMismatch { wanted: Name::from("pool=plugin") }
        "A label of the node does not match the request's selector."
    AffinityMismatch {} "The node matches none of the required affinity terms."
    FileMissing { file: Name::from("/models/qwen3-8b") }
        "The node lacks a file that the request requires, such as that of a model."
    TaintNotTolerated { taint: Name::from("team=other:NoSchedule") }
        "The request does not tolerate a taint of the node."
    CapacityUnknown { missing: Name::from("label nvidia.com/gpu.memory") }
        "The devices of the node are unknown, or its labels contradict each other."
    ShortOfCpu { need: MilliCpu(8000), free: MilliCpu(2000) } "Too little CPU is free."
    ShortOfNodeMemory { need: Bytes::gib(32), free: Bytes::gib(16) }
        "Too little main memory is free."
    PodsExhausted { pods: 110 } "The node runs as many pods as it admits."
    ShortOfResource { resource: Name::from("nvidia.com/gpu"), need: 1, free: 0, allocatable: 8 }
        "Too little of a resource is left that the node advertises, or the node does not advertise it."
    NotFound { steps: 20_000 }
        "The search reached its limit of steps. A placement may exist."
}

examples! { request_reasons of RequestReason:
    Malformed(Misuse {
        fields: vec![Name::from("gpu-memory"), Name::from("gpu-fraction")],
        problem: Name::from("gpu-memory and gpu-fraction are both set; set one of them"),
    }) "The request is invalid or contradicts itself. The text names field and value."
    Waiting(Misuse {
        fields: vec![Name::from("spec.resourceClaims")],
        problem: Name::from("spec.resourceClaims: claim ns/c has no devices yet; kube-scheduler allocates claims"),
    }) "The request waits for something outside of it, such as the devices of a claim. It is pending."
    NoNodes {} "The fleet has no nodes."
    AccountOverMemory {
        account: Name::from("research"),
        need: Bytes::gib(24),
        held: Bytes::gib(60),
        maximum: Bytes::gib(80),
    } "The account of the request, or its parent, would hold more memory than its maximum."
    AccountOverDevices { account: Name::from("research"), need: 2, held: 3, maximum: 4 }
        "The account of the request, or its parent, would hold more devices than its maximum."
    AccountMemoryUnknown { account: Name::from("research"), unknown: 1 }
        "The account has a maximum of memory, and what it holds is not known."
    GangIncomplete { gang: Name::from("default/training"), minimum: 4, placed: 3, members: 4 }
        "Too few members of the gang can be placed together."
    GangNotFound { gang: Name::from("default/training"), minimum: 4, placed: 3, steps: 20_000 }
        "The search for the gang reached its limit of steps. A placement may exist."
}

examples! { holder_reasons of NotEvictable:
    RequesterMayNotEvict {} "The pending request may not evict anything."
    Pinned {} "The model is pinned."
    SameModel {} "The slot serves the model that the pending request asks for."
    Starting {} "The process is still starting."
    Releasing {} "The slot is already being stopped."
    RecentlyStarted { until: EXAMPLE_TIME }
        "The slot started a short time ago; evicting it now would only cause swapping."
    Active { requests: 2 } "Requests are in flight."
    ActivityUnknown {} "It is unknown whether requests are in flight."
    NoIdleLimit {} "The model has no idle limit, so its slots are never idle for long enough."
    NotIdleYet { until: EXAMPLE_TIME } "The slot is idle, but not for long enough."
}

/// A time that is printed with a date.
const EXAMPLE_TIME: Millis = Millis(1_794_837_731_000);

/// Writes the page.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    fs::write(workspace.join(PAGE), page()).with_context(|| format!("cannot write {PAGE}"))?;
    println!("wrote {PAGE}");
    Ok(())
}

fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str("| code | meaning | text | lifted when |\n| --- | --- | --- | --- |\n");
    for (reason, meaning) in device_reasons() {
        row(&mut page, &[&code(reason.code()), &meaning, &reason, &lifted(reason.clears_on())]);
    }
    page.push_str(NODES);
    for (reason, meaning) in node_reasons() {
        row(&mut page, &[&code(reason.code()), &meaning, &reason, &lifted(reason.clears_on())]);
    }
    page.push_str(REQUESTS);
    for (reason, meaning) in request_reasons() {
        row(&mut page, &[&meaning, &reason]);
    }
    page.push_str(HOLDERS);
    for (reason, meaning) in holder_reasons() {
        row(&mut page, &[&code(reason.code()), &meaning, &reason]);
    }
    page
}

fn row(page: &mut String, cells: &[&dyn Display]) {
    for cell in cells {
        write!(page, "| {cell} ").expect("writing to a string does not fail");
    }
    page.push_str("|\n");
}

fn code(code: &str) -> String {
    let origin = if HAMI.contains(&code) { " (HAMi)" } else { "" };
    format!("`{code}`{origin}")
}

fn lifted(change: Change) -> &'static str {
    match change {
        Change::LoadFell => "a holder leaves or shrinks",
        Change::DeviceRepaired => "the device is healthy again",
        Change::DeviceOpened => "the device is opened",
        Change::TelemetryArrived => "a measurement arrives",
        Change::NodeChanged => "the node changes, or another one is added",
        Change::RequestChanged => "the request changes",
    }
}

const HEAD: &str = "\
<!-- Written by `cargo run -p xtask -- reasons`; edit xtask/src/reasons.rs instead. -->

# Reasons

Why a device or a node cannot take a request, and why a holder cannot be evicted for it. Every reason is data with numbers; log
lines, events, API and commands show the same values. Codes are stable. Codes marked HAMi are those of HAMi; several reasons
share a code where HAMi does not distinguish them.

## Devices

Rules are checked in the order of the table, from the most permanent to the most temporary, and the first one that fails is
reported: it must change first. The commit of a placement checks the same rules again.

For a container the codes are counted over the node's devices of the wanted kind, in checking order: `3/8
CardInsufficientMemory, 2/8 NumaNotFit`. If the node has fewer such devices than wanted, the code is `NodeInsufficientDevice`
(HAMi), without counts.

The text follows the name of the device.

";

const NODES: &str = "
`NumaNotFit`, `AllocatedCardsInsufficientRequest`, `CardChoiceNotOwned` and the second `CardNotHealth` can be the reason of a
device that fits alone: the set of devices fails.

`CardClosed`, `CardTelemetryStale`, `CardGone` and promises need a running server. The offline commands never report them;
[scenarios](scenarios.md) do.

If a holder that leaves or shrinks, or another change, would be enough, `explain` names it under \"What would help\".

## Nodes

The reason of a node is reported together with those of its devices. The text follows the name of the node.

| code | meaning | text | lifted when |
| --- | --- | --- | --- |
";

const REQUESTS: &str = "
`NotFoundInSteps` is not a rejection by a rule: the search is exact within a number of steps, and ended.

## Requests

These reasons apply to a request as a whole and have no code.

| meaning | text |
| --- | --- |
";

const HOLDERS: &str = "
## Holders

The reasons why a slot that holds memory is not evictable. The text follows the name of the slot, in brackets.

| code | meaning | text |
| --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
        let written = fs::read_to_string(path).expect("the page can be read");
        assert!(written == page(), "{PAGE} is out of date; run `cargo run -p xtask -- reasons`");
    }

    #[test]
    fn examples_are_in_checking_order() {
        let devices: Vec<Reason> = device_reasons().into_iter().map(|(reason, _)| reason).collect();
        assert!(devices.is_sorted());
        let nodes: Vec<NodeReason> = node_reasons().into_iter().map(|(reason, _)| reason).collect();
        assert!(nodes.is_sorted());
    }
}
