//! Whether a device is one that the request wants.

use crate::device::{Device, Identity};
use crate::reason::Reason;
use crate::request::Wishes;
use crate::units::Name;

/// What is said of a device that is of another type than the request wants.
pub(super) fn mismatch(wanted: &str, is: &str) -> Reason {
    Reason::TypeMismatch { wanted: wanted.into(), is: is.into() }
}

/// Whether the device's model, mode, UUID and ordinal are as wished.
pub(super) fn fit_wishes(device: &Device, ordinal: usize, wishes: &Wishes) -> Result<(), Reason> {
    let model = device.model.as_deref().unwrap_or(&device.kind);
    if !wishes.models.is_empty()
        && !wishes.models.iter().any(|wish| contains_in_any_case(model, wish))
    {
        return Err(mismatch(&wishes.models.join(" or "), model));
    }
    if let Some(unwanted) = wishes.not_models.iter().find(|wish| contains_in_any_case(model, wish))
    {
        return Err(mismatch(&format!("something other than {unwanted}"), model));
    }
    if let Some(mode) = device.mode.as_ref().filter(|_| !wishes.modes.is_empty())
        && !wishes.modes.contains(mode)
    {
        return Err(mismatch(
            &format!("mode {}", wishes.modes.join(" or ")),
            &format!("in mode {mode}"),
        ));
    }
    let called = |names: &[Name]| match &device.identity {
        Identity::Uuid(uuid) => names.contains(uuid),
        Identity::Ordinal => false,
    };
    if (!wishes.uuids.is_empty() && !called(&wishes.uuids)) || called(&wishes.not_uuids) {
        return Err(Reason::UuidMismatch);
    }
    if !wishes.ordinals.is_empty()
        && !wishes.ordinals.iter().any(|wish| usize::from(*wish) == ordinal)
    {
        return Err(Reason::IndexMismatch);
    }
    Ok(())
}

fn contains_in_any_case(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}
