//! Requests: what the core is asked to place. A pod and a model slot are both a [`Request`].

use std::fmt;
use std::num::{NonZeroU16, NonZeroU64};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resources::ResourceAmounts;
use crate::rules::{NodeRules, Toleration};
use crate::units::{Bytes, Cores, MilliCpu, Millis, Name, Portion, Timespan};

/// A request for devices on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub id: RequestId,
    /// Everything that decides where it fits. Requests with equal specs get equal answers and share
    /// cached verdicts (`memo`).
    pub spec: Arc<Spec>,
    /// Priority, eviction and waiting. The search for a placement does not read them.
    pub terms: Terms,
}

impl Request {
    /// Returns the account that the request counts as.
    pub fn account(&self) -> &Name {
        &self.id.account
    }

    /// Returns the request as far as devices are concerned: on any node, whatever its rules, taints
    /// and other resources say. Another scheduler has judged those.
    #[must_use]
    pub fn on_devices_alone(&self) -> Request {
        let rules =
            NodeRules { tolerations: vec![Toleration::everything()], ..NodeRules::default() };
        let spec = Spec { resources: NodeNeed::default(), rules, ..Spec::clone(&self.spec) };
        Request { spec: Arc::new(spec), ..self.clone() }
    }
}

/// The identity of a request. The uid distinguishes requests that reuse a name, as pods do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// The namespace, queue or tenant that the charges are booked to.
    pub account: Name,
    pub name: Name,
    pub uid: Name,
}

impl RequestId {
    /// Creates an id whose uid is its name, for requests without a uid of their own.
    pub fn new(account: impl Into<Name>, name: impl Into<Name>) -> Self {
        let name = name.into();
        RequestId { account: account.into(), uid: name.clone(), name }
    }

    /// Replaces the uid.
    #[must_use]
    pub fn with_uid(self, uid: impl Into<Name>) -> Self {
        RequestId { uid: uid.into(), ..self }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.account, self.name))
    }
}

/// Everything about a request that `fit` and the score read, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// Device needs.
    pub asks: Asks,
    /// CPU, main memory, pods and named resources of the node.
    pub resources: NodeNeed,
    pub rules: NodeRules,
    /// Overrides of the policy's ordering.
    #[serde(rename = "leaning")]
    pub hints: PlacementHints,
}

impl Spec {
    /// Creates a spec with these shapes, best first, that any node may serve.
    pub fn from_shapes(shapes: Vec<Shape>) -> Self {
        Spec {
            asks: Asks::Shapes(shapes),
            resources: NodeNeed::default(),
            rules: NodeRules::default(),
            hints: PlacementHints::default(),
        }
    }

    /// Clears the names of the containers. No verdict depends on them, so that `memo` keys by this.
    pub(crate) fn nameless(&self) -> Spec {
        let mut spec = self.clone();
        if let Asks::Shapes(shapes) = &mut spec.asks {
            shapes
                .iter_mut()
                .flat_map(|shape| &mut shape.containers)
                .for_each(|c| c.name = Name::from(""));
        }
        spec
    }

    /// Iterates over the needs of all containers of all shapes.
    pub fn needs(&self) -> impl Iterator<Item = &Need> {
        self.shapes()
            .iter()
            .flat_map(|shape| &shape.containers)
            .flat_map(|container| &container.needs)
    }

    /// Applies `change` to the needs of all containers of all shapes.
    pub fn change_needs(&mut self, change: impl FnMut(&mut Need)) {
        if let Asks::Shapes(shapes) = &mut self.asks {
            let containers = shapes.iter_mut().flat_map(|shape| &mut shape.containers);
            containers.flat_map(|container| &mut container.needs).for_each(change);
        }
    }

    /// Returns the shapes, best first; none if the request is malformed or waits for them.
    pub fn shapes(&self) -> &[Shape] {
        match &self.asks {
            Asks::Shapes(shapes) => shapes,
            Asks::Malformed(_) | Asks::Waiting(_) => &[],
        }
    }
}

/// The device needs of a request, or the reason why they could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// Alternatives, best first.
    Shapes(Vec<Shape>),
    /// The request is invalid or contradictory. It cannot be placed until its author changes it.
    Malformed(Misuse),
    /// The request is valid, and its needs depend on something that is not there yet, such as the
    /// devices of a claim. It is pending until it is submitted with shapes.
    Waiting(Misuse),
}

