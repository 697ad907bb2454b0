//! MIG instances that are advertised under their profiles, and the whole cards beside them.
//!
//! Under the strategy `mixed` feature discovery counts all cards of the node, including those that
//! are cut into instances; only the advertised resources tell how many are whole. Under `single` an
//! instance is labelled as if it were a card.

use std::collections::BTreeSet;

use plimsoll_core::device::Strategy;

use crate::finding::{CountProblem, LabelProblem, PluginProblem};
use crate::labels::{FeatureLabels, Field, MigLabels};
use crate::object::{self, NodeStatus};

use super::NodeDevices;
use super::advertised::{self, Advertised};
use super::discovered::{GPU, Group, SHARED_PRODUCT};
use super::notes::Notes;
use super::tokens::CountFacts;

/// The prefix before the profile in a resource name. The resource name is the kind of these
/// devices.
pub(super) const RESOURCE_PREFIX: &str = "nvidia.com/mig-";

/// The suffix of a shared resource, where the device plugin is configured to rename it.
const RENAMED: &str = ".shared";

/// Lists the node's resources of MIG instances.
pub(super) fn resources(status: &NodeStatus) -> BTreeSet<&str> {
    let names = status.capacity.iter().chain(status.allocatable.iter()).map(|(name, _)| name);
    names.filter(|name| name.starts_with(RESOURCE_PREFIX)).collect()
}

/// Lists the profiles that labels or the device plugin name.
pub(super) fn profiles(labels: &FeatureLabels, status: &NodeStatus) -> BTreeSet<String> {
    let advertised =
        resources(status).into_iter().filter_map(|name| name.strip_prefix(RESOURCE_PREFIX));
    let profiles =
        advertised.map(|profile| profile.strip_suffix(RENAMED).unwrap_or(profile).to_owned());
    profiles.chain(labels.mig.keys().cloned()).collect()
}

/// Removes profiles that only a stale resource names.
pub(super) fn drop_stale(
    profiles: &mut BTreeSet<String>,
    labels: &FeatureLabels,
    status: &NodeStatus,
    notes: &mut Notes,
) {
    profiles.retain(|profile| {
        let stale = stale_capacity(profile, labels, status);
        if let Some(capacity) = stale {
            let resource = format!("{RESOURCE_PREFIX}{profile}").into();
            notes.add(PluginProblem::StaleMig { resource, capacity });
        }
        stale.is_none()
    });
}

/// Returns the capacity of a stale resource: nothing of it can be allocated, and no label describes
/// it, as after the cards were partitioned again.
fn stale_capacity(profile: &str, labels: &FeatureLabels, status: &NodeStatus) -> Option<u64> {
    let resource = format!("{RESOURCE_PREFIX}{profile}");
    match advertised::sum(status, &[&resource, &format!("{resource}{RENAMED}")]) {
        Ok(Advertised { capacity: Some(capacity @ 1..), allocatable: Some(0) }) => {
            (!labels.mig.contains_key(profile)).then_some(capacity)
        }
        _ => None,
    }
}

/// Sums the capacity of stale resources.
pub(super) fn all_stale(node: &object::Node) -> u64 {
    if resources(&node.status).is_empty() {
        return 0;
    }
    let labels = FeatureLabels::read(&node.metadata.labels);
    let profiles = profiles(&labels, &node.status);
    profiles.iter().filter_map(|profile| stale_capacity(profile, &labels, &node.status)).sum()
}

/// Reads the instances of one profile.
pub(super) fn instances(
    node: &object::Node,
    labels: &FeatureLabels,
    profile: &str,
    notes: &mut Notes,
) -> NodeDevices {
    let resource = format!("{RESOURCE_PREFIX}{profile}");
    let nothing = MigLabels::default();
    let said = labels.mig.get(profile).unwrap_or(&nothing);
    let advertised =
        match advertised::sum(&node.status, &[&resource, &format!("{resource}{RENAMED}")]) {
            Ok(advertised) => advertised,
            Err(amount) => {
                notes.add(LabelProblem::DeviceCountUnreadable(amount));
                return NodeDevices::default();
            }
        };
    let described = said.memory_mib.is_some();
    let facts = CountFacts {
        resource: &resource,
        count: &said.count,
        replicas: &said.replicas,
        described,
        advertised,
    };
    let Some(counted) = facts.count(notes) else { return NodeDevices::default() };
    let of = |property: &str| node.metadata.labels.get(&format!("{resource}.{property}"));
    let product = of("product").map(str::to_owned);
    let product = product.or_else(|| named_after_card(labels.product.as_deref()?, profile));
    let group = Group {
        resource: &resource,
        kind: &resource,
        memory: &said.memory_mib,
        product: product.as_deref(),
        strategy: match of("sharing-strategy") {
            Some("mps") => Strategy::Mps,
            _ => Strategy::TimeSlicing,
        },
    };
    group.shown(counted, notes)
}

/// Names an instance as feature discovery does, by the model of its card. The suffix that tells how
/// whole cards are shared does not hold for instances.
fn named_after_card(product: &str, profile: &str) -> Option<String> {
    let card = product.strip_suffix(SHARED_PRODUCT).unwrap_or(product);
    (!card.is_empty()).then(|| format!("{card}-MIG-{profile}"))
}

/// Determines the number of cards that are not cut: the labelled ones, or beside instances the
/// advertised ones. `None` if unknown, which is reported.
pub(super) fn whole_cards(
    labels: &FeatureLabels,
    advertised: Advertised,
    profiles: &BTreeSet<String>,
    status: &NodeStatus,
    notes: &mut Notes,
) -> Option<Field<u64>> {
    if profiles.is_empty() {
        return Some(labels.count.clone());
    }
    let replicas = match labels.replicas {
        Some(Ok(replicas)) => replicas,
        Some(Err(_)) | None => u64::from(advertised.capacity.unwrap_or(0) > 0),
    };
    // If instances are advertised, a plugin runs; all cards that it does not advertise are cut.
    let advertised = advertised.capacity.or_else(|| (!resources(status).is_empty()).then_some(0));
    let cards = match (advertised, replicas) {
        (Some(0) | None, 0) => Some(0),
        (Some(advertised), 1..) if advertised.is_multiple_of(replicas) => {
            Some(advertised / replicas)
        }
        _ => None,
    };
    let at_most = match labels.count {
        Some(Ok(count)) => count,
        // Without a count the labels set no upper limit. The missing label is reported where the
        // cards are counted.
        Some(Err(_)) | None => {
            return Some(if cards == Some(0) { None } else { labels.count.clone() });
        }
    };
    let cards = cards.filter(|cards| *cards <= at_most);
    if cards.is_none() {
        let (resource, count) = (GPU.into(), at_most);
        notes.add(CountProblem::WholeCards { resource, count, replicas, advertised });
    }
    cards.map(|cards| Some(Ok(cards)))
}
