//! Simulated runners: they take their time to load, fail now and then, and give memory back late.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plimsoll_slots::wire::{
    Action, DeviceFacts, DeviceStatus, Heartbeat, Launch, OnDevice, Order, Orders, Process,
    Registration, SlotReport, SlotState,
};

use super::Chance;
use crate::SlotEngine as Engine;
use plimsoll_engine::engine::NoAnswer;

const GIB: u64 = 1 << 30;
/// How fast a simulated model loads, in bytes a millisecond: faster than life, so that there is something to see.
const LOAD_SPEED: u64 = 24 * GIB / 1000;

/// One simulated runner.
pub(super) struct Rig {
    name: &'static str,
    label: (&'static str, &'static str),
    gpu: &'static str,
    gpus: u16,
    total: u64,
    session: u64,
    sequence: u64,
    orders: Orders,
    servers: BTreeMap<String, Server>,
    /// Memory that somebody else uses on the first GPU.
    foreign: u64,
}

struct Server {
    generation: u64,
    model: String,
    booked: Vec<OnDevice>,
    state: SlotState,
    /// When the state changes by itself, and to what.
    next: Option<(Instant, SlotState)>,
}

impl Rig {
    /// The runners of the demo.
    pub(super) fn fleet() -> Vec<Rig> {
        let since =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let session = u64::try_from(since).unwrap_or(0);
        let rig = |name, label, gpu, gpus, gib: u64| Rig {
            name,
            label,
            gpu,
            gpus,
            total: gib * GIB,
            session,
            sequence: 0,
            orders: Orders::default(),
            servers: BTreeMap::new(),
            foreign: 0,
        };
        vec![
            rig("demo-a100", ("pool", "text"), "NVIDIA A100 80GB PCIe", 2, 80),
            rig("demo-l40s", ("pool", "images"), "NVIDIA L40S", 1, 48),
            rig("demo-l4", ("pool", "small"), "NVIDIA L4", 1, 24),
        ]
    }

    pub(super) async fn register(&mut self, engine: &Engine) -> Result<(), NoAnswer> {
        let facts = |index: u16| DeviceFacts {
            model: Some(self.gpu.to_string()),
            ..DeviceFacts::new(format!("GPU-{}-{index}", self.name), self.total)
        };
        let registration = Registration {
            session: self.session,
            version: env!("CARGO_PKG_VERSION").to_string(),
            labels: BTreeMap::from([(self.label.0.to_string(), self.label.1.to_string())]),
            devices: (0..self.gpus).map(facts).collect(),
        };
        let name = self.name;
        let orders =
            engine.write(move |desk, core| desk.register(core, name, registration)).await?;
        self.orders = orders.unwrap_or_default();
        Ok(())
    }

    /// Does what it was told, lets time do the rest, and says what is so.
    pub(super) async fn beat(
        &mut self,
        engine: &Engine,
        chance: &mut Chance,
    ) -> Result<(), NoAnswer> {
        let now = Instant::now();
        for order in std::mem::take(&mut self.orders.orders) {
            self.obey(&order, now, chance);
        }
        for server in self.servers.values_mut() {
            if let Some((_, state)) = server.next.take_if(|(at, _)| *at <= now) {
                server.state = state;
            }
        }
        if chance.happens(10) {
            self.foreign = chance.between(0, 4) * GIB;
        }
        self.sequence += 1;
        let (name, beat) = (self.name, self.heartbeat());
        let orders = engine.write(move |desk, core| desk.heartbeat(core, name, beat)).await?;
        self.orders = orders.unwrap_or_default();
        let ordered = |slot: &String| self.orders.orders.iter().any(|order| order.slot == *slot);
        self.servers.retain(|slot, server| !server.state.is_over() || ordered(slot));
        Ok(())
    }

    fn obey(&mut self, order: &Order, now: Instant, chance: &mut Chance) {
        let known = self.servers.get_mut(&order.slot);
        match (order.action, known) {
            (Action::Start, Some(server)) if server.generation == order.generation => {}
            (Action::Start, _) => {
                let booked = order.launch.iter().flat_map(|launch| &launch.devices);
                let bytes: u64 = booked.filter_map(|device| device.bytes).sum();
                let loading = Duration::from_millis(300 + bytes / LOAD_SPEED);
                let ends = if chance.happens(40) { SlotState::Failed } else { SlotState::Running };
                self.servers.insert(
                    order.slot.clone(),
                    Server::of(order, SlotState::Starting, Some((now + loading, ends))),
                );
            }
            (Action::Keep, None) => {
                self.servers.insert(order.slot.clone(), Server::of(order, SlotState::Gone, None));
            }
            (Action::Stop, Some(server))
                if server.state != SlotState::Stopping && !server.state.is_over() =>
            {
                let back = Duration::from_millis(chance.between(600, 2500));
                (server.state, server.next) =
                    (SlotState::Stopping, Some((now + back, SlotState::Gone)));
            }
            (Action::Stop, None) => {
                self.servers.insert(order.slot.clone(), Server::of(order, SlotState::Gone, None));
            }
            (Action::Keep | Action::Stop, Some(_)) => {}
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        let report = |(slot, server): (&String, &Server)| SlotReport {
            slot: slot.clone(),
            generation: server.generation,
            model: server.model.clone(),
            state: server.state,
            reason: (server.state == SlotState::Failed).then(|| {
                "the simulated server ended with exit code 1: simulated failure".to_string()
            }),
            endpoint: Some(format!("http://{}.invalid:8000", self.name)),
            booked: server.booked.clone(),
            used: if server.state.is_over() { Vec::new() } else { server.booked.clone() },
        };
        let slots = self.servers.iter().map(report).collect();
        let devices = (0..self.gpus).map(|index| self.status(index)).collect();
        Heartbeat { devices, ..Heartbeat::of(self.session, self.sequence, slots) }
    }

    fn status(&self, index: u16) -> DeviceStatus {
        let servers = self.servers.values().filter(|server| !server.state.is_over());
        let busy = servers
            .clone()
            .filter(|server| server.booked.iter().any(|on| on.index == index))
            .count();
        let own = servers.flat_map(|server| &server.booked).filter(|on| on.index == index);
        let own: u64 = own.map(|on| on.bytes).sum();
        let foreign = if index == 0 { self.foreign } else { 0 };
        let process =
            Process { pid: 4242, name: Some("notebook".to_string()), bytes: Some(foreign) };
        DeviceStatus {
            index,
            used: Some(own + foreign),
            utilisation: Some(u8::try_from(busy * 23).unwrap_or(100).min(100)),
            foreign: if foreign > 0 { vec![process] } else { Vec::new() },
            stale_for: None,
        }
    }
}

impl Server {
    fn of(order: &Order, state: SlotState, next: Option<(Instant, SlotState)>) -> Server {
        Server {
            generation: order.generation,
            model: order.model.clone(),
            booked: order.launch.as_ref().map(Launch::booked).unwrap_or_default(),
            state,
            next,
        }
    }
}