/// The problem of a request that cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Misuse {
    /// The fields that it is about, as the user wrote them.
    pub fields: Vec<Name>,
    /// The problem, and what to write instead.
    pub problem: Name,
}

impl Misuse {
    /// Creates the problem of a request without shapes.
    pub(crate) fn no_shape() -> Self {
        Misuse { fields: Vec::new(), problem: "the request lists no alternative to place".into() }
    }
}

/// One alternative of a request: containers, each with its needs. Tensor-parallel sizes and DRA's
/// "first available" are shapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// In the order in which they start.
    pub containers: Vec<Container>,
}

impl Shape {
    /// Creates a shape of one container with one need.
    pub fn single(container: impl Into<Name>, need: Need) -> Self {
        Shape {
            containers: vec![Container {
                name: container.into(),
                role: Role::App,
                needs: vec![need],
            }],
        }
    }

    /// Returns the number of devices over all needs of all containers.
    pub fn device_count(&self) -> u32 {
        self.containers.iter().flat_map(|c| &c.needs).map(|need| u32::from(need.count.get())).sum()
    }
}

/// A container and its needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Container {
    pub name: Name,
    pub role: Role,
    /// All devices of one container are different physical devices.
    pub needs: Vec<Need>,
}

/// The life of a container within its pod. It decides which memory adds up (`fit::peak_bytes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs to completion before the next container starts.
    Init,
    /// Starts between the init containers and keeps running.
    Sidecar,
    /// Runs at the same time as the other apps and the sidecars.
    App,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Init => "init",
            Role::Sidecar => "sidecar",
            Role::App => "app",
        })
    }
}

/// A number of different devices of one kind, with the same amounts of each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Need {
    pub kind: Name,
    pub count: NonZeroU16,
    /// Memory of each device.
    pub amount: Amount,
    pub compute: Compute,
    /// Slots of each device, usually 1.
    pub slots: u32,
    #[serde(rename = "wishes")]
    pub selector: DeviceSelector,
}

impl Need {
    /// Creates a need of one device: `amount` of its memory, one slot, any compute, no selector.
    pub fn one(kind: impl Into<Name>, amount: Amount) -> Self {
        Need {
            kind: kind.into(),
            count: NonZeroU16::MIN,
            amount,
            compute: Compute::Any,
            slots: 1,
            selector: DeviceSelector::default(),
        }
    }
}

/// The memory that a need takes of one device. An amount of zero cannot be expressed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    Bytes(NonZeroU64),
    /// A share of the usable memory of the chosen device, rounded down to whole MiB.
    Portion(Portion),
    /// All of the device, without other tenants.
    Whole,
    /// One access token without a memory amount. It takes an exclusive card whole; on a shared card
    /// the rule decides.
    Plain(PlainRule),
    /// A hardware slice of this profile.
    Profile(Name),
    /// The amount is unknown; the value names the missing fact.
    Unknown(Name),
}

impl Amount {
    /// Converts bytes. Zero becomes [`Amount::Unknown`], never a need that fits everywhere.
    pub fn bytes(bytes: Bytes) -> Self {
        match NonZeroU64::new(bytes.get()) {
            Some(bytes) => Amount::Bytes(bytes),
            None => Amount::Unknown("an amount of memory above 0".into()),
        }
    }
}

/// The memory charged for a token without a declared amount on a shared card.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum PlainRule {
    /// The whole card, the only amount that is certainly enough.
    #[default]
    Whole,
    /// The usable memory divided by the number of tokens.
    EqualShare,
    /// None: the request is rejected.
    Refuse,
}

impl fmt::Display for PlainRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlainRule::Whole => "whole",
            PlainRule::EqualShare => "equal-share",
            PlainRule::Refuse => "refuse",
        })
    }
}

/// The compute that a need takes of one device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Compute {
    /// No reservation.
    #[default]
    Any,
    /// In the device's own unit, clamped to what the device has.
    Units(Cores),
    /// Percent of what the device has, at least one unit.
    Percent(u8),
    All,
}

