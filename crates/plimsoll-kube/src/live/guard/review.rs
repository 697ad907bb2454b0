//! Questions of the API server to the guard, and the answers.

use std::collections::BTreeMap;

use plimsoll_core::units::Name;

use crate::object::Pod;

/// A binding that is about to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingReview {
    pub namespace: Name,
    pub pod: Name,
    /// The uid that the binding names, if it names one.
    pub pod_uid: Option<Name>,
    pub node: Name,
    /// The version of the pod that the binding names, if it names one.
    pub resource_version: Option<String>,
    pub run: Run,
}

/// The kind of a request: to be written, or only to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Real,
    /// A dry run is answered as a real one would be, and books nothing.
    Dry,
}

/// The answer to a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingVerdict {
    /// The pod needs no device, or its namespace is not guarded: the binding passes as it is.
    Ignored,
    /// It fits, and is charged. The binding must carry what the admission says.
    Admitted(Admission),
    /// Its namespace is only warned: the binding passes as it is.
    Warned { message: String },
    /// It would overcommit a device.
    Rejected { message: String },
    /// It cannot be decided now. The caller retries.
    Unavailable { message: String },
}

/// Preconditions and annotations that an admitted binding must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The precondition on the pod's uid.
    pub uid: Name,
    /// The precondition on the pod's version; `None` where the namespace is only warned.
    pub resource_version: Option<String>,
    /// Written on the pod together with its node.
    pub annotations: BTreeMap<String, String>,
}

/// A pod that is about to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreationReview {
    pub namespace: Name,
    /// As submitted: it may lack name and uid.
    pub pod: Box<Pod>,
    pub run: Run,
}

/// The answer to a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreationVerdict {
    /// The pod may be created. The caller shows the warnings to the user.
    Allowed { annotations: BTreeMap<String, String>, warnings: Vec<String> },
    /// It names a node, and would overcommit a device there.
    Rejected { message: String },
    /// It names a node, and cannot be decided now. The caller retries.
    Unavailable { message: String },
}

impl CreationVerdict {
    /// Returns the answer to a pod that may be created as it is.
    pub(super) fn unchanged(warnings: Vec<String>) -> CreationVerdict {
        CreationVerdict::Allowed { annotations: BTreeMap::new(), warnings }
    }
}
