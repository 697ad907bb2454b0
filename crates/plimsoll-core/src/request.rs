//! What is asked: a pod and a model slot become the same thing here.

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rules::NodeRules;
use crate::units::{Bytes, Cores, MilliCpu, Millis, Name, Portion};

/// Somebody asks for a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Who asks.
    pub id: RequestId,
    /// What is asked. Requests with an equal spec get the same answer, and share the work of finding it.
    pub spec: Arc<Spec>,
    /// On which terms it holds its place once it has one, and what it may do to others to get it.
    pub terms: Terms,
}

/// Who asks: an account, a name in it, and a uid that tells one bearer of the name from the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// The namespace, queue or tenant that the charge is booked to.
    pub account: Name,
    /// The name within the account.
    pub name: Name,
    /// What tells this bearer of the name from an earlier one.
    pub uid: Name,
}

impl RequestId {
    /// The request of this name in this account; its uid is its name until one is known.
    pub fn new(account: impl Into<Name>, name: impl Into<Name>) -> Self {
        let name = name.into();
        RequestId { account: account.into(), uid: name.clone(), name }
    }

    /// The same with this uid.
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

/// Everything about a request that the decision looks at, and nothing that it does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// What is asked of devices.
    pub asks: Asks,
    /// What is asked of the node besides.
    pub resources: NodeNeed,
    /// Where it may run.
    pub rules: NodeRules,
    /// How the asker would like candidates ordered, where that differs from the policy.
    pub leaning: Leaning,
}

impl Spec {
    /// A spec that asks these shapes in this order, of any node.
    pub fn of(shapes: Vec<Shape>) -> Self {
        Spec {
            asks: Asks::Shapes(shapes),
            resources: NodeNeed::default(),
            rules: NodeRules::default(),
            leaning: Leaning::default(),
        }
    }

    /// The same with containers that have no names.
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

    /// Every need of every container of every shape.
    pub fn needs(&self) -> impl Iterator<Item = &Need> {
        self.shapes()
            .iter()
            .flat_map(|shape| &shape.containers)
            .flat_map(|container| &container.needs)
    }

    /// Changes every need of every container of every shape.
    pub fn change_needs(&mut self, change: impl FnMut(&mut Need)) {
        if let Asks::Shapes(shapes) = &mut self.asks {
            let containers = shapes.iter_mut().flat_map(|shape| &mut shape.containers);
            containers.flat_map(|container| &mut container.needs).for_each(change);
        }
    }

    /// The shapes, in the order of preference; none when the request cannot be understood.
    pub fn shapes(&self) -> &[Shape] {
        match &self.asks {
            Asks::Shapes(shapes) => shapes,
            Asks::Malformed(_) => &[],
        }
    }
}

/// What is asked of devices, or why that cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// Alternatives, best first.
    Shapes(Vec<Shape>),
    /// The request contradicts itself or cannot be read; it must change before it can be placed.
    Malformed(Misuse),
}

/// What is wrong with a request that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Misuse {
    /// The fields at fault, as the user wrote them.
    pub fields: Vec<Name>,
    /// What is wrong with them and what to write instead.
    pub problem: Name,
}

impl Misuse {
    /// A request that offers no way to satisfy it.
    pub(crate) fn no_shape() -> Self {
        Misuse {
            fields: Vec::new(),
            problem: "the request says no way in which it could be satisfied".into(),
        }
    }
}

/// One way to satisfy a request: containers, each with its needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// The containers in the order in which they start.
    pub containers: Vec<Container>,
}

impl Shape {
    /// A single container with a single need.
    pub fn single(container: impl Into<Name>, need: Need) -> Self {
        Shape {
            containers: vec![Container {
                name: container.into(),
                role: Role::App,
                needs: vec![need],
            }],
        }
    }

    /// How many devices all needs of all containers name.
    pub fn device_count(&self) -> u32 {
        self.containers.iter().flat_map(|c| &c.needs).map(|need| u32::from(need.count.get())).sum()
    }
}

/// A container with what it needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Container {
    /// Its name.
    pub name: Name,
    /// When it runs.
    pub role: Role,
    /// What it needs of devices. All the devices of one container are different physical devices.
    pub needs: Vec<Need>,
}

/// When a container runs, and so what its memory adds up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs to its end before the next starts.
    Init,
    /// Starts among the init containers and stays.
    Sidecar,
    /// Runs beside the other apps and the sidecars.
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

/// So many different devices of one kind, with so much of each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Need {
    /// The kind of device.
    pub kind: Name,
    /// How many different ones.
    pub count: NonZeroU16,
    /// How much memory of each.
    pub amount: Amount,
    /// How much compute of each.
    pub compute: Compute,
    /// How many of a device's slots it takes.
    pub slots: u32,
    /// Which devices will do.
    pub wishes: Wishes,
}

impl Need {
    /// One device of `kind` with `amount` of its memory, one slot, any compute and no wishes.
    pub fn one(kind: impl Into<Name>, amount: Amount) -> Self {
        Need {
            kind: kind.into(),
            count: NonZeroU16::MIN,
            amount,
            compute: Compute::Any,
            slots: 1,
            wishes: Wishes::default(),
        }
    }
}

