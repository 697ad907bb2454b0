//! A real control plane on free ports of the loopback interface.

mod flags;
mod users;

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

pub use users::User;

use crate::api::Api;
use crate::certificates::Authority;
use crate::client::Client;
use crate::process::Process;
use crate::programs::Programs;

/// The longest wait until a component is ready: a start takes 3 s on an idle machine.
const READY: Duration = Duration::from_secs(120);

/// The time that a component gets to terminate cleanly.
const TERMINATE: Duration = Duration::from_secs(20);

/// Attempts to start on other ports: another process can take a port that was free.
const ATTEMPTS: usize = 3;

/// The programs of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    Etcd,
    ApiServer,
    Scheduler,
}

/// The way that a component ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM, as in a rolling restart.
    Clean,
    /// SIGKILL, as in a crash.
    Killed,
}

/// Treatment of written data by etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Written to disk before it is acknowledged.
    Synced,
    /// Left to the operating system, which survives a killed etcd: several times faster.
    #[default]
    Buffered,
}

/// Settings of a control plane.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub durability: Durability,
    /// Users beside those of [`User::defaults`].
    pub users: Vec<User>,
    /// Flags of kube-apiserver that are appended, such as `--feature-gates=GenericWorkload=true`.
    pub api_server_flags: Vec<String>,
}

