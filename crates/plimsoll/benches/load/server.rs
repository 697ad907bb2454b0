//! The server itself, as a process of its own, and what it takes of memory and disk.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::http::Client;

/// No request is rate limited, and a connection may be idle between two phases.
const CONFIG: &str =
    "limits: {requests_per_second: 1000000, burst: 1000000, header_timeout: 10m}\n";

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    data: PathBuf,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts it with an empty data directory under `dir`, and waits until it is ready.
    pub(crate) fn start(dir: &Path) -> Server {
        let (config, data) = (dir.join("plimsoll.yaml"), dir.join("data"));
        fs::write(&config, CONFIG).expect("a configuration");
        let address = free_address();
        let log = fs::File::create(dir.join("log")).expect("a log");
        let built = env!("CARGO_BIN_EXE_plimsoll").to_string();
        let child = Command::new(std::env::var("PLIMSOLL_LOAD_SERVER").unwrap_or(built))
            .args(["serve", "--listen", &address.to_string(), "--config"])
            .arg(&config)
            .arg("--data")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let server = Server { child, data, address };
        server.wait();
        server
    }

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(self.address).is_err()
            || Client::new(self.address).send("GET", "/readyz", "").status != 200
        {
            assert!(Instant::now() < until, "the server is not ready after 30 s");
            sleep(Duration::from_millis(20));
        }
    }

    /// Its memory, in MiB.
    pub(crate) fn memory(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
    }

    /// The processor time that it has used, in seconds.
    pub(crate) fn processor_time(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let after_name = stat.rsplit(')').next().expect("a name");
        let ticks = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<f64>().expect("ticks"));
        ticks.sum::<f64>() / 100.0
    }

    /// The size of its data directory, in MiB.
    pub(crate) fn disk(&self) -> u64 {
        let files = fs::read_dir(&self.data).expect("a data directory").flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>() >> 20
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which the measurement has told by then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}
