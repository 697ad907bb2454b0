//! Measurements from a program of the operator, for tools of other vendors.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::{DeviceReading, Meter, MeterError};

/// Bytes of output that are read. A longer output is cut, and is then not valid JSON.
const OUTPUT_LIMIT: u64 = 4 << 20;

/// Interval at which a running probe is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Failure of a probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("--probe must name a program")]
    NoProgram,
    #[error("cannot start the probe {program}")]
    Start { program: String, source: io::Error },
    #[error("cannot wait for the probe")]
    Wait(#[source] io::Error),
    #[error("the probe did not exit within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the probe failed with {0}")]
    Failed(ExitStatus),
    #[error("the probe exited, but a process that it started keeps its output open")]
    OutputOpen,
    #[error("cannot read the output of the probe")]
    Output(#[source] io::Error),
    #[error("the output of the probe is not a list of devices")]
    Invalid(#[source] serde_json::Error),
    #[error("the probe reported device {index}, but this runner has {count} devices")]
    UnknownDevice { index: u16, count: usize },
    #[error("the probe reported device {index} twice")]
    DuplicateDevice { index: u16 },
}

/// A command, split at spaces. There is no shell: a pipeline belongs into a script.
pub(crate) struct Probe {
    program: String,
    args: Vec<String>,
    timeout: Duration,
    device_count: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    devices: Vec<DeviceReading>,
}

impl Probe {
    /// Parses the command line of a probe.
    pub(crate) fn new(
        command: &str,
        timeout: Duration,
        device_count: usize,
    ) -> Result<Probe, ProbeError> {
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or(ProbeError::NoProgram)?;
        Ok(Probe { program, args: words.collect(), timeout, device_count })
    }

    fn run(&self) -> Result<String, ProbeError> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command
            .process_group(0)
            .spawn()
            .map_err(|source| ProbeError::Start { program: self.program.clone(), source })?;
        let pipe = child.stdout.take().expect("stdout is piped");
        let (sender, output) = mpsc::channel();
        thread::spawn(move || drop(sender.send(read_output(pipe))));
        let status = wait(&mut child, Instant::now() + self.timeout);
        // Kills what the probe started. A tool that hangs would otherwise accumulate.
        kill_group(&child);
        match status.map_err(ProbeError::Wait)? {
            None => Err(ProbeError::Timeout(self.timeout)),
            Some(status) if !status.success() => Err(ProbeError::Failed(status)),
            // A process that left the group may keep the pipe open for ever.
            Some(_) => output
                .recv_timeout(self.timeout)
                .map_err(|_| ProbeError::OutputOpen)?
                .map_err(ProbeError::Output),
        }
    }

    fn readings(&self) -> Result<Vec<DeviceReading>, ProbeError> {
        let output: Output = serde_json::from_str(&self.run()?).map_err(ProbeError::Invalid)?;
        let mut seen = BTreeSet::new();
        for device in &output.devices {
            let index = device.index;
            if usize::from(index) >= self.device_count {
                return Err(ProbeError::UnknownDevice { index, count: self.device_count });
            }
            if !seen.insert(index) {
                return Err(ProbeError::DuplicateDevice { index });
            }
        }
        Ok(output.devices)
    }
}

impl Meter for Probe {
    fn read(&mut self) -> Result<Vec<DeviceReading>, MeterError> {
        Ok(self.readings()?)
    }
}

fn read_output(pipe: ChildStdout) -> io::Result<String> {
    let mut text = String::new();
    pipe.take(OUTPUT_LIMIT).read_to_string(&mut text)?;
    Ok(text)
}

/// Waits for the exit; kills the probe at the deadline and returns `None`.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::with_causes;
    use crate::meter::ProcessReading;

    const TIMEOUT: Duration = Duration::from_secs(2);

    fn probe(script: &str) -> (tempfile::TempDir, Probe) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("probe");
        fs::write(&path, script).expect("the script is written");
        // Executing the file itself fails with ETXTBSY while another test forks.
        let command = format!("sh {}", path.display());
        let probe = Probe::new(&command, TIMEOUT, 2);
        (dir, probe.expect("a command"))
    }

    fn error(script: &str) -> String {
        let (_dir, mut probe) = probe(script);
        with_causes(&probe.read().expect_err(script))
    }

    #[test]
    fn output_is_parsed() {
        let (_dir, mut probe) = probe(
            r#"echo '{"devices":[{"index":0,"used":123,"utilisation":5,
                "processes":[{"pid":1,"bytes":5},{"pid":2}]},{"index":1}]}'"#,
        );
        let devices = probe.read().expect("valid output");
        assert_eq!((devices[0].used, devices[0].utilisation), (Some(123), Some(5)));
        let processes =
            vec![ProcessReading { pid: 1, bytes: Some(5) }, ProcessReading { pid: 2, bytes: None }];
        assert_eq!(devices[0].processes, Some(processes));
        assert_eq!((devices[1].used, devices[1].processes.clone()), (None, None));
    }

    #[test]
    fn invalid_output_is_an_error_and_never_an_empty_result() {
        for (script, part) in [
            ("exit 3", "exit status: 3"),
            ("echo no", "not a list of devices"),
            ("echo '{}'", "not a list of devices"),
            (r#"echo '{"devices":[{"index":2}]}'"#, "device 2, but this runner has 2 devices"),
            (r#"echo '{"devices":[{"index":0},{"index":0}]}'"#, "device 0 twice"),
            (r#"echo '{"devices":[{"index":0,"used":-1}]}'"#, "not a list of devices"),
        ] {
            assert!(error(script).contains(part), "{script}: {}", error(script));
        }
        let mut missing =
            Probe::new("/no/such/program -x", Duration::from_secs(1), 1).expect("a command");
        let message = missing.read().expect_err("the program does not exist").to_string();
        assert!(message.contains("/no/such/program"), "{message}");
        assert!(Probe::new("  ", Duration::from_secs(1), 1).is_err());
    }

    #[test]
    fn a_hanging_probe_is_killed_with_its_children() {
        let began = Instant::now();
        assert!(error("sleep 60 & sleep 60").contains("within 2"));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
