//! Child processes that end with the process that started them, even if that one is killed.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Runs a program and kills it once standard input closes, which happens when the test process ends
/// for any reason. A parent-death signal would need unsafe code, and fires when the *thread* that
/// started the program ends.
const SUPERVISOR: &str = r#"
exec 3<&0
log=$1
shift
"$@" >>"$log" 2>&1 3<&- &
child=$!
{ cat <&3; kill -9 $child; } >/dev/null 2>&1 &
guard=$!
echo $child
wait $child
code=$?
kill $guard 2>/dev/null
exit $code
"#;

/// A running program with its log.
#[derive(Debug)]
pub struct Process {
    supervisor: Child,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts a program that appends its output to `log`.
    ///
    /// # Errors
    ///
    /// Any error while starting the supervising shell.
    pub fn start(command: &[String], log: &Path) -> io::Result<Self> {
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(log)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = supervisor.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the shell printed no process id"))?;
        Ok(Process { supervisor, pid, log: log.to_owned() })
    }

    /// Returns the process id of the program.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the exit status if the program has exited.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.supervisor.try_wait().ok().flatten()
    }

    /// Kills the program, and returns when it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.supervisor.wait();
    }

    /// Asks the program to terminate, and kills it if it does not within the given time.
    pub fn terminate(&mut self, within: Duration) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + within;
        while self.exited().is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    /// Stops the program without its knowledge, as a suspended machine would.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues a paused program.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Returns the last lines that the program printed.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        // A program that has exited cannot be signalled, and needs no signal.
        let _ = kill_process(self.pid, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;

    fn sleeper(folder: &Path) -> Process {
        let command = ["sleep".to_owned(), "600".to_owned()];
        Process::start(&command, &folder.join("log")).expect("sh and sleep are installed")
    }

    fn ends(pid: Pid) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while test_kill_process(pid).is_ok() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        test_kill_process(pid).is_err()
    }

    #[test]
    fn a_program_ends_with_its_handle() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut process = sleeper(folder.path());
        assert_eq!(process.exited(), None);
        let pid = process.pid();
        drop(process);
        assert!(ends(pid), "{pid:?} still runs");
    }

    #[test]
    fn a_program_ends_when_the_pipe_of_a_killed_test_closes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut process = sleeper(folder.path());
        assert!(process.supervisor.stdin.take().is_some());
        assert!(ends(process.pid()), "{:?} still runs", process.pid());
    }

    #[test]
    fn the_exit_and_the_output_of_a_program_are_known() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let command = ["sh", "-c", "echo failed; exit 7"].map(str::to_owned);
        let mut process = Process::start(&command, &folder.path().join("log")).expect("sh");
        let deadline = Instant::now() + Duration::from_secs(10);
        while process.exited().is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(process.exited().and_then(|status| status.code()), Some(7));
        assert_eq!(process.log_tail(), "failed");
    }
}
