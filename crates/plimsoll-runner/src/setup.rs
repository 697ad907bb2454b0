//! Defaults for values that the operator did not configure, derived from the machine.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use tracing::info;

use super::client;
use super::config::{DeviceSource, RunnerConfig};
use super::devices::{Devices, DevicesError};
use super::listen::ListenConfig;
use super::meter::{Driver, Meter, MeterError, NoMeter, Probe};

/// Longest name of a runner.
const NAME_LENGTH: usize = 253;

/// Configuration that does not fit this machine.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("cannot read the host name of this machine; use {option}")]
    HostName { option: &'static str, source: io::Error },
    #[error(
        "--name \"{0}\" is invalid: \
         use letters, digits, -, _ and ., and start with a letter or a digit"
    )]
    Name(String),
    #[error("no directory for the state was found; use --state DIR")]
    NoStateDir,
    #[error(transparent)]
    Devices(#[from] DevicesError),
    #[error(
        "no devices to report; install the NVIDIA driver, \
         or declare the devices in a file and use --devices FILE:\n\n  \
         [{{\"uuid\":\"GPU-…\",\"model\":\"NVIDIA A100\",\"memory\":\"80GiB\"}}]\n"
    )]
    NoDriver(#[source] MeterError),
    #[error("the driver knows no device; declare the devices in a file and use --devices FILE")]
    NoDevices,
    #[error(transparent)]
    Meter(#[from] MeterError),
}

/// Returns the name of the runner. It is part of URLs, so that few characters are allowed.
pub(crate) fn runner_name(config: &RunnerConfig) -> Result<String, SetupError> {
    let name = match &config.name {
        Some(name) => name.clone(),
        None => host_name("--name")?,
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let has_valid_start = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !has_valid_start || name.len() > NAME_LENGTH || !name.bytes().all(is_allowed) {
        return Err(SetupError::Name(name));
    }
    Ok(name)
}

/// Reads the host name. The option is the alternative that an error names.
fn host_name(option: &'static str) -> Result<String, SetupError> {
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) => Ok(name.trim().to_owned()),
        Err(source) => Err(SetupError::HostName { option, source }),
    }
}

/// Returns the addresses of model servers. If the server runs on this machine, everything stays on
/// the loopback interface.
pub(crate) fn listen_config(config: &RunnerConfig) -> Result<ListenConfig, SetupError> {
    let is_server_local =
        client::host_of(&config.server).is_some_and(|host| client::is_loopback(&host));
    let advertised_host = match &config.advertise {
        Some(host) => host.clone(),
        None if is_server_local => "127.0.0.1".to_owned(),
        None => host_name("--advertise")?,
    };
    let address = match config.listen {
        Some(address) => address,
        None if client::is_loopback(&advertised_host) => Ipv4Addr::LOCALHOST.into(),
        None => Ipv4Addr::UNSPECIFIED.into(),
    };
    Ok(ListenConfig { address, advertised_host, ports: config.ports.clone() })
}

/// Returns the state directory: the configured one, that of the service manager, or that of the
/// user.
pub(crate) fn state_dir(config: &RunnerConfig, name: &str) -> Result<PathBuf, SetupError> {
    if let Some(dir) = &config.state_dir {
        return Ok(dir.clone());
    }
    if let Some(dir) = path_variable("STATE_DIRECTORY") {
        return Ok(dir.join(name));
    }
    let user_dir = path_variable("XDG_STATE_HOME")
        .or_else(|| Some(path_variable("HOME")?.join(".local/state")))
        .ok_or(SetupError::NoStateDir)?;
    Ok(user_dir.join("plimsoll").join("runner").join(name))
}

fn path_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the devices, and the meter that measures them.
pub(crate) fn devices(config: &RunnerConfig) -> Result<(Devices, Box<dyn Meter>), SetupError> {
    let driver = Driver::open();
    let devices = match (&config.devices, &driver) {
        (DeviceSource::File(file), driver) => {
            let mut devices = Devices::from_file(file)?;
            if let Some(found) = driver.as_ref().ok().and_then(|driver| driver.devices().ok()) {
                devices.merge_driver_facts(&found);
            }
            devices
        }
        (DeviceSource::Driver, Ok(driver)) => Devices::from_driver(driver.devices()?),
        (DeviceSource::Driver, Err(_)) => Devices::default(),
    };
    match driver {
        Err(error) if config.devices == DeviceSource::Driver => {
            return Err(SetupError::NoDriver(error));
        }
        _ if devices.facts.is_empty() => return Err(SetupError::NoDevices),
        _ => {}
    }
    let meter: Box<dyn Meter> = match (&config.probe, &driver) {
        (Some(probe), _) => {
            let probe = Probe::new(&probe.command, probe.timeout, devices.facts.len());
            Box::new(probe.map_err(MeterError::Probe)?)
        }
        (None, Ok(driver)) => Box::new(driver.meter(&devices.uuids())),
        (None, Err(_)) => {
            info!("no measurements: there is no NVIDIA driver and no --probe");
            Box::new(NoMeter)
        }
    };
    Ok((devices, meter))
}
