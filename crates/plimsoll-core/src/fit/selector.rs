//! The checks of a device against the need's selector: model, mode, UUID and ordinal.

use crate::device::{Device, Identity};
use crate::reason::Reason;
use crate::request::DeviceSelector;
use crate::units::Name;

/// Creates the reason for a device of another type than the need accepts.
pub(super) fn mismatch(wanted: &str, is: &str) -> Reason {
    Reason::TypeMismatch { wanted: wanted.into(), is: is.into() }
}

/// Checks the facts of one device. Rules between several devices (`one_numa`, `linked`) and rules
/// on tenants (`alone`) are not checked here.
pub(super) fn fit_selector(
    device: &Device,
    ordinal: usize,
    selector: &DeviceSelector,
) -> Result<(), Reason> {
    let model = device.model.as_deref().unwrap_or(&device.kind);
    if !selector.models.is_empty()
        && !selector.models.iter().any(|wanted| contains_ignoring_case(model, wanted))
    {
        return Err(mismatch(&selector.models.join(" or "), model));
    }
    let mut excluded = selector.not_models.iter();
    if let Some(excluded) = excluded.find(|excluded| contains_ignoring_case(model, excluded)) {
        return Err(mismatch(&format!("something other than {excluded}"), model));
    }
    if !selector.modes.is_empty()
        && !device.mode.as_ref().is_some_and(|mode| selector.modes.contains(mode))
    {
        let wanted = selector.modes.join(" or ").into();
        return Err(Reason::ModeMismatch { wanted, is: device.mode.clone() });
    }
    if (!selector.uuids.is_empty() && !has_uuid(device, &selector.uuids))
        || has_uuid(device, &selector.not_uuids)
    {
        return Err(Reason::UuidMismatch);
    }
    if !selector.ordinals.is_empty()
        && !selector.ordinals.iter().any(|wanted| usize::from(*wanted) == ordinal)
    {
        return Err(Reason::IndexMismatch);
    }
    Ok(())
}

fn has_uuid(device: &Device, uuids: &[Name]) -> bool {
    match &device.identity {
        Identity::Uuid(uuid) => uuids.contains(uuid),
        Identity::Ordinal => false,
    }
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}
