//! How a request that cannot be understood names the field and the value at fault.

use plimsoll_core::request::Misuse;
use plimsoll_core::units::Name;

use crate::object::Container;

/// A misuse of these fields. The problem is what people are shown, so that it names them too.
pub(super) fn misuse<F: Into<Name>>(
    fields: impl IntoIterator<Item = F>,
    problem: impl Into<Name>,
) -> Misuse {
    Misuse { fields: fields.into_iter().map(Into::into).collect(), problem: problem.into() }
}

/// A misuse of one field, which the problem is said of.
pub(super) fn misuse_of(field: &str, problem: impl std::fmt::Display) -> Misuse {
    misuse([field], format!("{field}: {problem}"))
}

/// The path of an annotation.
pub(super) fn annotation(key: &str) -> String {
    format!("metadata.annotations[\"{key}\"]")
}

/// The path of a container's resource, where it is written: among the limits, else among the requests.
pub(super) fn resource(container: &Container, name: &str) -> String {
    let list = if container.resources.limits.contains_key(name) { "limits" } else { "requests" };
    listed(container, list, name)
}

/// The path of a container's resource in one of its lists.
pub(super) fn listed(container: &Container, list: &str, name: &str) -> String {
    format!("container \"{}\": resources.{list}[\"{name}\"]", container.name)
}
