//! What was typed, made into what is meant: the name, the places, the devices and what measures them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tracing::info;

use super::client::{self, Client};
use super::config::{DeviceSource, RunnerConfig};
use super::devices::Devices;
use super::launch::Places;
use super::meter::{Driver, Meter, Probe, Unmeasured};

/// The runner's name. It stands in addresses, so that few characters are allowed.
pub(crate) fn name(config: &RunnerConfig) -> Result<String> {
    let name = match &config.name {
        Some(name) => name.clone(),
        None => hostname().context("the name of this machine cannot be read; give --name")?,
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !starts_well || name.len() > 253 || !name.bytes().all(is_allowed) {
        bail!(
            "--name \"{name}\" must be of letters, digits, -, _ and . only, and begin with a letter or a digit"
        );
    }
    Ok(name)
}

fn hostname() -> Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned())
}

/// The client for the server.
pub(crate) fn client(config: &RunnerConfig, name: &str) -> Result<Client> {
    let authorities = match &config.ca_file {
        Some(file) => Some(
            std::fs::read(file).with_context(|| format!("could not read {}", file.display()))?,
        ),
        None => None,
    };
    Client::new(
        &config.server,
        name,
        config.token.clone(),
        authorities.as_deref(),
        config.plaintext_token,
    )
}

/// Where model servers listen and are reached.
pub(crate) fn places(config: &RunnerConfig) -> Result<Places> {
    let is_server_here =
        client::host_of(&config.server).is_some_and(|host| client::is_loopback(&host));
    let advertise = match &config.advertise {
        Some(host) => host.clone(),
        None if is_server_here => "127.0.0.1".to_owned(),
        None => hostname().context("the name of this machine cannot be read; give --advertise")?,
    };
    let listen = config.listen.unwrap_or_else(|| {
        let is_here_only = client::is_loopback(&advertise);
        if is_here_only {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv4Addr::UNSPECIFIED.into()
        }
    });
    Ok(Places { listen, advertise, ports: config.ports.clone() })
}

/// The state directory: as given, the service manager's, or the user's.
pub(crate) fn state_dir(config: &RunnerConfig, name: &str) -> Result<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let below = |folder: PathBuf| folder.join("plimsoll").join("runner").join(name);
    config
        .state_dir
        .clone()
        .or_else(|| variable("STATE_DIRECTORY").map(|folder| folder.join(name)))
        .or_else(|| variable("XDG_STATE_HOME").map(below))
        .or_else(|| variable("HOME").map(|home| below(home.join(".local/state"))))
        .context("there is no place for the state; give --state DIR")
}

/// The devices and what measures them. With neither a list nor a driver there is nothing to report.
pub(crate) fn devices(config: &RunnerConfig) -> Result<(Devices, Box<dyn Meter>)> {
    let driver = Driver::open();
    let devices = match (&config.devices, &driver) {
        (DeviceSource::File(file), driver) => declared(file, driver.as_ref().ok())?,
        (DeviceSource::Driver, Ok(driver)) => Devices::found(driver.devices()?),
        (DeviceSource::Driver, Err(error)) => bail!(
            "there are no devices to report: {error} ({})\n\nInstall the driver, or declare the devices in a file and give it with --devices:\n\n  \
             [{{\"uuid\":\"GPU-…\",\"model\":\"NVIDIA A100\",\"memory\":\"80GiB\"}}]\n",
            error.root_cause()
        ),
    };
    if devices.facts.is_empty() {
        bail!("the driver knows no device; declare devices in a file and give it with --devices");
    }
    let meter: Box<dyn Meter> = match (&config.probe, &driver) {
        (Some(probe), _) => {
            Box::new(Probe::new(&probe.command, probe.timeout, devices.facts.len())?)
        }
        (None, Ok(driver)) => Box::new(driver.meter(&devices.uuids())),
        (None, Err(_)) => {
            info!("nothing is measured: there is no driver and no --probe");
            Box::new(Unmeasured)
        }
    };
    Ok((devices, meter))
}

fn declared(file: &Path, driver: Option<&Driver>) -> Result<Devices> {
    let devices = Devices::declared(file)?;
    Ok(match driver.map(Driver::devices) {
        Some(Ok(found)) => devices.checked_against(&found),
        _ => devices,
    })
}
