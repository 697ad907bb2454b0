//! The wording of reasons: as predicates after the name of a device, node or holder, and in two or
//! three words for counts.

use std::collections::BTreeMap;
use std::fmt;

use super::{SizeFormat, plural};
use crate::reason::{NodeReason, NotEvictable, Reason, RequestReason};
use crate::units::Bytes;
use crate::verdict::{NeedVerdict, NodeVerdict};

impl fmt::Display for Reason {
    /// Reads after the name of the device.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoSuchDevice { ordinal } => {
                write!(f, "does not exist: the node has no device {ordinal}")
            }
            Reason::Faulty => f.write_str("is unhealthy"),
            Reason::Gone => f.write_str("is no longer reported"),
            Reason::SomeCardFaulty { bookable } => some_card_faulty(f, *bookable),
            Reason::SlotsExhausted { slots } => write!(f, "has no free slot of {slots}"),
            Reason::Cordoned => f.write_str("is cordoned"),
            Reason::Closed => f.write_str("is closed: its accounting is inconsistent"),
            Reason::StaleTelemetry { since } => {
                write!(f, "has stale telemetry: last measured at {since}")
            }
            Reason::TypeMismatch { wanted, is } => write!(f, "is {is}, not {wanted}"),
            Reason::ModeMismatch { wanted, is } => in_mode(f, wanted, is.as_deref()),
            Reason::NumaNotFit { fitting, wanted } => {
                write!(f, "fits, but only {fitting} of {wanted} devices on its NUMA node do")
            }
            Reason::UuidMismatch => f.write_str("has a UUID that the request does not accept"),
            Reason::IndexMismatch => f.write_str("has an index that the request does not accept"),
            Reason::SameContainer => f.write_str("is already used by the same container"),
            Reason::NotAlone | Reason::Exclusive => {
                f.write_str("has tenants, and the request needs it exclusively")
            }
            Reason::NeedUnknown { missing } => {
                write!(f, "cannot be judged: the request lacks {missing}")
            }
            Reason::CapacityUnknown { missing } => write!(f, "has unknown memory: {missing}"),
            Reason::ShareTooSmall => f.write_str("would give less than 1 MiB for this share"),
            Reason::UndeclaredMemory => {
                f.write_str("is shared, and the request declares no memory")
            }
            Reason::HeldUndeclared => {
                f.write_str("has a tenant that declares no memory, so its free memory is unknown")
            }
            Reason::TooSmall { need, usable, .. } => too_small(f, *need, *usable),
            Reason::TooSmallTogether { need, alone, usable, .. } => {
                too_small_together(f, *need, *alone, *usable)
            }
            Reason::ShortOfMemory { need, free, usable } => short_of(f, *need, *free, *usable),
            Reason::TenantsMayMeet { need, tokens, together, usable } => {
                may_meet(f, *need, *tokens, *together, *usable)
            }
            Reason::PromisedAway { need, free, open } => promised_away(f, *need, *free, *open),
            Reason::ShortOfCores { need, free, total } => {
                write!(f, "needs {need} cores, has {free} free of {total}")
            }
            Reason::ExclusiveOfUnknownSize { missing } => {
                write!(f, "has tenants, and its memory is unknown: {missing}")
            }
            Reason::ComputeExhausted => f.write_str("has all its compute booked"),
            Reason::UnequalShare { need, load, shares } => unequal_share(f, *need, *load, *shares),
            Reason::NoProfile { wanted, known } => no_profile(f, wanted, known),
            Reason::NoSlice { wanted } => write!(f, "has no free slice of {wanted}"),
            Reason::ChoiceNotOwned => {
                f.write_str("fits, but the device plugin may pick another card, which does not")
            }
            Reason::ChoiceNotDistinct { wanted } => write!(
                f,
                "is picked by the device plugin, which may pick one card twice; {wanted} are needed"
            ),
            Reason::TooFew { fitting, wanted } => {
                write!(f, "fits, but only {fitting} of {wanted} devices do")
            }
        }
    }
}

fn some_card_faulty(f: &mut fmt::Formatter<'_>, bookable: u16) -> fmt::Result {
    write!(
        f,
        "may be unhealthy: only {bookable} cards of the node are healthy, and as many are in use"
    )
}

fn in_mode(f: &mut fmt::Formatter<'_>, wanted: &str, is: Option<&str>) -> fmt::Result {
    match is {
        Some(is) => write!(f, "is shared in mode {is}, not {wanted}"),
        None => write!(f, "is not known to be shared in mode {wanted}"),
    }
}

fn no_profile(f: &mut fmt::Formatter<'_>, wanted: &str, known: &str) -> fmt::Result {
    match known {
        "" => write!(f, "is not cut into slices, and {wanted} is wanted"),
        known => write!(f, "has no slices of {wanted}, only of {known}"),
    }
}

