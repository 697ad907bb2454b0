//! What a launch order becomes on this machine: checked, filled in, and started in a group of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use plimsoll_slots::template;
use plimsoll_slots::wire::{DeviceFacts, Launch};

use super::processes;

/// The variables that a program's runtime obeys, each vendor's own.
const CONFINING: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "ASCEND_RT_VISIBLE_DEVICES",
];

/// The variable that container runtimes obey. It confines no plain process, but must not say anything else.
const FOR_CONTAINERS: &str = "NVIDIA_VISIBLE_DEVICES";

/// What a model server gets of the agent's own environment.
const INHERITED: &[&str] = &["PATH", "HOME", "LANG"];

/// Why a launch is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no such device.
    NoDevice { index: u16, has: usize },
    /// The device at that place is another one.
    OtherDevice { index: u16, wanted: String, has: Option<String> },
    /// It is booked on devices, and no variable confines it to them.
    Unconfined,
    /// A variable names other devices than those booked.
    Confined { variable: String, value: String, booked: String },
    /// The server could not tell the runtime what was booked.
    Untold { reason: String },
    /// There is no program.
    NoProgram,
    /// Every port is taken.
    NoPort { from: u16, to: u16 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoDevice { index, has } => {
                write!(
                    f,
                    "not started: it is booked on device {index}, and this runner has {has} devices"
                )
            }
            Refusal::OtherDevice { index, wanted, has } => {
                let has = has.as_deref().unwrap_or("a device without UUID");
                write!(f, "not started: it is booked on {wanted}, and device {index} is {has}")
            }
            Refusal::Unconfined => write!(
                f,
                "not started: no variable confines it to its devices; one of {} is needed",
                CONFINING.join(", ")
            ),
            Refusal::Confined { variable, value, booked } => {
                write!(f, "not started: {variable} is \"{value}\", and it is booked on {booked}")
            }
            Refusal::Untold { reason } => write!(f, "not started: {reason}"),
            Refusal::NoProgram => write!(f, "not started: the launch names no program"),
            Refusal::NoPort { from, to } => {
                write!(f, "not started: no port from {from} to {to} is free")
            }
        }
    }
}

/// Refuses what would run on other devices than those that were charged.
pub(crate) fn check(launch: &Launch, devices: &[DeviceFacts]) -> Result<(), Refusal> {
    if let Some(reason) = launch.told.as_ref().and_then(|told| told.refused.clone()) {
        return Err(Refusal::Untold { reason });
    }
    if launch.argv.first().is_none_or(String::is_empty) {
        return Err(Refusal::NoProgram);
    }
    for booked in &launch.devices {
        let index = booked.index;
        let own = devices
            .get(usize::from(index))
            .ok_or(Refusal::NoDevice { index, has: devices.len() })?;
        if let Some(wanted) =
            booked.uuid.as_ref().filter(|wanted| own.uuid.as_ref() != Some(wanted))
        {
            return Err(Refusal::OtherDevice {
                index,
                wanted: wanted.clone(),
                has: own.uuid.clone(),
            });
        }
    }
    check_confinement(launch, devices)
}

fn check_confinement(launch: &Launch, devices: &[DeviceFacts]) -> Result<(), Refusal> {
    let names = |index: u16| {
        let uuid = devices.get(usize::from(index)).and_then(|device| device.uuid.clone());
        [Some(index.to_string()), uuid]
    };
    let booked: BTreeSet<u16> = launch.devices.iter().map(|device| device.index).collect();
    let variables = CONFINING.iter().chain([&FOR_CONTAINERS]);
    for (variable, value) in variables.filter_map(|name| Some((name, launch.env.get(*name)?))) {
        let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
        let named = |word: &str| {
            booked.iter().find(|index| names(**index).iter().flatten().any(|n| n == word))
        };
        let found: Option<BTreeSet<u16>> = words.map(|word| named(word).copied()).collect();
        let says_none = booked.is_empty() && (value == "void" || value == "none");
        if found.as_ref() != Some(&booked) && !says_none {
            let list: Vec<String> = booked
                .iter()
                .flat_map(|index| names(*index).into_iter().flatten().last())
                .collect();
            let booked = if list.is_empty() { "no device".to_owned() } else { list.join(",") };
            return Err(Refusal::Confined {
                variable: (*variable).to_owned(),
                value: value.clone(),
                booked,
            });
        }
    }
    let is_confined = CONFINING.iter().any(|variable| launch.env.contains_key(*variable));
    if booked.is_empty() || is_confined { Ok(()) } else { Err(Refusal::Unconfined) }
}

/// Where model servers listen.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) listen: IpAddr,
    pub(crate) advertise: String,
    pub(crate) ports: RangeInclusive<u16>,
}

impl Places {
    /// The address by which the agent itself reaches what listens here.
    pub(crate) fn local(&self) -> IpAddr {
        match self.listen {
            IpAddr::V4(address) if address.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(address) if address.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
            address => address,
        }
    }

