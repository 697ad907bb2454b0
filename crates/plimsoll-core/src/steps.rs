//! A decision as a sequence of steps with stable codes, for logs. The steps are rendered from the
//! decision and never recorded beside it.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::decide::Decision;
use crate::reason::Reason;
use crate::room::DeviceRoom;
use crate::units::Bytes;
use crate::verdict::{DeviceVerdict, NeedVerdict, NodeVerdict, Table};

/// The vocabulary of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// The codes of a pod scheduler: `[GPU_FILTER]` and so on.
    Pods,
    /// The codes of a scheduler of model slots: `OVERSCHEDULING_DEBUG gpu_selected` and so on.
    Slots,
}

/// One step of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub code: &'static str,
    /// By name, in a fixed order.
    pub facts: Vec<(&'static str, Fact)>,
}

/// One fact of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Fact {
    /// A size in bytes, or a count; `None` when unknown.
    Number(Option<u64>),
    Flag(bool),
    Text(String),
    List(Vec<String>),
    /// Sizes in bytes by device.
    Sizes(Vec<(String, Option<u64>)>),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if SLOT_CODES.contains(&self.code) {
            write!(f, "OVERSCHEDULING_DEBUG {}", self.code)?;
        } else {
            write!(f, "[{}]", self.code.to_uppercase())?;
        }
        self.facts.iter().try_for_each(|(name, fact)| write!(f, " {name}={fact}"))
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size =
            |bytes: &Option<u64>| bytes.map_or("unknown".to_string(), |bytes| bytes.to_string());
        match self {
            Fact::Number(number) => f.write_str(&size(number)),
            Fact::Flag(flag) => write!(f, "{flag}"),
            Fact::Text(text) if text.contains(char::is_whitespace) => write!(f, "{text:?}"),
            Fact::Text(text) => f.write_str(text),
            Fact::List(names) => write!(f, "[{}]", names.join(",")),
            Fact::Sizes(sizes) => {
                let rows: Vec<String> =
                    sizes.iter().map(|(name, bytes)| format!("{name}:{}", size(bytes))).collect();
                write!(f, "{{{}}}", rows.join(","))
            }
        }
    }
}

const SLOT_CODES: [&str; 8] = [
    "gpu_allocation_start",
    "gpu_selected",
    "single_gpu_validation",
    "multi_gpu_validation",
    "memory_before_slot_creation",
    "memory_after_slot_creation",
    "allocation_success",
    "allocation_failed",
];

/// Renders the steps of a decision; `id` is the decision's id in logs and APIs.
pub fn steps(decision: &Decision, id: &str, vocabulary: Vocabulary) -> Vec<Step> {
    let renderer = Renderer { decision, id, vocabulary };
    let nodes = decision.tables().flat_map(Table::by_name);
    nodes.flat_map(|verdict| renderer.node_steps(verdict)).collect()
}

struct Renderer<'a> {
    decision: &'a Decision,
    id: &'a str,
    vocabulary: Vocabulary,
}