/// How much of a device's memory is needed. A need of nothing cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// So many bytes.
    Bytes(std::num::NonZeroU64),
    /// A share of what is usable on that very device, floored to whole MiB.
    Portion(Portion),
    /// All of it, and nobody beside.
    Whole,
    /// One token, with no word about memory. On a card of its own that is the whole card; on a shared one the rule decides.
    Plain(PlainRule),
    /// A hardware slice of this profile.
    Profile(Name),
    /// Not known, and what is missing.
    Unknown(Name),
}

impl Amount {
    /// So many bytes; nothing at all is an unknown need, never a free ride.
    pub fn bytes(bytes: Bytes) -> Self {
        match std::num::NonZeroU64::new(bytes.get()) {
            Some(bytes) => Amount::Bytes(bytes),
            None => Amount::Unknown("an amount of memory above 0".into()),
        }
    }
}

/// What a token without a declared amount of memory counts as on a shared card.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum PlainRule {
    /// As the whole card: the only amount that is surely enough.
    #[default]
    Whole,
    /// As an equal share of the card for each of its tokens.
    EqualShare,
    /// As unknown: refused.
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

/// How much of a device's compute is needed, in the device's own unit.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Compute {
    /// Whatever is left over: nothing is booked.
    #[default]
    Any,
    /// So many units; more than the device has means all of them.
    Units(Cores),
    /// So many percent of what the device has, at least one unit.
    Percent(u8),
    /// All of it.
    All,
}

impl Compute {
    /// How many of a device's units that is.
    #[inline]
    pub fn of(self, total: u32) -> u32 {
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

/// Which devices will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Wishes {
    /// The model's name must contain one of these, in any case.
    pub models: Vec<Name>,
    /// The model's name must contain none of these.
    pub not_models: Vec<Name>,
    /// The UUID must be one of these.
    pub uuids: Vec<Name>,
    /// The UUID must be none of these.
    pub not_uuids: Vec<Name>,
    /// The ordinal on its node must be one of these.
    #[serde(default)]
    pub ordinals: Vec<u16>,
    /// The isolation modes that will do, where any were named.
    pub modes: Vec<Name>,
    /// All devices of this need must hang on one NUMA node.
    pub one_numa: bool,
    /// Nobody else may be on the device.
    pub alone: bool,
    /// The best linked devices are wanted.
    pub linked: bool,
}

impl Wishes {
    /// Whether any device of the kind will do, as far as its own facts go.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
            && self.not_models.is_empty()
            && self.uuids.is_empty()
            && self.not_uuids.is_empty()
            && self.ordinals.is_empty()
            && self.modes.is_empty()
    }

    /// Whether devices are named one by one, so that no two are alike.
    pub(crate) fn names_devices(&self) -> bool {
        !(self.uuids.is_empty() && self.not_uuids.is_empty() && self.ordinals.is_empty())
    }
}

/// What is asked of the node besides devices, already as the peak over the containers' lives.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct NodeNeed {
    /// Processor time.
    pub cpu: MilliCpu,
    /// Main memory.
    pub memory: Bytes,
    /// Places among the node's pods.
    pub pods: u32,
}

/// How the asker would like candidates ordered; `None` leaves it to the policy.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Leaning {
    /// Among nodes.
    pub nodes: Option<Order>,
    /// Among the devices of a node.
    pub devices: Option<Order>,
    /// What fullness means.
    pub weights: Option<Weights>,
}

/// Whether the fuller or the emptier candidate is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Fill what is begun, keep large gaps open.
    Pack,
    /// Use the emptiest, keep load even.
    Spread,
}

/// How much each dimension counts in a device's fullness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weights {
    /// Slots in use.
    pub slots: u32,
    /// Compute in use.
    pub cores: u32,
    /// Memory in use.
    pub memory: u32,
}

/// On which terms a place is held, and what may be done to get one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Terms {
    /// Higher goes first, and may take from lower.
    pub priority: i32,
    /// Whether it waits for a place, and again after a start that failed. One who only asks does not.
    pub waits: bool,
    /// When it gives up waiting.
    pub deadline: Option<Millis>,
    /// Never to be evicted.
    pub pinned: bool,
    /// Whether this is work that nobody waits for yet: it never evicts, never overtakes, and goes first.
    pub speculative: bool,
    /// What may be taken from others to make room.
    pub eviction: Eviction,
    /// Holders of the same model are never victims of each other.
    pub model: Option<Name>,
    /// Milliseconds without activity after which it may be evicted; `None` is never by idleness.
    pub idle_limit: Option<u64>,
    /// What it costs to bring it back, in milliseconds.
    pub reload_cost: u64,
}

/// What may be taken from others to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Eviction {
    /// Nothing.
    #[default]
    Never,
    /// Places of holders that have been idle past their limit.
    Idle,
    /// Those, and places of holders with a lower priority even while they are active.
    LowerPriority,
}
