//! The number of cards of a cloud machine: by the provider's labels, or by the instance type.
//!
//! A device plugin that shares cards advertises each of them several times. Without feature
//! discovery only the provider tells how many cards there are.

use crate::object::StringMap;

const GKE_COUNT: &str = "cloud.google.com/gke-accelerator-count";
const GKE_CLIENTS: &str = "cloud.google.com/gke-max-shared-clients-per-gpu";
const GKE_PARTITION: &str = "cloud.google.com/gke-gpu-partition-size";
const KARPENTER_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const OLD_INSTANCE_TYPE: &str = "beta.kubernetes.io/instance-type";

/// The cards of a machine, as its provider describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CloudCards {
    pub(super) cards: u64,
    pub(super) tokens_per_card: u64,
}

/// Returns the cards of a machine that advertises this many devices; `None` if no label explains
/// that number.
pub(super) fn cards(labels: &StringMap, advertised: u64) -> Option<CloudCards> {
    let number = |key: &str| labels.get(key).and_then(|text| text.parse::<u64>().ok());
    let clients = number(GKE_CLIENTS).unwrap_or(1).max(1);
    if labels.contains_key(GKE_PARTITION) {
        // A partition is a MIG instance. All instances of the machine have one size.
        let explained = advertised.is_multiple_of(clients);
        return explained
            .then_some(CloudCards { cards: advertised / clients, tokens_per_card: clients });
    }
    let typed = || {
        let instance_type = labels.get(INSTANCE_TYPE).or_else(|| labels.get(OLD_INSTANCE_TYPE))?;
        by_instance_type(instance_type)
    };
    let cards = number(GKE_COUNT).or_else(|| number(KARPENTER_COUNT)).or_else(typed)?;
    let tokens_per_card = if cards == 1 { advertised } else { clients };
    (cards > 0 && cards.checked_mul(tokens_per_card) == Some(advertised))
        .then_some(CloudCards { cards, tokens_per_card })
}

/// Returns the number of whole GPUs of an instance type.
fn by_instance_type(name: &str) -> Option<u64> {
    let known = INSTANCE_TYPES.iter().find(|(_, names)| names.contains(&name));
    known.map(|(cards, _)| *cards)
}

/// Instance types of AWS, Azure and Google Cloud with several NVIDIA GPUs. One with a single GPU
/// needs no entry unless its plugin shares it.
const INSTANCE_TYPES: &[(u64, &[&str])] = &[
    (
        1,
        &[
            "g4dn.xlarge",
            "g4dn.2xlarge",
            "g4dn.4xlarge",
            "g4dn.8xlarge",
            "g4dn.16xlarge",
            "g5.xlarge",
            "g5.2xlarge",
            "g5.4xlarge",
            "g5.8xlarge",
            "g5.16xlarge",
            "g6.xlarge",
            "g6.2xlarge",
            "g6.4xlarge",
            "g6.8xlarge",
            "g6.16xlarge",
            "g6e.xlarge",
            "g6e.2xlarge",
            "g6e.4xlarge",
            "g6e.8xlarge",
            "g6e.16xlarge",
            "p2.xlarge",
            "p3.2xlarge",
            "p5.4xlarge",
            "Standard_NC6s_v3",
            "Standard_NC4as_T4_v3",
            "Standard_NC8as_T4_v3",
            "Standard_NC16as_T4_v3",
            "Standard_NC24ads_A100_v4",
            "Standard_NC40ads_H100_v5",
            "Standard_NV36ads_A10_v5",
            "a2-highgpu-1g",
            "a2-ultragpu-1g",
            "a3-highgpu-1g",
            "g2-standard-4",
            "g2-standard-8",
            "g2-standard-12",
            "g2-standard-16",
            "g2-standard-32",
        ],
    ),
    (
        2,
        &[
            "Standard_NC12s_v3",
            "Standard_NC48ads_A100_v4",
            "Standard_NC80adis_H100_v5",
            "Standard_NV72ads_A10_v5",
            "a2-highgpu-2g",
            "a2-ultragpu-2g",
            "a3-highgpu-2g",
            "g2-standard-24",
        ],
    ),
    (
        4,
        &[
            "g4dn.12xlarge",
            "g5.12xlarge",
            "g5.24xlarge",
            "g6.12xlarge",
            "g6.24xlarge",
            "g6e.12xlarge",
            "g6e.24xlarge",
            "p3.8xlarge",
            "Standard_NC24s_v3",
            "Standard_NC24rs_v3",
            "Standard_NC64as_T4_v3",
            "Standard_NC96ads_A100_v4",
            "a2-highgpu-4g",
            "a2-ultragpu-4g",
            "a3-highgpu-4g",
            "g2-standard-48",
        ],
    ),
    (
        8,
        &[
            "g4dn.metal",
            "g5.48xlarge",
            "g6.48xlarge",
            "g6e.48xlarge",
            "p2.8xlarge",
            "p3.16xlarge",
            "p3dn.24xlarge",
            "p4d.24xlarge",
            "p4de.24xlarge",
            "p5.48xlarge",
            "p5e.48xlarge",
            "p5en.48xlarge",
            "p6-b200.48xlarge",
            "Standard_ND40rs_v2",
            "Standard_ND96asr_v4",
            "Standard_ND96amsr_A100_v4",
            "Standard_ND96isr_H100_v5",
            "Standard_ND96isr_H200_v5",
            "a2-highgpu-8g",
            "a2-ultragpu-8g",
            "a3-highgpu-8g",
            "a3-megagpu-8g",
            "a3-ultragpu-8g",
            "a4-highgpu-8g",
            "g2-standard-96",
        ],
    ),
    (16, &["p2.16xlarge", "a2-megagpu-16g"]),
];
