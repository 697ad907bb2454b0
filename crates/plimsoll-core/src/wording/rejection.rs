//! The wording of rejections and decisions.

use std::fmt::{self, Display};

use super::reason::{device_detail, device_phrase, node_detail, node_phrase};
use super::{SizeFormat, list, plural};
use crate::rejection::{
    AskedNeed, DecisionSummary, DeviceReasonCount, HeldBy, Holder, HolderNotEvictable, HolderState,
    NearestMiss, NodeReasonCount, OccupiedDevice, PlacedOn, Rejection,
};
use crate::request::{Amount, RequestId, Shape};
use crate::units::{Bytes, Millis, Name, Timespan};

impl Display for DecisionSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecisionSummary::Placed(placed) => placed.fmt(f),
            DecisionSummary::Rejected(rejection) => rejection.fmt(f),
        }
    }
}

impl Display for PlacedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "placed on {}", self.location())
    }
}

impl PlacedOn {
    /// Renders the node and its GPUs: `demo-a100, GPUs 0, 1`.
    pub fn location(&self) -> String {
        let devices: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
        let gpus = match devices.len() {
            0 => return self.node.to_string(),
            1 => "GPU",
            _ => "GPUs",
        };
        format!("{}, {gpus} {}", self.node, devices.join(", "))
    }
}

impl Display for Rejection {
    /// Reads after "cannot place X: ". What is needed and the nearest miss come first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Clause { topic, text }) in self.clauses(None).iter().enumerate() {
            let follows_nearest = *topic == Topic::HeldBy && self.nearest.is_some();
            f.write_str(match index {
                0 => "",
                _ if follows_nearest => ", ",
                _ => "; ",
            })?;
            f.write_str(match topic {
                Topic::Reason | Topic::Occupied | Topic::Judged => "",
                Topic::Needs => "needs ",
                Topic::Nearest => "nearest is ",
                Topic::HeldBy => "held by ",
                Topic::NotEvictable => "not evictable: ",
            })?;
            f.write_str(text)?;
        }
        Ok(())
    }
}

/// The subject of one line about a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The request as a whole, such as an incomplete gang.
    Reason,
    Needs,
    /// The device that came nearest to fitting.
    Nearest,
    /// The holders of that device.
    HeldBy,
    /// A device that only its holders make unusable.
    Occupied,
    /// The number of devices and nodes by reason.
    Judged,
    NotEvictable,
}

/// One line about a rejection, without the name of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    pub topic: Topic,
    pub text: String,
}

impl Rejection {
    /// Returns the lines about the rejection. At a time, they say how long until a holder is
    /// evictable; without one, when.
    pub fn clauses(&self, now: Option<Millis>) -> Vec<Clause> {
        let mut clauses = Vec::new();
        let mut add = |topic, text| clauses.push(Clause { topic, text });
        if let Some(reason) = &self.request {
            add(Topic::Reason, reason.to_string());
        }
        if let Some(node) = &self.fits_on {
            add(Topic::Reason, self.member_text(node));
            return clauses;
        }
        let is_judged = self.devices > 0
            || self.nodes_with_too_few_devices > 0
            || !self.node_reasons.is_empty();
        // Without a need the reasons speak: a resource that names a GPU can be among them.
        if is_judged && !self.asked.is_empty() {
            add(Topic::Needs, self.asked_text());
        }
        if let Some(nearest) = &self.nearest {
            add(Topic::Nearest, self.nearest_text(nearest));
            if !nearest.too_small && !nearest.held_by.is_empty() {
                let format = SizeFormat::for_shortfall(nearest.need, limit(nearest));
                add(Topic::HeldBy, held_by_in(&nearest.held_by, format));
            }
        }
        if let Some(counts) = self.counts() {
            add(Topic::Judged, counts);
        }
        if let Some(OccupiedDevice { node, device, held_by: holders }) = &self.occupied {
            add(
                Topic::Occupied,
                format!("{} on {node} is held by {}", device.name, held_by(holders)),
            );
        }
        if let Some(not_evictable) = &self.not_evictable {
            let holders = not_evictable.holders.iter().map(|holder| holder.text(now));
            let holders: Vec<String> = holders.collect();
            add(Topic::NotEvictable, list(&holders, not_evictable.more));
        }
        clauses
    }