fn promised_away(f: &mut fmt::Formatter<'_>, need: Bytes, free: Bytes, open: Bytes) -> fmt::Result {
    let format = SizeFormat::for_shortfall(need, open);
    let (need, free, open) = (format.show(need), format.show(free), format.show(open));
    write!(f, "needs {need}, has {free} free, of which {open} is not promised")
}

fn unequal_share(f: &mut fmt::Formatter<'_>, need: Bytes, load: Bytes, shares: u32) -> fmt::Result {
    let format = SizeFormat::for_shortfall(load, need);
    let (need, load) = (format.show(need), format.show(load));
    let hold = plural(shares, "share in use holds", "shares in use hold");
    write!(f, "gives all tenants equal shares: needs {need}, {shares} {hold} {load}")
}

fn may_meet(
    f: &mut fmt::Formatter<'_>,
    need: Bytes,
    tokens: u32,
    together: Bytes,
    usable: Bytes,
) -> fmt::Result {
    let format = SizeFormat::for_shortfall(together, usable);
    let short_by = format.show_difference(together, usable);
    let (need, together, usable) = (format.show(need), format.show(together), format.show(usable));
    write!(
        f,
        "needs {need}; with the largest requests that its {tokens} tokens admit it would hold \
         {together} of {usable} ({short_by} short)"
    )
}

fn too_small(f: &mut fmt::Formatter<'_>, need: Bytes, usable: Bytes) -> fmt::Result {
    let format = SizeFormat::for_shortfall(need, usable);
    write!(f, "is too small: needs {}, has {}", format.show(need), format.show(usable))
}

fn too_small_together(
    f: &mut fmt::Formatter<'_>,
    need: Bytes,
    alone: Bytes,
    usable: Bytes,
) -> fmt::Result {
    let format = SizeFormat::for_shortfall(need, usable);
    let (need, alone, usable) = (format.show(need), format.show(alone), format.show(usable));
    write!(
        f,
        "is too small for several containers: needs {need} for all that would be on it ({alone} for \
         this one), has {usable}"
    )
}

fn short_of(f: &mut fmt::Formatter<'_>, need: Bytes, free: Bytes, usable: Bytes) -> fmt::Result {
    let format = SizeFormat::for_shortfall(need, free);
    let short_by = format.show_difference(need, free);
    let (need, free, usable) = (format.show(need), format.show(free), format.show(usable));
    write!(f, "needs {need}, has {free} free of {usable} ({short_by} short)")
}

/// Returns the reason in two or three words, reading after a count of devices.
pub(super) fn device_phrase(reason: &Reason) -> &'static str {
    match reason {
        Reason::NoSuchDevice { .. } => "missing",
        Reason::Faulty => "unhealthy",
        Reason::Gone => "no longer reported",
        Reason::SomeCardFaulty { .. } => "possibly unhealthy",
        Reason::Cordoned => "cordoned",
        Reason::Closed => "closed",
        Reason::StaleTelemetry { .. } => "with stale telemetry",
        Reason::TypeMismatch { .. } => "of another type",
        Reason::ModeMismatch { .. } => "in another mode",
        Reason::NumaNotFit { .. } => "on a NUMA node with too few",
        Reason::UuidMismatch | Reason::IndexMismatch => "not selected",
        Reason::SameContainer => "used by the same container",
        Reason::SlotsExhausted { .. } => "out of slots",
        Reason::NotAlone | Reason::Exclusive => "not empty",
        Reason::NeedUnknown { .. } => "not judged",
        Reason::CapacityUnknown { .. } => "of unknown size",
        Reason::ShareTooSmall => "too small for the share",
        Reason::UndeclaredMemory => "shared",
        Reason::HeldUndeclared => "with undeclared tenants",
        Reason::TooSmall { .. } => "too small",
        Reason::TooSmallTogether { .. } => "too small for several containers",
        Reason::ShortOfMemory { .. } => "short of memory",
        Reason::TenantsMayMeet { .. } => "too full if the largest requests meet",
        Reason::PromisedAway { .. } => "promised to others",
        Reason::ShortOfCores { .. } => "short of cores",
        Reason::ExclusiveOfUnknownSize { .. } => "in use and of unknown size",
        Reason::ComputeExhausted => "out of compute",
        Reason::UnequalShare { .. } => "divided into other shares",
        Reason::NoProfile { .. } => "without such slices",
        Reason::NoSlice { .. } => "without a free slice",
        Reason::ChoiceNotOwned => "picked by the device plugin",
        Reason::ChoiceNotDistinct { .. } => "that the device plugin may give twice",
        Reason::TooFew { .. } => "fitting, but too few",
    }
}

