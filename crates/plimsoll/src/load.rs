//! Reads a live cluster or files, and translates them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use plimsoll_cluster::Access;
use plimsoll_core::units::Name;
use plimsoll_kube::cluster::{Cluster, NodeFacts, Reading};
use plimsoll_kube::read::Object;

use crate::input::{self, Material};
use crate::live;
use crate::output::Verbosity;

/// A cluster, and the files that its nodes were read from.
pub(crate) struct Loaded {
    pub(crate) cluster: Cluster,
    files: BTreeMap<Name, String>,
    first: Option<String>,
    /// The namespace of a live cluster's context.
    pub(crate) namespace: Option<String>,
}

/// The objects to read.
pub(crate) struct Inputs<'a> {
    pub(crate) files: &'a [PathBuf],
    /// A live cluster. Its objects come before those of files, which are added to it.
    pub(crate) cluster: Option<&'a Access>,
}

impl Loaded {
    /// Returns the file that a node was read from, or the first file; `None` for standard input.
    pub(crate) fn file_of(&self, node: Option<&Name>) -> Option<&str> {
        let file = node.and_then(|node| self.files.get(node)).or(self.first.as_ref())?;
        (file != input::STDIN && file != live::SOURCE).then_some(file)
    }
}

/// Reads a cluster or files, and translates them. A cluster without any device is an error.
pub(crate) fn load(inputs: &Inputs<'_>, reading: &Reading, verbosity: Verbosity) -> Result<Loaded> {
    let mut material = Material::default();
    let mut namespace = None;
    if let Some(access) = inputs.cluster {
        let live = live::read(access, verbosity)?;
        (material.objects, namespace) = (live.objects, Some(live.namespace));
    }
    if !inputs.files.is_empty() {
        let read = input::read(inputs.files, verbosity)?;
        material.objects.extend(read.objects);
        material.ignored = read.ignored;
    }
    let first = material.objects.first().map(|(origin, _)| origin.source.to_string());
    let mut files = BTreeMap::new();
    for (origin, object) in &material.objects {
        if let Object::Node(node) = object {
            files.insert(Name::from(&*node.metadata.name), origin.source.to_string());
        }
    }
    let cluster = plimsoll_kube::translate::cluster(material.objects, material.ignored, reading);
    check_devices(&cluster)?;
    Ok(Loaded { cluster, files, first, namespace })
}

/// Checks that there is a device, or a node whose devices are unknown.
fn check_devices(cluster: &Cluster) -> Result<()> {
    const LOOKED_FOR: &str = "Devices are recognized by the node annotation plimsoll.dev/devices; HAMi's register annotations \
        (hami.io/node-nvidia-register and those of other vendors); NVIDIA's labels nvidia.com/gpu.count, \
        nvidia.com/gpu.memory and nvidia.com/mig-*; and device resources in status.capacity";
    if cluster.nodes.is_empty() {
        bail!("there is no Node in the input; add the output of kubectl get nodes -o json");
    }
    if cluster.nodes.iter().any(has_devices) {
        return Ok(());
    }
    match cluster.nodes.len() {
        1 => bail!("the node has no device. {LOOKED_FOR}"),
        nodes => bail!("none of the {nodes} nodes has a device. {LOOKED_FOR}"),
    }
}

fn has_devices(facts: &NodeFacts) -> bool {
    !facts.node.devices.is_empty() || facts.node.unknown.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_sim::fixture;

    #[test]
    fn a_cluster_without_devices_is_an_error_that_names_their_sources() {
        let mut cluster = fixture::time_sliced(1);
        assert!(check_devices(&cluster).is_ok());
        cluster.nodes[0].node.devices.clear();
        let error = check_devices(&cluster).expect_err("nothing is left").to_string();
        assert!(
            error.contains("plimsoll.dev/devices") && error.contains("nvidia.com/gpu.memory"),
            "{error}"
        );
        cluster.nodes.clear();
        assert!(
            check_devices(&cluster).expect_err("no node").to_string().contains("there is no Node")
        );
    }
}