    /// Renders the rejection in a few words for a list: `35.5 GiB short on demo-a100/1`.
    pub fn brief(&self) -> String {
        if let Some(reason) = &self.request {
            return reason.to_string();
        }
        if let Some(node) = &self.fits_on {
            return self.member_text(node);
        }
        let Some(nearest) = &self.nearest else {
            let first = self.counts().or_else(|| Some(format!("needs {}", self.asked_text())));
            return first.unwrap_or_default();
        };
        let format = SizeFormat::for_shortfall(nearest.need, limit(nearest));
        let (node, ordinal) = (&nearest.node, nearest.device.ordinal);
        if nearest.too_small {
            let (need, size) = (format.show(nearest.need), format.show(limit(nearest)));
            return format!("too large: needs {need}, {node}/{ordinal} has {size} in total");
        }
        let short_by = format.show_difference(nearest.need, limit(nearest));
        format!("{short_by} short on {node}/{ordinal}")
    }

    fn member_text(&self, node: &Name) -> String {
        match self.request {
            Some(ref reason) if reason.is_by_account() => {
                format!("otherwise it would fit on {node}")
            }
            Some(_) => format!("this member alone fits on {node}"),
            None => "left out: its gang has the members that it needs".to_string(),
        }
    }

    fn asked_text(&self) -> String {
        needs_text(&self.asked, self.format())
    }

    /// Returns the unit of all sizes that the sentence compares.
    fn format(&self) -> Option<SizeFormat> {
        self.nearest.as_ref().map(|nearest| SizeFormat::for_shortfall(nearest.need, limit(nearest)))
    }

    /// Returns what a chosen node lacks: `needs 8000 MiB on n1; gpu-0 has 607 MiB free of …`.
    fn chosen_node_text(&self, node: &Name) -> Option<String> {
        let nearest = self.nearest.as_ref().filter(|nearest| nearest.node == *node)?;
        let format = SizeFormat::for_shortfall(nearest.need, limit(nearest));
        let NearestMiss { device, need, free, usable, held_by, .. } = nearest;
        let need_text = format.show(*need);
        let short_by = format.show_difference(*need, limit(nearest));
        let device = &device.name;
        let usable = format.show(*usable);
        if nearest.too_small {
            return Some(format!(
                "needs {need_text} on {node}; {device} has {usable} in total ({short_by} short)"
            ));
        }
        let free = format.show(*free);
        let mut text = format!(
            "needs {need_text} on {node}; {device} has {free} free of {usable} ({short_by} short)"
        );
        let holders = held_by_in(held_by, format);
        if !holders.is_empty() {
            text.push_str(&format!(", held by {holders}"));
        }
        Some(text)
    }

    fn nearest_text(&self, nearest: &NearestMiss) -> String {
        let NearestMiss { node, device, need, .. } = nearest;
        let format = SizeFormat::for_shortfall(*need, limit(nearest));
        let is_asked = matches!(
            &self.asked[..],
            [AskedNeed { amount: Amount::Bytes(asked), .. }] if Bytes::new(asked.get()) == *need
        );
        let needed = if is_asked { String::new() } else { format!(" for {}", format.show(*need)) };
        let kind = if nearest.too_small { "in total" } else { "free" };
        let size = format.show(limit(nearest));
        let short_by = format.show_difference(*need, limit(nearest));
        format!("{} on {node} with {size} {kind}{needed} ({short_by} short)", device.name)
    }

    fn counts(&self) -> Option<String> {
        let mut counts: Vec<String> = Vec::new();
        for (index, row) in self.device_reasons.iter().enumerate() {
            let DeviceReasonCount { example, count } = row;
            let phrase = device_phrase(example);
            let detail = device_detail(example);
            let detail = detail.map_or(String::new(), |detail| in_brackets(&detail, *count));
            counts.push(match index {
                0 => {
                    let gpus = plural(self.devices, "GPU", "GPUs");
                    format!("{count} of {} {gpus} {phrase}{detail}", self.devices)
                }
                _ => format!("{count} {phrase}{detail}"),
            });
        }
        if self.nodes_with_too_few_devices > 0 {
            let nodes = self.nodes_with_too_few_devices;
            counts
                .push(format!("{nodes} {} too few GPUs", plural(nodes, "node has", "nodes have")));
        }
        counts.extend(self.node_reasons.iter().map(node_count));
        (!counts.is_empty()).then(|| counts.join(", "))
    }
}

/// Renders why a request cannot have the node that another scheduler chose:
/// `cannot bind team-a/web: needs 8000 MiB on gpu-node; gpu-0 has 607 MiB free of 32607 MiB (7393
/// MiB short), held by …`.
pub fn cannot_bind(request: &RequestId, node: &Name, rejection: &Rejection) -> String {
    match rejection.chosen_node_text(node) {
        Some(text) => format!("cannot bind {request}: {text}"),
        None => format!("cannot bind {request} to {node}: {rejection}"),
    }
}