impl Renderer<'_> {
    fn node_steps(&self, verdict: NodeVerdict) -> Vec<Step> {
        let need_steps = |need: &NeedVerdict| match self.vocabulary {
            Vocabulary::Pods => self.pod_need(verdict, need),
            Vocabulary::Slots => self.slot_need(verdict, need),
        };
        verdict.needs.iter().flat_map(need_steps).collect()
    }

    fn pod_need(&self, verdict: NodeVerdict, need: &NeedVerdict) -> Vec<Step> {
        let fitting: Vec<String> =
            labels(verdict, need.devices.iter().filter(|device| device.reason.is_none()));
        let mut steps = Vec::new();
        for device in &need.devices {
            let room = room(verdict, device);
            let filtered = ("filtered", Fact::List(fitting.clone()));
            steps.push(self.about(verdict, device, "gpu_filter", [filtered]));
            let later = after_release(room);
            let fit_check = [
                ("in_use", Fact::Flag(!room.tenants().is_empty())),
                (
                    "enough_with_releasing",
                    Fact::Flag(device.need.zip(later).is_some_and(|(n, l)| n <= l)),
                ),
                (
                    "all_released",
                    Fact::Flag(
                        !room.tenants().is_empty()
                            && room.tenants().iter().all(|t| t.stage.is_releasing()),
                    ),
                ),
            ];
            steps.push(self.about(verdict, device, "gpu_fit_check", fit_check));
            steps.push(self.about(
                verdict,
                device,
                "idle_check",
                [("free_now", number(room.free()))],
            ));
            steps.push(self.about(
                verdict,
                device,
                "resource_check",
                [("free_after_release", number(later))],
            ));
        }
        steps.extend(self.choice(verdict, need, fitting));
        steps
    }

    /// Returns the steps about the selection on a node and its success.
    fn choice(&self, verdict: NodeVerdict, need: &NeedVerdict, fitting: Vec<String>) -> Vec<Step> {
        let selected = self.selected(verdict);
        let Some(first) =
            need.devices.iter().find(|d| selected.contains(&d.ordinal)).or(need.devices.first())
        else {
            return Vec::new();
        };
        let later_fits = |device: &DeviceVerdict| {
            device.need.zip(after_release(room(verdict, device))).is_some_and(|(n, l)| n <= l)
        };
        let enough = |count: usize| count >= usize::from(need.wanted);
        let waits =
            !need.passed && enough(need.devices.iter().filter(|device| later_fits(device)).count());
        let whole = need
            .devices
            .iter()
            .any(|device| device.need.is_some() && device.need == room(verdict, device).usable());
        let chosen = self.is_chosen(verdict);
        let select = [
            ("devices_wanted", Fact::Number(Some(u64::from(need.wanted)))),
            ("kind", Fact::Text(if whole { "whole" } else { "shared" }.to_string())),
            ("waits_for_release", Fact::Flag(waits)),
        ];
        let allocate = [
            ("promise_only", Fact::Flag(waits)),
            ("fitting", Fact::List(fitting)),
            (
                "selected",
                Fact::List(if chosen { ordinals(verdict, &selected) } else { Vec::new() }),
            ),
            ("succeeded", Fact::Flag(chosen)),
        ];
        vec![
            self.about(verdict, first, "gpu_select", select),
            self.about(verdict, first, "gpu_allocate", allocate),
        ]
    }

    fn slot_need(&self, verdict: NodeVerdict, need: &NeedVerdict) -> Vec<Step> {
        let before: Vec<(String, Option<u64>)> = loads(verdict, |_| Bytes::ZERO);
        let per_gpu = |code, device: &DeviceVerdict| {
            let sizes = [("allocated_per_gpu", Fact::Sizes(before.clone()))];
            self.about(verdict, device, code, sizes)
        };
        let Some(first) = need.devices.first() else {
            return Vec::new();
        };
        let mut steps = vec![per_gpu("gpu_allocation_start", first)];
        let validation =
            if need.wanted == 1 { "single_gpu_validation" } else { "multi_gpu_validation" };
        let tried = need.devices.iter().map(|device| per_gpu(validation, device));
        steps.extend(tried);
        let selected = self.selected(verdict);
        if !self.is_chosen(verdict) {
            let nearest = need.devices.iter().min_by_key(|device| missing(device));
            steps.push(per_gpu("allocation_failed", nearest.unwrap_or(first)));
            return steps;
        }
        let after = loads(verdict, |ordinal| booked_on(need, &selected, ordinal));
        let placed = |code, device: &DeviceVerdict| {
            let sizes = [("allocated_per_gpu", Fact::Sizes(after.clone()))];
            let booked = booked_on(need, &selected, device.ordinal);
            self.about_with(verdict, device, booked, code, sizes)
        };
        let chosen: Vec<&DeviceVerdict> =
            need.devices.iter().filter(|device| selected.contains(&device.ordinal)).collect();
        steps.extend(chosen.iter().map(|device| per_gpu("gpu_selected", device)));
        steps.extend(chosen.iter().map(|device| per_gpu("memory_before_slot_creation", device)));
        steps.extend(chosen.iter().map(|device| placed("memory_after_slot_creation", device)));
        steps.extend(chosen.iter().map(|device| placed("allocation_success", device)));
        steps
    }

    fn selected(&self, verdict: NodeVerdict) -> Vec<u16> {
        match self.decision.placement().filter(|_| self.is_chosen(verdict)) {
            Some(placement) => placement.picks.iter().flatten().copied().collect(),
            None => Vec::new(),
        }
    }

    fn is_chosen(&self, verdict: NodeVerdict) -> bool {
        self.decision.placement().is_some_and(|found| found.node == verdict.view.node.name)
            && verdict.best.is_some()
    }

    /// Creates a step about one device as it was judged.
    fn about<const N: usize>(
        &self,
        verdict: NodeVerdict,
        device: &DeviceVerdict,
        code: &'static str,
        own: [(&'static str, Fact); N],
    ) -> Step {
        self.about_with(verdict, device, Bytes::ZERO, code, own)
    }

    /// Creates a step about one device with `more` bytes on it: the facts that every step has, and
    /// its own.
    fn about_with<const N: usize>(
        &self,
        verdict: NodeVerdict,
        device: &DeviceVerdict,
        more: Bytes,
        code: &'static str,
        own: [(&'static str, Fact); N],
    ) -> Step {
        let node = &verdict.view.node;
        let room = room(verdict, device);
        let subject = match self.vocabulary {
            Vocabulary::Pods => "pod",
            Vocabulary::Slots => "model",
        };
        let total = node.devices[usize::from(device.ordinal)].memory.total.bytes();
        let mut facts = vec![
            ("decision", Fact::Text(self.id.to_string())),
            (subject, Fact::Text(self.decision.request.to_string())),
            ("node", Fact::Text(node.name.to_string())),
            ("device", Fact::Text(node.device_label(usize::from(device.ordinal)))),
            ("revision", Fact::Number(Some(self.decision.revision))),
            ("total", number(total)),
            (
                "held",
                number(
                    Some(room.held().plus(room.floating()).plus(more))
                        .filter(|_| !room.has_undeclared()),
                ),
            ),
            ("releasing", number(Some(room.releasing()))),
            ("foreign", number(Some(room.foreign()))),
            ("requested", number(device.need)),
            ("free", number(room.free().map(|free| free.less(more)))),
            ("fits", Fact::Flag(device.reason.is_none())),
        ];
        if let Some(reason) = &device.reason {
            facts.push(("reason", Fact::Text(reason.code().to_string())));
        }
        facts.extend(own);
        Step { code, facts }
    }
}

/// Orders devices by the memory that they lack; devices with another reason come last.
fn missing(device: &DeviceVerdict) -> (bool, Option<Bytes>) {
    let short_by = device.reason.as_ref().and_then(Reason::short_by);
    (short_by.is_none(), short_by)
}

/// Returns the bytes that a need books on a device: zero unless the device is selected.
fn booked_on(need: &NeedVerdict, selected: &[u16], ordinal: u16) -> Bytes {
    let device = need.devices.iter().find(|device| device.ordinal == ordinal);
    let selected = device.filter(|_| selected.contains(&ordinal));
    selected.and_then(|device| device.need).unwrap_or(Bytes::ZERO)
}

fn room<'a>(verdict: NodeVerdict<'a>, device: &DeviceVerdict) -> &'a DeviceRoom {
    &verdict.view.room.devices()[usize::from(device.ordinal)]
}

fn after_release(room: &DeviceRoom) -> Option<Bytes> {
    Some(room.usable()?.less(room.load().less(room.releasing())).less(room.promised()))
        .filter(|_| !room.has_undeclared())
}

fn number(bytes: Option<Bytes>) -> Fact {
    Fact::Number(bytes.map(Bytes::get))
}

fn labels<'a>(
    verdict: NodeVerdict,
    devices: impl Iterator<Item = &'a DeviceVerdict>,
) -> Vec<String> {
    devices.map(|device| verdict.view.node.device_label(usize::from(device.ordinal))).collect()
}

fn ordinals(verdict: NodeVerdict, ordinals: &[u16]) -> Vec<String> {
    ordinals.iter().map(|ordinal| verdict.view.node.device_label(usize::from(*ordinal))).collect()
}

fn loads(verdict: NodeVerdict, more: impl Fn(u16) -> Bytes) -> Vec<(String, Option<u64>)> {
    let row = |(ordinal, room): (u16, &Arc<DeviceRoom>)| {
        let label = verdict.view.node.device_label(usize::from(ordinal));
        (label, (!room.has_undeclared()).then(|| room.load().plus(more(ordinal)).get()))
    };
    (0_u16..).zip(verdict.view.room.devices()).map(row).collect()
}
