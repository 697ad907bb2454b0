//! A program of the operator's that measures: the plug for other vendors' tools.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::{DeviceReading, Meter};

/// More than this is no list of devices.
const MOST_OUTPUT: u64 = 4 << 20;

/// The command, split at spaces. There is no shell: a probe that needs one is written `sh -c` in a file of its own.
pub(crate) struct Probe {
    program: String,
    args: Vec<String>,
    timeout: Duration,
    devices: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    devices: Vec<DeviceReading>,
}

impl Probe {
    /// Makes a probe of a command line for a runner with so many devices.
    pub(crate) fn new(line: &str, timeout: Duration, devices: usize) -> Result<Probe> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let program = words.next().context("--probe names no program")?;
        Ok(Probe { program, args: words.collect(), timeout, devices })
    }

    fn run(&self) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("could not start the probe {}", self.program))?;
        let pipe = child.stdout.take().expect("it is piped");
        let (sender, printed) = mpsc::channel();
        thread::spawn(move || drop(sender.send(read_all(pipe))));
        let status = wait(&mut child, Instant::now() + self.timeout);
        // Whatever the probe started goes with it: a tool that hangs would pile up.
        kill_group(&child);
        match status.context("could not wait for the probe")? {
            None => bail!("the probe did not end within {} ms", self.timeout.as_millis()),
            Some(status) if !status.success() => bail!("the probe ended with {status}"),
            // Something that left the probe's group may hold the pipe open for ever; the agent does not wait for it.
            Some(_) => {
                printed.recv_timeout(self.timeout).context("the probe's output does not end")?
            }
        }
        .context("could not read what the probe prints")
    }
}

impl Meter for Probe {
    fn read(&mut self) -> Result<Vec<DeviceReading>> {
        let text = self.run()?;
        let printed: Printed =
            serde_json::from_str(&text).context("the probe prints something else than devices")?;
        let mut seen = std::collections::BTreeSet::new();
        for device in &printed.devices {
            if usize::from(device.index) >= self.devices {
                bail!(
                    "the probe prints device {}, and this runner has {}",
                    device.index,
                    self.devices
                );
            }
            if !seen.insert(device.index) {
                bail!("the probe prints device {} twice", device.index);
            }
        }
        Ok(printed.devices)
    }
}

fn read_all(pipe: ChildStdout) -> io::Result<String> {
    let mut text = String::new();
    pipe.take(MOST_OUTPUT).read_to_string(&mut text)?;
    Ok(text)
}

fn wait(child: &mut Child, until: Instant) -> io::Result<Option<std::process::ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::meter::ProcessReading;

    fn probe(script: &str) -> (tempfile::TempDir, Probe) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("probe");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .expect("it can be made a program");
        let probe = Probe::new(path.to_str().expect("it is text"), Duration::from_millis(300), 2)
            .expect("a command");
        (folder, probe)
    }

    fn error(script: &str) -> String {
        let (_folder, mut probe) = probe(script);
        format!("{:#}", probe.read().expect_err(script))
    }

    #[test]
    fn what_is_printed_is_read() {
        let (_folder, mut probe) = probe(
            r#"echo '{"devices":[{"index":0,"used":123,"utilisation":5,"processes":[{"pid":1,"bytes":5},{"pid":2}]},{"index":1}]}'"#,
        );
        let devices = probe.read().expect("it is right");
        assert_eq!((devices[0].used, devices[0].utilisation), (Some(123), Some(5)));
        let processes =
            vec![ProcessReading { pid: 1, bytes: Some(5) }, ProcessReading { pid: 2, bytes: None }];
        assert_eq!(devices[0].processes, Some(processes));
        assert_eq!((devices[1].used, devices[1].processes.clone()), (None, None));
    }

    #[test]
    fn what_is_wrong_is_an_error_and_never_an_empty_answer() {
        for (script, part) in [
            ("exit 3", "exit status: 3"),
            ("echo no", "something else than devices"),
            ("echo '{}'", "something else than devices"),
            (r#"echo '{"devices":[{"index":2}]}'"#, "prints device 2, and this runner has 2"),
            (r#"echo '{"devices":[{"index":0},{"index":0}]}'"#, "device 0 twice"),
            (r#"echo '{"devices":[{"index":0,"used":-1}]}'"#, "something else than devices"),
        ] {
            assert!(error(script).contains(part), "{script}: {}", error(script));
        }
        let mut missing =
            Probe::new("/no/such/program -x", Duration::from_secs(1), 1).expect("a command");
        assert!(
            missing.read().expect_err("it is not there").to_string().contains("/no/such/program")
        );
        assert!(Probe::new("  ", Duration::from_secs(1), 1).is_err());
    }

    #[test]
    fn a_probe_that_hangs_is_ended_with_all_that_it_started() {
        let began = Instant::now();
        assert!(error("sleep 60 & sleep 60").contains("within 300 ms"));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