/// Returns what the phrase leaves out of a device's reason and the nearest miss does not say.
pub(super) fn device_detail(reason: &Reason) -> Option<String> {
    match reason {
        Reason::NeedUnknown { missing } => Some(format!("the request lacks {missing}")),
        Reason::CapacityUnknown { missing } | Reason::ExclusiveOfUnknownSize { missing } => {
            Some(missing.to_string())
        }
        Reason::StaleTelemetry { since } => Some(format!("since {since}")),
        Reason::ModeMismatch { wanted, .. } => Some(format!("wanted {wanted}")),
        Reason::NoProfile { known, .. } if !known.is_empty() => Some(format!("only {known}")),
        Reason::ShortOfCores { need, free, .. } => Some(format!("needs {need}, {free} free")),
        Reason::UndeclaredMemory => Some("the request declares no memory".to_string()),
        _ => None,
    }
}

impl fmt::Display for NodeReason {
    /// Reads after the name of the node.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeReason::NoSuchNode => f.write_str("does not exist"),
            NodeReason::NotNamed { wanted } => write!(f, "is not {wanted}, the requested node"),
            NodeReason::Unschedulable => f.write_str("is unschedulable"),
            NodeReason::Silent { since } => write!(f, "has been silent since {since}"),
            NodeReason::SelectorMismatch { wanted } => write!(f, "does not match {wanted}"),
            NodeReason::AffinityMismatch => f.write_str("matches no required affinity term"),
            NodeReason::FileMissing { file } => write!(f, "lacks the file {file}"),
            NodeReason::TaintNotTolerated { taint } => {
                write!(f, "has the taint {taint}, which is not tolerated")
            }
            NodeReason::CapacityUnknown { missing } => write!(f, "has unknown devices: {missing}"),
            NodeReason::ShortOfCpu { need, free } => write!(f, "needs {need} CPU, has {free} free"),
            NodeReason::ShortOfNodeMemory { need, free } => {
                let format = SizeFormat::for_shortfall(*need, *free);
                let (need, free) = (format.show(*need), format.show(*free));
                write!(f, "needs {need} of main memory, has {free} free")
            }
            NodeReason::PodsExhausted { pods } => write!(f, "already runs {pods} pods, its limit"),
            NodeReason::ShortOfResource { resource, need, free, allocatable } => {
                f.write_str(&short_of_resource(resource, *need, *free, *allocatable))
            }
            NodeReason::NotFound { steps } => {
                write!(f, "is undecided: no placement found in {steps} steps")
            }
        }
    }
}

/// Returns the reason in two or three words, reading after a count of nodes.
pub(super) fn node_phrase(reason: &NodeReason) -> &'static str {
    match reason {
        NodeReason::NoSuchNode => "missing",
        NodeReason::NotNamed { .. } => "not the requested one",
        NodeReason::Unschedulable => "unschedulable",
        NodeReason::Silent { .. } => "silent",
        NodeReason::SelectorMismatch { .. } | NodeReason::AffinityMismatch => "not selected",
        NodeReason::FileMissing { .. } => "without a required file",
        NodeReason::TaintNotTolerated { .. } => "tainted",
        NodeReason::CapacityUnknown { .. } => "of unknown capacity",
        NodeReason::ShortOfCpu { .. } => "short of CPU",
        NodeReason::ShortOfNodeMemory { .. } => "short of main memory",
        NodeReason::PodsExhausted { .. } => "full of pods",
        NodeReason::ShortOfResource { .. } => "short of a resource",
        NodeReason::NotFound { .. } => "undecided within the search steps",
    }
}

fn short_of_resource(resource: &str, need: u64, free: u64, allocatable: u64) -> String {
    match allocatable {
        0 => format!("needs {need} {resource}, of which none is allocatable"),
        _ => format!("needs {need} {resource}, {free} free of {allocatable} (allocatable)"),
    }
}

/// Returns what the phrase leaves out of a node's reason.
pub(super) fn node_detail(reason: &NodeReason, node: &str) -> Option<String> {
    match reason {
        NodeReason::Silent { since } => Some(format!("{node} since {since}")),
        NodeReason::NotNamed { wanted } | NodeReason::SelectorMismatch { wanted } => {
            Some(format!("wanted {wanted}"))
        }
        NodeReason::FileMissing { file } => Some(file.to_string()),
        NodeReason::TaintNotTolerated { taint } => Some(taint.to_string()),
        NodeReason::CapacityUnknown { missing } => Some(missing.to_string()),
        NodeReason::ShortOfCpu { need, free } => Some(format!("needs {need}, {free} free")),
        NodeReason::ShortOfNodeMemory { need, free } => {
            let format = SizeFormat::for_shortfall(*need, *free);
            Some(format!("needs {}, {} free", format.show(*need), format.show(*free)))
        }
        NodeReason::PodsExhausted { pods } => Some(format!("limit {pods}")),
        NodeReason::ShortOfResource { resource, need, free, allocatable } => {
            Some(short_of_resource(resource, *need, *free, *allocatable))
        }
        NodeReason::NotFound { steps } => Some(format!("{steps} steps")),
        NodeReason::NoSuchNode | NodeReason::Unschedulable | NodeReason::AffinityMismatch => None,
    }
}

