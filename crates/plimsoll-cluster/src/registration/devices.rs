//! An expression about pods, in the language of admission (CEL).

use plimsoll_kube::kai;

/// Returns an expression that is true if a pod could need devices: it asks for a resource of a
/// vendor, for memory of a GPU by annotation, or for a claim. A superset of what the guard checks:
/// it only has to leave out the pods that need no device.
pub(super) fn may_need_devices(pod: &str) -> String {
    let annotations = [kai::GPU_MEMORY, kai::GPU_FRACTION].map(|key| format!("'{key}'")).join(", ");
    let containers = |list: &str| {
        let amounts = |of: &str| {
            format!("(has(c.resources.{of}) && c.resources.{of}.exists(r, r.contains('/')))")
        };
        let (limits, requests) = (amounts("limits"), amounts("requests"));
        format!("{pod}.spec.{list}.exists(c, has(c.resources) && ({limits} || {requests}))")
    };
    let (main, init) = (containers("containers"), containers("initContainers"));
    format!(
        "(has({pod}.metadata.annotations) && {pod}.metadata.annotations.exists(k, k in [{annotations}])) \
         || (has({pod}.spec.resourceClaims) && {pod}.spec.resourceClaims.size() > 0) \
         || {main} || (has({pod}.spec.initContainers) && {init})"
    )
}
