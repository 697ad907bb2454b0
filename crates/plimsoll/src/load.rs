//! From files to a cluster: read, then translated, or an error that says what was looked for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::PlainRule;
use plimsoll_core::units::Name;
use plimsoll_kube::cluster::{Cluster, Reading};
use plimsoll_kube::finding::Finding;
use plimsoll_kube::read::Object;

use crate::input;

/// A cluster, and where its nodes come from.
pub(crate) struct Loaded {
    /// The cluster.
    pub(crate) cluster: Cluster,
    files: BTreeMap<Name, String>,
    first: Option<String>,
}

impl Loaded {
    /// The file that a node was read from, or the first file; `None` for standard input.
    pub(crate) fn file_of(&self, node: Option<&Name>) -> Option<&str> {
        let file = node.and_then(|node| self.files.get(node)).or(self.first.as_ref())?;
        (file != input::STDIN).then_some(file)
    }
}

/// Reads and translates. A cluster without any device is an error.
pub(crate) fn load(
    files: &[PathBuf],
    plain: PlainRule,
    node_pool_key: &str,
    quiet: bool,
) -> Result<Loaded> {
    let material = input::read(files, quiet)?;
    let first = material.objects.first().map(|(origin, _)| origin.source.to_string());
    let mut files = BTreeMap::new();
    for (origin, object) in &material.objects {
        if let Object::Node(node) = object {
            files.insert(Name::from(&*node.metadata.name), origin.source.to_string());
        }
    }
    let reading = Reading { plain, node_pool_key: node_pool_key.into() };
    let cluster = plimsoll_kube::translate::cluster(material.objects, material.ignored, &reading);
    recognised(&cluster)?;
    Ok(Loaded { cluster, files, first })
}

/// What is wrong with it.
pub(crate) fn audit(cluster: &Cluster, ledger: &Ledger) -> Vec<Finding> {
    plimsoll_kube::audit::audit(cluster, ledger)
}

/// That there is a device, or a node whose devices cannot be made out: that is a finding and not nothing.
fn recognised(cluster: &Cluster) -> Result<()> {
    const LOOKED_FOR: &str = "Looked for, on every node: the annotation plimsoll.dev/devices; HAMi's register annotations \
        (hami.io/node-nvidia-register and those of other vendors); NVIDIA's labels nvidia.com/gpu.count, \
        nvidia.com/gpu.memory and nvidia.com/mig-*; and device resources in status.capacity";
    if cluster.nodes.is_empty() {
        bail!(
            "there is no Node in what was read, so there are no devices; add the output of kubectl get nodes -o json"
        );
    }
    let recognised = |facts: &plimsoll_kube::cluster::NodeFacts| {
        !facts.node.devices.is_empty() || facts.node.unknown.is_some()
    };
    if !cluster.nodes.iter().any(recognised) {
        let nodes = cluster.nodes.len();
        let nodes = if nodes == 1 {
            "the only node".to_string()
        } else {
            format!("any of the {nodes} nodes")
        };
        bail!("no device was recognised on {nodes}. {LOOKED_FOR}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_sim::fixture;

    #[test]
    fn no_device_at_all_is_an_error_that_says_what_was_looked_for() {
        let mut cluster = fixture::time_sliced(1);
        assert!(recognised(&cluster).is_ok());
        cluster.nodes[0].node.devices.clear();
        let error = recognised(&cluster).expect_err("nothing is left").to_string();
        assert!(
            error.contains("plimsoll.dev/devices") && error.contains("nvidia.com/gpu.memory"),
            "{error}"
        );
        cluster.nodes.clear();
        assert!(
            recognised(&cluster).expect_err("no node").to_string().contains("there is no Node")
        );
    }
}