impl Compute {
    /// Converts to units of a device that has `total` of them.
    #[inline]
    pub fn to_units(self, total: u32) -> u32 {
        match self {
            Compute::Any => 0,
            Compute::Units(units) => units.0.min(total),
            Compute::Percent(percent) => {
                let units = u64::from(total) * u64::from(percent.min(100)) / 100;
                u32::try_from(units).unwrap_or(total).max(u32::from(total > 0))
            }
            Compute::All => total,
        }
    }
}

/// The devices that a need accepts. An empty list accepts every device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceSelector {
    /// The model name must contain one of these, ignoring case.
    pub models: Vec<Name>,
    /// The model name must contain none of these, ignoring case.
    pub not_models: Vec<Name>,
    pub uuids: Vec<Name>,
    pub not_uuids: Vec<Name>,
    #[serde(default)]
    pub ordinals: Vec<u16>,
    /// Accepted isolation modes.
    pub modes: Vec<Name>,
    /// All devices of the need must be on one NUMA node.
    pub one_numa: bool,
    /// The device must have no tenants when this one arrives (HAMi's mutex policy).
    pub alone: bool,
    /// Prefer the best linked devices.
    pub linked: bool,
}

impl DeviceSelector {
    /// Returns true if facts of a single device (model, UUID, ordinal, mode) can rule it out.
    ///
    /// False does not mean that the selector is empty: `one_numa` and `linked` relate several
    /// devices to each other, and `alone` depends on the tenants. Those are checked elsewhere.
    pub(crate) fn filters_devices(&self) -> bool {
        !(self.models.is_empty()
            && self.not_models.is_empty()
            && self.uuids.is_empty()
            && self.not_uuids.is_empty()
            && self.ordinals.is_empty()
            && self.modes.is_empty())
    }

    /// Returns true if single devices are named, so that two otherwise equal devices differ.
    pub(crate) fn names_devices(&self) -> bool {
        !(self.uuids.is_empty() && self.not_uuids.is_empty() && self.ordinals.is_empty())
    }
}

/// CPU, main memory, pods and named resources that a request takes of its node, as the peak over
/// its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeNeed {
    pub cpu: MilliCpu,
    pub memory: Bytes,
    pub pods: u32,
    /// Includes the device plugin's tokens (`nvidia.com/gpu`), which bind beside the memory of the
    /// devices.
    #[serde(default, skip_serializing_if = "ResourceAmounts::is_empty")]
    pub extended: ResourceAmounts,
}

/// A request's overrides of the policy; `None` keeps the policy's value.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PlacementHints {
    pub nodes: Option<Order>,
    pub devices: Option<Order>,
    pub weights: Option<Weights>,
}

/// The preference between fuller and emptier candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Prefers the fullest, so that large gaps stay open.
    Pack,
    /// Prefers the emptiest, so that load stays even.
    Spread,
}

/// Weights of slots, compute and memory in a device's fullness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weights {
    pub slots: u32,
    pub cores: u32,
    pub memory: u32,
}

/// The terms of a request: its rank among pending requests, and what may be evicted for it or when
/// it may be evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Terms {
    /// Higher priorities are placed first, and may evict lower ones (see `eviction`).
    pub priority: i32,
    /// Stays pending if it cannot be placed now, and again after a failed start.
    pub waits: bool,
    /// The time at which a pending request expires.
    pub deadline: Option<Millis>,
    /// Never evicted.
    pub pinned: bool,
    /// Started ahead of demand: it never evicts, never overtakes, and is the first victim.
    pub speculative: bool,
    pub eviction: Eviction,
    /// Holders of the same model are never evicted for each other.
    pub model: Option<Name>,
    /// The idle time after which it may be evicted; `None` means never for idleness.
    pub idle_limit: Option<Timespan>,
    /// The time that a restart costs; the eviction plan minimises the sum.
    pub reload_cost: Timespan,
    /// The time after which a stop is enforced; `None` if it is not, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_limit: Option<Timespan>,
}

/// The holders that may be evicted to place a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    #[default]
    Never,
    /// Holders that have been idle longer than their limit.
    Idle,
    /// Also active holders with a lower priority.
    LowerPriority,
}
