//! GPU shares that a pod requests by KAI's annotations.

use std::num::NonZeroU16;

use plimsoll_core::request::{Amount, Container, DeviceSelector, Misuse, Need, Role};
use plimsoll_core::units::{Bytes, Portion};

use crate::kai::{self, KaiError, Share, ShareRequest};
use crate::object::Pod;
use crate::quantity::quoted;

use super::super::misuse::{annotation, misuse, misuse_of, resource};
use super::in_start_order;
use super::needs::{MIG_PREFIX, asks_devices};

/// The part of a model's name that marks a MIG instance.
const MIG_MODEL: &str = "-MIG-";

/// Adds the requested share to the needs of the containers. A share alone uses no token of the
/// device plugin; with `nvidia.com/gpu: n` it is that share of n cards, and uses n tokens.
pub(super) fn add(pod: &Pod, containers: &mut [Container]) -> Result<(), Misuse> {
    let Some(ask) =
        ShareRequest::read(&pod.metadata.annotations).map_err(|error| unreadable(&error))?
    else {
        return Ok(());
    };
    let tokens = take_tokens(pod, &ask, containers)?;
    let share = need(pod, &ask)?;
    let need = match &tokens {
        None => share,
        Some((_, tokens)) => Need { count: tokens.count, slots: 1, ..share },
    };
    match tokens {
        Some((position, _)) => containers[position].needs.push(need),
        None => chosen(&ask, containers)?.needs.push(need),
    }
    Ok(())
}

/// Takes the plugin's tokens out of the needs of the container that gets the share. The tokens say
/// on how many cards the share is.
fn take_tokens(
    pod: &Pod,
    ask: &ShareRequest,
    containers: &mut [Container],
) -> Result<Option<(usize, Need)>, Misuse> {
    let is_token = |need: &Need| &*need.kind == "NVIDIA" && matches!(need.amount, Amount::Plain(_));
    let holders: Vec<usize> = (0..containers.len())
        .filter(|position| containers[*position].needs.iter().any(is_token))
        .collect();
    let gets_share = |position: usize| {
        ask.container.as_ref().is_none_or(|name| *containers[position].name == **name)
    };
    let taken = match holders[..] {
        [position] if gets_share(position) => {
            let needs = &mut containers[position].needs;
            let token = needs.iter().position(is_token).map(|at| needs.remove(at));
            token.map(|token| (position, token))
        }
        _ => None,
    };
    not_both(pod, containers)?;
    if let Some((position, token)) = &taken {
        same_number(pod, ask, *position, token)?;
    }
    Ok(taken)
}

/// Rejects a number of devices in an annotation that differs from the number of tokens.
fn same_number(pod: &Pod, ask: &ShareRequest, position: usize, token: &Need) -> Result<(), Misuse> {
    let tokens = u32::from(token.count.get());
    let is_said = pod.metadata.annotations.contains_key(kai::NUM_DEVICES);
    let Some((_, container)) = in_start_order(&pod.spec).nth(position) else { return Ok(()) };
    if !is_said || ask.devices == tokens {
        return Ok(());
    }
    let field = resource(container, "nvidia.com/gpu");
    let problem = format!(
        "annotation {} is {}, and {field} is {tokens}; both say on how many GPUs the share is, so \
         they must be equal",
        kai::NUM_DEVICES,
        ask.devices
    );
    Err(misuse([annotation(kai::NUM_DEVICES), field], problem))
}

fn unreadable(error: &KaiError) -> Misuse {
    let keys: &[&str] = match error {
        KaiError::Memory(_) | KaiError::NoMemory => &[kai::GPU_MEMORY],
        KaiError::Fraction { .. } => &[kai::GPU_FRACTION],
        KaiError::Both { .. } => &[kai::GPU_MEMORY, kai::GPU_FRACTION],
        KaiError::Devices { .. } => &[kai::NUM_DEVICES],
        KaiError::NoShare { key } => &[key],
    };
    misuse(keys.iter().map(|key| annotation(key)), error.to_string())
}

/// Returns the annotation of the share, with its value.
fn asking(pod: &Pod) -> (&'static str, String) {
    let annotations = &pod.metadata.annotations;
    let key =
        if annotations.contains_key(kai::GPU_MEMORY) { kai::GPU_MEMORY } else { kai::GPU_FRACTION };
    (key, quoted(annotations.get(key).unwrap_or_default()))
}

/// Rejects a share together with devices of the plugin: it would be open which card the share is
/// of.
fn not_both(pod: &Pod, containers: &[Container]) -> Result<(), Misuse> {
    let whole = |need: &Need| &*need.kind == "NVIDIA" || need.kind.starts_with(MIG_PREFIX);
    let Some(position) = containers.iter().position(|container| container.needs.iter().any(whole))
    else {
        return Ok(());
    };
    let Some((_, container)) = in_start_order(&pod.spec).nth(position) else {
        return Ok(());
    };
    let resources = [&container.resources.limits, &container.resources.requests];
    let listed = resources.into_iter().flat_map(|list| list.iter().map(|(name, _)| name));
    let name =
        listed.filter(|name| name.starts_with("nvidia.com/")).find(|name| asks_devices(name));
    let field = resource(container, name.unwrap_or("nvidia.com/gpu"));
    let (key, value) = asking(pod);
    let problem = format!(
        "annotation {key} (\"{value}\") asks for a share of a GPU, and {field} for devices; say one of them"
    );
    Err(misuse([annotation(key), field], problem))
}

fn need(pod: &Pod, ask: &ShareRequest) -> Result<Need, Misuse> {
    let count = u16::try_from(ask.devices).ok().and_then(NonZeroU16::new);
    let count = count.ok_or_else(|| {
        misuse_of(
            &annotation(kai::NUM_DEVICES),
            format_args!("\"{}\" is more than any node has", ask.devices),
        )
    })?;
    let amount = match ask.share {
        Share::Mib(mib) => Bytes::from_mib(mib).map(Amount::bytes),
        Share::Fraction(part) => {
            Portion::new(part.numerator, part.denominator).map(Amount::Portion)
        }
    };
    let amount = amount.ok_or_else(|| {
        let (key, value) = asking(pod);
        misuse_of(&annotation(key), format_args!("\"{value}\" is more than any GPU has"))
    })?;
    // KAI shares whole cards only. Under the MIG strategy `single` an instance looks like a card,
    // except for its model.
    let selector =
        DeviceSelector { not_models: vec![MIG_MODEL.into()], ..DeviceSelector::default() };
    Ok(Need { count, slots: 0, selector, ..Need::one("NVIDIA", amount) })
}

/// Finds the container that gets the share: the named one, else the first app container.
fn chosen<'a>(
    ask: &ShareRequest,
    containers: &'a mut [Container],
) -> Result<&'a mut Container, Misuse> {
    let position = match &ask.container {
        Some(name) => containers.iter().position(|container| *container.name == **name),
        None => containers.iter().position(|container| container.role == Role::App),
    };
    if let Some(position) = position {
        return Ok(&mut containers[position]);
    }
    let names: Vec<&str> = containers.iter().map(|container| &*container.name).collect();
    Err(match &ask.container {
        Some(name) => misuse_of(
            &annotation(kai::CONTAINER_NAME),
            format_args!(
                "the pod has no container \"{}\"; it has {}",
                quoted(name),
                names.join(", ")
            ),
        ),
        None => misuse_of("spec.containers", "the pod has no container that could use a GPU"),
    })
}
