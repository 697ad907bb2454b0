//! Dynamic resource allocation: the devices that drivers publish, and the claims that hold them.
//!
//! A claim holds its devices itself, under its own name, and not its pods: several pods can share
//! a claim, and it is allocated before its first pod runs and after its last one has ended. Claims
//! are allocated by kube-scheduler; here they are only counted.

mod claims;
mod holding;
mod pods;
mod pools;

pub use holding::claim_holding;

pub(super) use claims::{Claims, claim_id, claim_key};
pub(super) use holding::unplaced;
pub(super) use pods::{
    DeviceClasses, allocations, claim_keys, is_served_by_claim, unread_claims, without_devices,
};
pub(super) use pools::{PoolChange, PoolKey, Pools, Published};