    /// The address by which others reach the port.
    pub(crate) fn endpoint(&self, port: u16) -> String {
        let is_bare_v6 = self.advertise.parse::<std::net::Ipv6Addr>().is_ok();
        if is_bare_v6 {
            format!("http://[{}]:{port}", self.advertise)
        } else {
            format!("http://{}:{port}", self.advertise)
        }
    }

    /// A port that nobody listens on and that no slot was given, looked for from `after` on and around: the one that was given last is
    /// tried last, as its old callers may still ask for it.
    pub(crate) fn free_port(&self, after: u16, taken: &BTreeSet<u16>) -> Result<u16, Refusal> {
        let (from, to) = (*self.ports.start(), *self.ports.end());
        let later = self.ports.clone().filter(|port| *port > after);
        let earlier = self.ports.clone().filter(|port| *port <= after);
        let is_free =
            |port: &u16| !taken.contains(port) && TcpListener::bind((self.listen, *port)).is_ok();
        later.chain(earlier).find(is_free).ok_or(Refusal::NoPort { from, to })
    }
}

/// Whether the launch wants a port.
pub(crate) fn wants_port(launch: &Launch) -> bool {
    launch.argv.iter().chain(launch.env.values()).any(|text| text.contains("{port}"))
}

/// Text with the port and the host filled in, and doubled braces made single. In text that is no template other braces stay.
pub(crate) fn fill(text: &str, places: &Places, port: Option<u16>) -> String {
    let (host, port) =
        (places.listen.to_string(), port.map_or("{port}".to_owned(), |port| port.to_string()));
    template::finish(text, &host, &port)
        .unwrap_or_else(|_| text.replace("{host}", &host).replace("{port}", &port))
}

/// The whole environment of a slot's process: a little of the agent's, the launch's, and whose it is.
pub(crate) fn environment(
    launch: &Launch,
    places: &Places,
    port: Option<u16>,
    tags: &[(&str, String)],
) -> BTreeMap<String, String> {
    let inherited =
        INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let mut environment: BTreeMap<String, String> = inherited.collect();
    if launch.devices.is_empty() {
        // Work without a device gets none, also where it would take all that it sees.
        environment.extend(CONFINING[..3].iter().map(|name| ((*name).to_owned(), String::new())));
        environment.insert(FOR_CONTAINERS.to_owned(), "void".to_owned());
    }
    environment
        .extend(launch.env.iter().map(|(name, value)| (name.clone(), fill(value, places, port))));
    environment.extend(tags.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    if let Some(port) = port {
        environment.insert(processes::ENV_PORT.to_owned(), port.to_string());
    }
    environment
}

/// Starts the program in a process group of its own, so that it outlives the agent and can be ended as a whole.
pub(crate) fn spawn(
    argv: &[String],
    environment: &BTreeMap<String, String>,
    log: &File,
) -> io::Result<Child> {
    let (program, args) =
        argv.split_first().ok_or_else(|| io::Error::other("there is no program"))?;
    Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .process_group(0)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))
}

#[cfg(test)]
mod tests {
    use plimsoll_slots::wire::{FactsSource, LaunchDevice, Told};

    use super::*;

    fn device(uuid: Option<&str>) -> DeviceFacts {
        DeviceFacts {
            uuid: uuid.map(str::to_owned),
            kind: "NVIDIA".to_owned(),
            model: None,
            total: Some(1),
            reserve: 0,
            cap: None,
            numa: None,
            healthy: true,
            source: FactsSource::Declared,
        }
    }

    fn launch(devices: &[(u16, Option<&str>)], env: &[(&str, &str)]) -> Launch {
        let booked = |(index, uuid): &(u16, Option<&str>)| LaunchDevice {
            index: *index,
            uuid: uuid.map(str::to_owned),
            bytes: 1,
            total: None,
        };
        Launch {
            model: "m".to_owned(),
            devices: devices.iter().map(booked).collect(),
            argv: vec!["serve".to_owned(), "--port={port}".to_owned(), "{host}".to_owned()],
            env: env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            ready: None,
            ready_within_ms: 0,
            grace_ms: 0,
            context: None,
            concurrency: 1,
            tensor_parallel: 1,
            told: None,
        }
    }

    fn told(refused: &str) -> Told {
        Told {
            runtime: "vllm".to_owned(),
            kv: "q8_0".to_owned(),
            batch: 1,
            memory_ratio: None,
            outside: 0,
            outside_source: String::new(),
            preload: None,
            remarks: Vec::new(),
            refused: Some(refused.to_owned()),
        }
    }