/// A control plane that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot prepare the folder of the control plane")]
    Folder(#[from] io::Error),
    #[error("cannot make certificates")]
    Certificates(#[from] rcgen::Error),
    #[error("{component:?} is not ready: {state}\n{log}")]
    NotReady { component: Component, state: String, log: String },
}

/// Running components. They are killed, and their data is removed, when this is dropped or the
/// test process ends.
#[derive(Debug)]
pub struct ControlPlane {
    programs: Programs,
    settings: Settings,
    users: Vec<User>,
    authority: Authority,
    ports: Ports,
    etcd: Option<Process>,
    api_server: Option<Process>,
    scheduler: Option<Process>,
    // Dropped last, after the processes that write into it.
    folder: tempfile::TempDir,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    etcd: u16,
    etcd_peer: u16,
    api_server: u16,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver, and returns when the API server is ready.
    ///
    /// # Errors
    ///
    /// [`StartError`] with the end of the log of the component that failed.
    pub fn start(programs: &Programs, settings: &Settings) -> Result<Self, StartError> {
        let mut attempt = 1;
        loop {
            let mut plane = Self::prepare(programs, settings)?;
            let started = plane.start_component(Component::Etcd);
            match started.and_then(|()| plane.start_component(Component::ApiServer)) {
                Ok(()) => return Ok(plane),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    fn prepare(programs: &Programs, settings: &Settings) -> Result<Self, StartError> {
        let mut users = User::defaults();
        users.extend(settings.users.iter().cloned());
        let plane = ControlPlane {
            programs: programs.clone(),
            settings: settings.clone(),
            users,
            authority: Authority::new()?,
            ports: Ports { etcd: free_port()?, etcd_peer: free_port()?, api_server: free_port()? },
            etcd: None,
            api_server: None,
            scheduler: None,
            folder: tempfile::Builder::new().prefix("plimsoll-testbed-").tempdir()?,
        };
        plane.write_files()?;
        Ok(plane)
    }

    fn write_files(&self) -> Result<(), StartError> {
        let server = self.authority.server()?;
        let service_accounts = rcgen::KeyPair::generate()?;
        let tokens: String = self.users.iter().map(User::token_line).collect();
        let files = [
            ("ca.crt", self.authority.certificate.clone()),
            ("server.crt", server.certificate),
            ("server.key", server.key),
            ("service-accounts.pub", service_accounts.public_key_pem()),
            ("service-accounts.key", service_accounts.serialize_pem()),
            ("tokens.csv", tokens),
            ("scheduler.json", flags::scheduler_config(&self.file("scheduler.kubeconfig"))),
        ];
        for (name, text) in files {
            fs::write(self.file(name), text)?;
        }
        for user in &self.users {
            let config = user.kubeconfig(&self.url(), &self.file("ca.crt")).to_string();
            fs::write(self.kubeconfig(&user.name), config)?;
        }
        Ok(())
    }

    /// Starts a component that does not run, and returns when it is ready.
    ///
    /// # Errors
    ///
    /// [`StartError`] with the end of its log.
    pub fn start_component(&mut self, component: Component) -> Result<(), StartError> {
        let mut command = vec![self.programs.path(component.program()).display().to_string()];
        command.extend(flags::command_line(self, component));
        let log = self.file(&format!("{}.log", component.program()));
        *self.slot(component) = Some(Process::start(&command, &log)?);
        self.wait_until_ready(component)
    }

    /// Ends a component.
    pub fn stop_component(&mut self, component: Component, ending: Ending) {
        if let Some(mut process) = self.slot(component).take() {
            match ending {
                Ending::Clean => process.terminate(TERMINATE),
                Ending::Killed => process.kill(),
            }
        }
    }

    /// Ends a component and starts it again on the same ports and data.
    ///
    /// # Errors
    ///
    /// [`StartError`] with the end of its log.
    pub fn restart(&mut self, component: Component, ending: Ending) -> Result<(), StartError> {
        self.stop_component(component, ending);
        self.start_component(component)
    }

    /// Returns the process of a component that runs.
    pub fn process(&self, component: Component) -> Option<&Process> {
        match component {
            Component::Etcd => self.etcd.as_ref(),
            Component::ApiServer => self.api_server.as_ref(),
            Component::Scheduler => self.scheduler.as_ref(),
        }
    }

    /// Returns the address of the API server.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api_server)
    }

    /// Returns the certificate, in PEM, of the authority that signed the API server.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the folder of logs, keys and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a client of the user with this name.
    ///
    /// # Panics
    ///
    /// If there is no such user.
    pub fn client(&self, user: &str) -> Client {
        let token = &self.user(user).token;
        Client::new(&self.url(), &self.authority.certificate, token)
    }

    /// Returns the client of the administrator.
    pub fn admin(&self) -> Client {
        self.client(users::ADMIN)
    }

    /// Returns the kubeconfig file of a user.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.file(&format!("{user}.kubeconfig"))
    }

    /// Returns kubectl as a user, with nothing of the machine's own settings.
    pub fn kubectl(&self, user: &str) -> Command {
        let mut command = Command::new(self.programs.path("kubectl"));
        command.env_remove("KUBECONFIG").env("HOME", self.folder()).arg("--kubeconfig");
        command.arg(self.kubeconfig(user));
        command
    }

    /// Discards the history of etcd up to its current revision, so that older watches fail.
    ///
    /// # Errors
    ///
    /// A message if etcd does not answer, or rejects the request.
    pub fn compact(&self) -> Result<(), String> {
        let url = format!("http://127.0.0.1:{}/v3/kv", self.ports.etcd);
        let ask = |path: &str, body: serde_json::Value| {
            let answer = ureq::post(format!("{url}/{path}")).send_json(body);
            let mut answer = answer.map_err(|error| format!("{path}: {error}"))?;
            let body = answer.body_mut().read_json::<serde_json::Value>();
            body.map_err(|error| format!("{path}: {error}"))
        };
        // A range over no key: the header of the answer has the revision. Keys are in base64.
        let found = ask("range", json!({"key": "AA=="}))?;
        let revision = &found["header"]["revision"];
        ask("compaction", json!({"revision": revision, "physical": true})).map(|_| ())
    }

    fn user(&self, name: &str) -> &User {
        let user = self.users.iter().find(|user| user.name == name);
        user.unwrap_or_else(|| panic!("the control plane has no user {name}"))
    }

    fn slot(&mut self, component: Component) -> &mut Option<Process> {
        match component {
            Component::Etcd => &mut self.etcd,
            Component::ApiServer => &mut self.api_server,
            Component::Scheduler => &mut self.scheduler,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn wait_until_ready(&mut self, component: Component) -> Result<(), StartError> {
        let deadline = Instant::now() + READY;
        loop {
            let state = match self.probe(component) {
                Ok(()) => return Ok(()),
                Err(state) => state,
            };
            let process = self.slot(component).as_mut().expect("the component was started");
            let state = match process.exited() {
                Some(status) => format!("it exited with {status}"),
                None if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(50));
                    continue;
                }
                None => state,
            };
            let log = process.log_tail();
            return Err(StartError::NotReady { component, state, log });
        }
    }

    /// Checks once that a component is ready. kube-scheduler serves no port here; that it
    /// schedules shows that it is ready.
    fn probe(&self, component: Component) -> Result<(), String> {
        match component {
            Component::Etcd => {
                let url = format!("http://127.0.0.1:{}/health", self.ports.etcd);
                ureq::get(url).call().map(|_| ()).map_err(|error| error.to_string())
            }
            Component::ApiServer => {
                self.admin().get("/readyz").map(|_| ()).map_err(|error| error.to_string())
            }
            Component::Scheduler => Ok(()),
        }
    }
}

impl Component {
    fn program(self) -> &'static str {
        match self {
            Component::Etcd => "etcd",
            Component::ApiServer => "kube-apiserver",
            Component::Scheduler => "kube-scheduler",
        }
    }
}

/// Returns a port that was free a moment ago.
///
/// # Errors
///
/// Any error of the socket.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
