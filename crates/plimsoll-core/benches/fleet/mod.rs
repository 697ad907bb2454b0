//! The fleet of the benches: nodes of eight 80 GiB devices, each with four tenants that leave at
//! most 16 GiB free.

use std::sync::Arc;

use plimsoll_core::charge::{Activity, Booked, Charge, Holding, Stage};
use plimsoll_core::device::{Device, Identity, Node, Sharing, Source};
use plimsoll_core::ledger::Ledger;
use plimsoll_core::request::{Amount, Need, NodeNeed, Request, RequestId, Shape, Spec, Terms};
use plimsoll_core::units::{Bytes, Cores, Millis};

/// Devices per node, as in published measurements of other schedulers.
pub(crate) const DEVICES: u16 = 8;
/// Tenants per device.
pub(crate) const TENANTS: u16 = 4;

/// Creates a fleet with all its tenants.
pub(crate) fn fleet(nodes: usize) -> Ledger {
    let mut ledger = Ledger::default();
    for n in 0..nodes {
        let mut node = Node::new(format!("node-{n:05}"));
        node.devices = (0..DEVICES).map(|ordinal| device(n, ordinal)).collect();
        let _ = ledger.put_node(node);
        for ordinal in 0..DEVICES {
            for tenant in 0..TENANTS {
                let bytes = Bytes::gib(
                    16 + u64::try_from((n * 7 + usize::from(ordinal * 3 + tenant)) % 4)
                        .unwrap_or(0),
                );
                let _ =
                    ledger.observe(holding(n, ordinal, tenant, bytes)).expect("the node exists");
            }
        }
    }
    ledger
}

fn device(node: usize, ordinal: u16) -> Device {
    let mut device = Device::new("NVIDIA", Bytes::gib(80), Source::Declared);
    device.identity = Identity::Uuid(format!("GPU-{node}-{ordinal}").into());
    device.model = Some("NVIDIA A100-SXM4-80GB".into());
    device.sharing = Sharing::Shares;
    device.cores = Some(Cores(100));
    device.slots = Some(10);
    device.numa = Some(ordinal / 4);
    device
}

fn holding(node: usize, ordinal: u16, tenant: u16, bytes: Bytes) -> Holding {
    let charge = Charge {
        on: vec![ordinal],
        amount: Booked::share(bytes),
        cores: Cores(10),
        slots: 1,
        slice: None,
        parts: Vec::new(),
    };
    Holding {
        request: RequestId::new("bench", format!("n{node}-d{ordinal}-t{tenant}")),
        node: format!("node-{node:05}").into(),
        stage: Stage::Running { since: Millis(0) },
        charges: vec![charge],
        resources: NodeNeed::default(),
        terms: Terms::default(),
        activity: Activity::Unknown,
        spec: None,
    }
}

/// Creates a request for one device with this much memory.
pub(crate) fn request(name: &str, gib: u64) -> Request {
    let need = Need::one("NVIDIA", Amount::bytes(Bytes::gib(gib)));
    let spec = Arc::new(Spec::from_shapes(vec![Shape::single("main", need)]));
    Request { id: RequestId::new("bench", name), spec, terms: Terms::default() }
}
