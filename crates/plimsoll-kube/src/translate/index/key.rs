//! The keys of pods, and the order in which they are seated.

use plimsoll_core::request::RequestId;
use plimsoll_core::units::Name;

use crate::object::Metadata;

/// The namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::translate) struct PodKey {
    pub(in crate::translate) namespace: Name,
    pub(in crate::translate) name: Name,
}

impl PodKey {
    pub(in crate::translate) fn new(metadata: &Metadata) -> PodKey {
        let (namespace, name) = (metadata.namespace_or_default(), metadata.name.as_str());
        PodKey { namespace: namespace.into(), name: name.into() }
    }

    pub(in crate::translate) fn from_request(id: &RequestId) -> PodKey {
        PodKey { namespace: id.account.clone(), name: id.name.clone() }
    }
}

/// The rank of a pod among others: by creation, then by name. Pods that do not exist yet come last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::translate) struct Rank {
    pub(in crate::translate) created: Created,
    pub(in crate::translate) key: PodKey,
}

/// The time of creation, as the API server writes it, which sorts as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::translate) enum Created {
    At(Name),
    NotYet,
}

impl Rank {
    pub(in crate::translate) fn new(metadata: &Metadata) -> Rank {
        let created = metadata.creation_timestamp.as_deref();
        let created = created.map_or(Created::NotYet, |time| Created::At(time.into()));
        Rank { created, key: PodKey::new(metadata) }
    }
}