/// Returns the free memory of the nearest device, or its usable memory if even that is too little.
fn limit(nearest: &NearestMiss) -> Bytes {
    if nearest.too_small { nearest.usable } else { nearest.free }
}

fn node_count(row: &NodeReasonCount) -> String {
    let NodeReasonCount { example, node, count } = row;
    let nodes = plural(*count, "node", "nodes");
    let detail =
        node_detail(example, node).map_or(String::new(), |detail| in_brackets(&detail, *count));
    format!("{count} {nodes} {}{detail}", node_phrase(example))
}

/// Renders the detail of one of `count` cases.
fn in_brackets(detail: &str, count: u32) -> String {
    if count > 1 { format!(" (e.g. {detail})") } else { format!(" ({detail})") }
}

impl HolderNotEvictable {
    fn text(&self, now: Option<Millis>) -> String {
        let reason = match (self.reason.until(), now) {
            (Some(until), Some(now)) => format!(
                "evictable in {}",
                Timespan::seconds(until.since(now).as_millis().div_ceil(1000))
            ),
            _ => self.reason.to_string(),
        };
        let promised = self.promised_to.as_ref();
        let promised = promised.map_or(String::new(), |pending| format!(", promised to {pending}"));
        format!("{} ({reason}{promised})", self.request)
    }
}

/// Renders the holders of one device: `a/x (40.0 GiB), a/y (8.0 GiB, releasing) and 2 more`.
pub fn held_by(held_by: &HeldBy) -> String {
    let sizes = held_by.holders.iter().filter_map(|holder| holder.bytes);
    let largest = sizes.chain([held_by.foreign]).max().unwrap_or_default();
    held_by_in(held_by, SizeFormat::for_size(largest))
}

fn held_by_in(held_by: &HeldBy, format: SizeFormat) -> String {
    // A difference of single bytes says nothing about the holders.
    let format = if format == SizeFormat::Bytes { SizeFormat::Mib } else { format };
    let holders: Vec<String> =
        held_by.holders.iter().map(|holder| holder_text(holder, format)).collect();
    let holders = list(&holders, held_by.more);
    match (holders.is_empty(), held_by.foreign.is_zero()) {
        (_, true) => holders,
        (true, false) => format!("foreign processes ({})", format.show(held_by.foreign)),
        (false, false) => {
            format!("{holders}, foreign processes ({})", format.show(held_by.foreign))
        }
    }
}

fn holder_text(holder: &Holder, format: SizeFormat) -> String {
    let bytes = holder.bytes.map_or("undeclared".to_string(), |bytes| format.show(bytes));
    let state = match holder.state {
        HolderState::Holding => "",
        HolderState::Releasing => ", releasing",
    };
    format!("{} ({bytes}{state})", holder.name)
}

/// Renders the needs of a shape: `8000 MiB on one GPU`.
pub fn describe_needs(shape: &Shape) -> String {
    let needs = shape.containers.iter().flat_map(|container| &container.needs);
    let asked: Vec<AskedNeed> = needs
        .map(|need| AskedNeed { count: need.count.get(), amount: need.amount.clone() })
        .collect();
    needs_text(&asked, None)
}

fn needs_text(asked: &[AskedNeed], format: Option<SizeFormat>) -> String {
    if asked.is_empty() {
        return "no GPU".to_string();
    }
    let needs: Vec<String> = asked.iter().map(|need| need_text(need, format)).collect();
    needs.join(" and ")
}

fn need_text(need: &AskedNeed, format: Option<SizeFormat>) -> String {
    let count = need.count;
    let on_each = match count {
        1 => "one GPU".to_string(),
        count => format!("each of {count} GPUs"),
    };
    match &need.amount {
        Amount::Bytes(bytes) => {
            let bytes = Bytes::new(bytes.get());
            let format = format.unwrap_or_else(|| SizeFormat::for_size(bytes));
            format!("{} on {on_each}", format.show(bytes))
        }
        Amount::Portion(portion) => format!("{portion} of {on_each}"),
        Amount::Whole if count == 1 => "one whole GPU".to_string(),
        Amount::Whole => format!("{count} whole GPUs"),
        Amount::Plain(_) if count == 1 => "one GPU without declared memory".to_string(),
        Amount::Plain(_) => format!("{count} GPUs without declared memory"),
        Amount::Profile(name) if count == 1 => format!("one {name} slice"),
        Amount::Profile(name) => format!("{count} {name} slices"),
        Amount::Unknown(_) => format!("an unknown amount of memory on {on_each}"),
    }
}