impl fmt::Display for RequestReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestReason::Malformed(misuse) | RequestReason::Waiting(misuse) => {
                f.write_str(&misuse.problem)
            }
            RequestReason::NoNodes => f.write_str("there are no nodes"),
            RequestReason::AccountOverMemory { account, need, held, maximum } => {
                let format = SizeFormat::for_shortfall(held.plus(*need), *maximum);
                let (need, held) = (format.show(*need), format.show(*held));
                let maximum = format.show(*maximum);
                write!(f, "account {account} holds {held} of at most {maximum}; needs {need} more")
            }
            RequestReason::AccountOverDevices { account, need, held, maximum } => {
                let gpus = plural(*maximum, "GPU", "GPUs");
                write!(
                    f,
                    "account {account} holds {held} of at most {maximum} {gpus}; needs {need} more"
                )
            }
            RequestReason::AccountMemoryUnknown { account, unknown } => {
                let charges =
                    plural(*unknown, "holding of unknown size", "holdings of unknown size");
                write!(f, "account {account} has a maximum of memory and {unknown} {charges}")
            }
            RequestReason::GangIncomplete { gang, minimum, placed, members }
                if members < minimum =>
            {
                write!(
                    f,
                    "gang {gang} needs {minimum} members but has {members} ({placed} can be placed)"
                )
            }
            RequestReason::GangIncomplete { gang, minimum, placed, .. } => {
                let fit = if *placed == 1 { "fits" } else { "fit" };
                write!(
                    f,
                    "gang {gang} needs {minimum} members placed together; only {placed} {fit}"
                )
            }
            RequestReason::GangNotFound { gang, minimum, placed, steps } => write!(
                f,
                "gang {gang} needs {minimum} members placed together; {placed} found in {steps} \
                 steps of search"
            ),
        }
    }
}

impl fmt::Display for NotEvictable {
    /// Reads in brackets after the name of the holder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotEvictable::RequesterMayNotEvict => f.write_str("the request may not evict"),
            NotEvictable::Pinned => f.write_str("pinned"),
            NotEvictable::SameModel => f.write_str("same model"),
            NotEvictable::Starting => f.write_str("starting"),
            NotEvictable::Releasing => f.write_str("already releasing"),
            NotEvictable::RecentlyStarted { until } => {
                write!(f, "started recently; evictable from {until}")
            }
            NotEvictable::Active { requests: 1 } => f.write_str("1 request in flight"),
            NotEvictable::Active { requests } => write!(f, "{requests} requests in flight"),
            NotEvictable::ActivityUnknown => f.write_str("activity unknown"),
            NotEvictable::NoIdleLimit => f.write_str("no idle limit"),
            NotEvictable::NotIdleYet { until } => write!(f, "idle; evictable from {until}"),
        }
    }
}

/// Renders why a container found no devices on a node, as counts of reason codes over the node's
/// devices in checking order (`2/8 NumaNotFit, 3/8 CardInsufficientMemory`); `None` if it passed.
pub fn container_reason(verdict: NodeVerdict, container: usize) -> Option<String> {
    let failed: Vec<String> = verdict
        .needs
        .iter()
        .filter(|need| usize::from(need.container) == container && !need.passed)
        .map(need_reason)
        .collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

fn need_reason(need: &NeedVerdict) -> String {
    let devices = need.devices.len();
    if devices < usize::from(need.wanted) {
        return "NodeInsufficientDevice".to_string();
    }
    let mut by_code: BTreeMap<&'static str, (&Reason, usize)> = BTreeMap::new();
    for reason in need.devices.iter().filter_map(|device| device.reason.as_ref()) {
        let row = by_code.entry(reason.code()).or_insert((reason, 0));
        row.0 = row.0.min(reason);
        row.1 += 1;
    }
    let mut rows: Vec<(&Reason, usize)> = by_code.into_values().collect();
    rows.sort();
    let parts = rows.iter().map(|(reason, count)| format!("{count}/{devices} {}", reason.code()));
    parts.collect::<Vec<_>>().join(", ")
}
