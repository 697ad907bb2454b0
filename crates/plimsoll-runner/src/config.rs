//! Configuration of a runner, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The operator's choices. `None` means a default that `run` derives from the machine.
#[derive(Clone, Debug)]
pub struct RunnerConfig {
    /// URL of the Plimsoll server.
    pub server: String,
    /// Defaults to the host name of the machine.
    pub name: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub devices: DeviceSource,
    /// Replaces the NVIDIA driver as the source of measurements.
    pub probe: Option<ProbeConfig>,
    pub token: TokenSource,
    pub plaintext_token: PlaintextToken,
    /// Replaces the root certificates of the system.
    pub ca_file: Option<PathBuf>,
    /// Defaults to a directory of the service manager or of the user.
    pub state_dir: Option<PathBuf>,
    /// Host under which clients reach the model servers.
    pub advertise: Option<String>,
    /// Address that model servers listen on, passed to them as `{host}`.
    pub listen: Option<IpAddr>,
    /// Ports that are assigned to model servers, passed to them as `{port}`.
    pub ports: RangeInclusive<u16>,
    pub on_exit: OnExit,
}

/// Source of the list of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSource {
    /// The NVIDIA driver of the machine.
    Driver,
    /// A JSON file in the format of the node annotation `plimsoll.dev/devices`.
    File(PathBuf),
}

/// An external program that measures the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeConfig {
    /// Program and arguments, split at spaces. There is no shell.
    pub command: String,
    pub timeout: Duration,
}

/// Source of the token that authenticates the runner to the server.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSource {
    None,
    /// Read again for every request, so that the token can be rotated without a restart.
    File(PathBuf),
    Text(String),
}

// The derived implementation would print the secret.
impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenSource::None => f.write_str("None"),
            TokenSource::File(path) => f.debug_tuple("File").field(path).finish(),
            TokenSource::Text(_) => f.write_str("Text(…)"),
        }
    }
}

/// Rule for sending the token over an unencrypted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaintextToken {
    /// Only to a server on the same machine.
    LoopbackOnly,
    /// To any server: the operator trusts the network.
    Anywhere,
}

/// Effect of SIGINT and SIGTERM on the model servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// They keep running, and the next agent adopts them.
    KeepSlots,
    /// The agent stops them before it exits.
    StopSlots,
}