    #[test]
    fn host_and_port_are_filled_in_and_other_braces_stay_single() {
        for (text, filled) in [
            ("--port={port}", "--port=81"),
            ("http://{host}:{port}", "http://127.0.0.1:81"),
            (r#"{{"a":{{}}}}"#, r#"{"a":{}}"#),
            (r#"{"a":"{port}"}"#, r#"{"a":"81"}"#),
        ] {
            assert_eq!(fill(text, &places(), Some(81)), filled);
        }
        assert_eq!(fill("{port}", &places(), None), "{port}");
    }

    fn places() -> Places {
        Places {
            listen: "127.0.0.1".parse().expect("an address"),
            advertise: "here".to_owned(),
            ports: 1..=2,
        }
    }

    #[test]
    fn only_a_launch_for_devices_that_are_here_and_that_confines_itself_to_them_is_started() {
        let has = [device(Some("GPU-a")), device(Some("GPU-b")), device(None)];
        let check = |devices: &[(u16, Option<&str>)], env: &[(&str, &str)]| {
            check(&launch(devices, env), &has).map_err(|refusal| refusal.to_string())
        };
        let cuda = "CUDA_VISIBLE_DEVICES";
        for (devices, value) in [
            (&[(0, Some("GPU-a"))][..], "GPU-a"),
            (&[(0, None)], "0"),
            (&[(0, Some("GPU-a")), (1, Some("GPU-b"))], "GPU-b, GPU-a"),
            (&[(2, None)], "2"),
            (&[], ""),
        ] {
            assert_eq!(check(devices, &[(cuda, value)]), Ok(()), "{value}");
        }
        assert_eq!(check(&[], &[]), Ok(()));
        for (devices, env, part) in [
            (&[(3, None)][..], &[(cuda, "3")][..], "booked on device 3, and this runner has 3"),
            (&[(0, Some("GPU-b"))], &[(cuda, "GPU-b")], "booked on GPU-b, and device 0 is GPU-a"),
            (&[(2, Some("GPU-c"))], &[(cuda, "GPU-c")], "device 2 is a device without UUID"),
            (&[(0, None)], &[], "no variable confines it"),
            (&[(0, None)], &[("NVIDIA_VISIBLE_DEVICES", "GPU-a")], "no variable confines it"),
            (
                &[(0, None)],
                &[(cuda, "GPU-b")],
                "CUDA_VISIBLE_DEVICES is \"GPU-b\", and it is booked on GPU-a",
            ),
            (&[(0, None)], &[(cuda, "")], "is \"\", and it is booked on GPU-a"),
            (&[(0, None)], &[(cuda, "GPU-a,GPU-b")], "booked on GPU-a"),
            (&[(0, None)], &[(cuda, "GPU-a"), ("NVIDIA_VISIBLE_DEVICES", "all")], "is \"all\""),
            (&[], &[(cuda, "0")], "it is booked on no device"),
        ] {
            let refused = check(devices, env).expect_err(part);
            assert!(refused.contains(part), "{refused}");
        }
        let mut untold = launch(&[], &[]);
        untold.told = Some(told("kv: it cannot"));
        let refused = super::check(&untold, &has).map_err(|refusal| refusal.to_string());
        assert_eq!(refused, Err("not started: kv: it cannot".to_owned()));
        let mut nothing = launch(&[], &[]);
        nothing.argv.clear();
        assert_eq!(super::check(&nothing, &has), Err(Refusal::NoProgram));
    }

    #[test]
    fn the_environment_is_small_and_says_whose_it_is() {
        let launch = launch(&[(0, None)], &[("A", "{host}:{port}"), ("PLIMSOLL_SLOT", "another")]);
        let environment =
            environment(&launch, &places(), Some(81), &[("PLIMSOLL_SLOT", "s".to_owned())]);
        assert_eq!(environment["A"], "127.0.0.1:81");
        assert_eq!(environment["PLIMSOLL_SLOT"], "s");
        let allowed = ["A", "PATH", "HOME", "LANG", "PLIMSOLL_SLOT", "PLIMSOLL_PORT"];
        assert!(environment.keys().all(|name| allowed.contains(&name.as_str())), "{environment:?}");
    }

    #[test]
    fn work_without_a_device_sees_none() {
        let environment = environment(&launch(&[], &[]), &places(), None, &[]);
        assert_eq!(environment["CUDA_VISIBLE_DEVICES"], "");
        assert_eq!(environment["NVIDIA_VISIBLE_DEVICES"], "void");
    }

    #[test]
    fn a_port_is_free_and_given_once() {
        let held = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = held.local_addr().expect("it has one").port();
        let narrow = Places { ports: port..=port, ..places() };
        assert!(matches!(narrow.free_port(0, &BTreeSet::new()), Err(Refusal::NoPort { .. })));
        drop(held);
        assert_eq!(narrow.free_port(0, &BTreeSet::new()), Ok(port));
        assert!(narrow.free_port(0, &BTreeSet::from([port])).is_err());
    }

    #[test]
    fn an_endpoint_is_an_address() {
        assert_eq!(places().endpoint(8), "http://here:8");
        assert_eq!(
            Places { advertise: "::1".to_owned(), ..places() }.endpoint(8),
            "http://[::1]:8"
        );
    }
}
