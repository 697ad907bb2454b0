//! Addresses and ports of model servers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::ops::RangeInclusive;

/// The address and the ports that model servers listen on, and the host that clients use.
#[derive(Clone, Debug)]
pub(crate) struct ListenConfig {
    pub(crate) address: IpAddr,
    pub(crate) advertised_host: String,
    pub(crate) ports: RangeInclusive<u16>,
}

/// All ports of the range are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no port from {from} to {to} is free")]
pub(crate) struct NoFreePort {
    pub(crate) from: u16,
    pub(crate) to: u16,
}

impl ListenConfig {
    /// Returns the address under which the agent reaches a model server on this machine.
    pub(crate) fn local_address(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            address => address,
        }
    }

    /// Returns the URL under which clients reach the model server on this port.
    pub(crate) fn endpoint(&self, port: u16) -> String {
        let host = &self.advertised_host;
        match host.parse::<Ipv6Addr>() {
            Ok(_) => format!("http://[{host}]:{port}"),
            Err(_) => format!("http://{host}:{port}"),
        }
    }

    /// Finds a port that no process listens on and that no slot has.
    ///
    /// The search starts after the port that was assigned last and wraps around, so that a port is
    /// reused as late as possible: clients of the previous model server may still send requests to
    /// it.
    pub(crate) fn free_port(
        &self,
        last: Option<u16>,
        taken: &BTreeSet<u16>,
    ) -> Result<u16, NoFreePort> {
        let (from, to) = (*self.ports.start(), *self.ports.end());
        let later = self.ports.clone().filter(|port| last.is_none_or(|last| *port > last));
        let earlier = self.ports.clone().filter(|port| last.is_some_and(|last| *port <= last));
        let mut candidates = later.chain(earlier).filter(|port| !taken.contains(port));
        candidates
            .find(|port| TcpListener::bind((self.address, *port)).is_ok())
            .ok_or(NoFreePort { from, to })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn listen_config() -> ListenConfig {
        ListenConfig {
            address: Ipv4Addr::LOCALHOST.into(),
            advertised_host: "here".to_owned(),
            ports: 1..=2,
        }
    }

    #[test]
    fn a_port_is_assigned_only_while_it_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("the listener has an address").port();
        let narrow = ListenConfig { ports: port..=port, ..listen_config() };
        let none = Err(NoFreePort { from: port, to: port });
        assert_eq!(narrow.free_port(None, &BTreeSet::new()), none);
        drop(listener);
        assert_eq!(narrow.free_port(None, &BTreeSet::new()), Ok(port));
        assert_eq!(narrow.free_port(Some(port), &BTreeSet::new()), Ok(port));
        assert_eq!(narrow.free_port(None, &BTreeSet::from([port])), none);
    }

    #[test]
    fn an_endpoint_is_a_url() {
        assert_eq!(listen_config().endpoint(8), "http://here:8");
        let v6 = ListenConfig { advertised_host: "::1".to_owned(), ..listen_config() };
        assert_eq!(v6.endpoint(8), "http://[::1]:8");
    }
}
