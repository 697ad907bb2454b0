//! Invalid requests, with the fields at fault.

use plimsoll_core::request::Misuse;
use plimsoll_core::units::Name;

use crate::object::Container;

/// Creates a misuse of these fields. `problem` is shown to users, so it names them too.
pub(super) fn misuse<F: Into<Name>>(
    fields: impl IntoIterator<Item = F>,
    problem: impl Into<Name>,
) -> Misuse {
    Misuse { fields: fields.into_iter().map(Into::into).collect(), problem: problem.into() }
}

/// Creates a misuse of one field; the message begins with it.
pub(super) fn misuse_of(field: &str, problem: impl std::fmt::Display) -> Misuse {
    misuse([field], format!("{field}: {problem}"))
}

/// Returns the path of an annotation.
pub(super) fn annotation(key: &str) -> String {
    format!("metadata.annotations[\"{key}\"]")
}

/// Returns the path of a container's resource: in the limits if it is there, else in the requests.
pub(super) fn resource(container: &Container, name: &str) -> String {
    let list = if container.resources.limits.contains_key(name) { "limits" } else { "requests" };
    listed(container, list, name)
}

/// Returns the path of a container's resource in one of its lists.
pub(super) fn listed(container: &Container, list: &str, name: &str) -> String {
    format!("container \"{}\": resources.{list}[\"{name}\"]", container.name)
}
