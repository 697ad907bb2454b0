//! Start of a model server: checks of the launch, its arguments and environment, and the process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use plimsoll_slots::template;
use plimsoll_slots::wire::{DeviceFacts, Launch, LaunchDevice, Start, StartCommand};

use super::listen::{ListenConfig, NoFreePort};
use super::processes::ENV_PORT;

/// Variables that confine a CUDA or ROCm process to devices. Empty, they hide all devices.
const CUDA_AND_ROCM: [&str; 3] =
    ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Variables that confine a process of another vendor's runtime to devices.
const OTHER_VENDORS: [&str; 2] = ["ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES"];

/// The variable that container runtimes obey. It does not confine a plain process, but it must not
/// contradict the placement.
const FOR_CONTAINERS: &str = "NVIDIA_VISIBLE_DEVICES";

/// Variables of the agent that a model server inherits.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// Reason why a slot is not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("not started: this runner is shutting down")]
    RunnerEnding,
    #[error("not started: {0}")]
    Launch(#[from] LaunchError),
    #[error("not started: {0}")]
    Port(#[from] NoFreePort),
    #[error("not started: cannot write its record")]
    Record(#[source] io::Error),
    #[error("not started: cannot create its log")]
    Log(#[source] io::Error),
    #[error("not started: cannot run {program}")]
    Spawn { program: String, source: io::Error },
}

/// Reason why a launch is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("placed on GPU {index}, but this runner has {count} GPUs")]
    NoSuchDevice { index: u16, count: usize },
    #[error("placed on {wanted}, but GPU {index} {}", describe_uuid(actual.as_deref()))]
    OtherDevice { index: u16, wanted: String, actual: Option<String> },
    #[error(
        "no environment variable confines it to its GPUs; set one of {}, {}",
        CUDA_AND_ROCM.join(", "),
        OTHER_VENDORS.join(", ")
    )]
    Unconfined,
    #[error("{variable} is \"{value}\", but the slot is placed on {placed_on}")]
    ConfinedElsewhere { variable: &'static str, value: String, placed_on: String },
    /// The server could not render the charge into flags of the runtime.
    #[error("{field}: {problem}")]
    Invalid { field: String, problem: String },
    #[error("the server did not send a command for it")]
    NoCommand,
    #[error("its command names no program")]
    NoProgram,
}

fn describe_uuid(uuid: Option<&str>) -> String {
    uuid.map_or("has no UUID".to_owned(), |uuid| format!("is {uuid}"))
}

/// Returns the command of a launch, if there is one and its process would use exactly the devices
/// that are charged.
pub(crate) fn checked_command<'a>(
    launch: &'a Launch,
    devices: &[DeviceFacts],
) -> Result<&'a StartCommand, LaunchError> {
    let command = match &launch.start {
        Start::Command(command) => command,
        Start::Invalid { field, problem } => {
            let (field, problem) = (field.clone(), problem.clone());
            return Err(LaunchError::Invalid { field, problem });
        }
        Start::Unknown => return Err(LaunchError::NoCommand),
    };
    if command.argv.first().is_none_or(String::is_empty) {
        return Err(LaunchError::NoProgram);
    }
    for placed in &launch.devices {
        let index = placed.index;
        let device = devices.get(usize::from(index));
        let device = device.ok_or(LaunchError::NoSuchDevice { index, count: devices.len() })?;
        if let Some(wanted) = &placed.uuid
            && device.uuid.as_ref() != Some(wanted)
        {
            let (wanted, actual) = (wanted.clone(), device.uuid.clone());
            return Err(LaunchError::OtherDevice { index, wanted, actual });
        }
    }
    let placed = launch.devices.iter().map(|device| device.index).collect();
    check_confinement(command, &placed, devices)?;
    Ok(command)
}

/// Checks that a variable confines the process to its devices, and that no variable names others.
fn check_confinement(
    command: &StartCommand,
    placed: &BTreeSet<u16>,
    devices: &[DeviceFacts],
) -> Result<(), LaunchError> {
    let confining = || CUDA_AND_ROCM.into_iter().chain(OTHER_VENDORS);
    for variable in confining().chain([FOR_CONTAINERS]) {
        let Some(value) = command.env.get(variable) else { continue };
        let names_none = placed.is_empty() && (value == "void" || value == "none");
        if !names_none && named_devices(value, placed, devices).as_ref() != Some(placed) {
            let placed_on = describe_devices(placed, devices);
            let value = value.clone();
            return Err(LaunchError::ConfinedElsewhere { variable, value, placed_on });
        }
    }
    let is_confined = confining().any(|variable| command.env.contains_key(variable));
    if placed.is_empty() || is_confined { Ok(()) } else { Err(LaunchError::Unconfined) }
}

/// Parses a list of indices or UUIDs. Returns `None` if it names a device that the slot is not
/// placed on.
fn named_devices(
    value: &str,
    placed: &BTreeSet<u16>,
    devices: &[DeviceFacts],
) -> Option<BTreeSet<u16>> {
    let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let mut placed = placed.iter().copied();
            placed.find(|index| uuid(devices, *index) == Some(word) || word == index.to_string())
        })
        .collect()
}

fn describe_devices(placed: &BTreeSet<u16>, devices: &[DeviceFacts]) -> String {
    if placed.is_empty() {
        return "no GPU".to_owned();
    }
    let names = placed
        .iter()
        .map(|index| uuid(devices, *index).map_or_else(|| index.to_string(), str::to_owned));
    names.collect::<Vec<String>>().join(",")
}

fn uuid(devices: &[DeviceFacts], index: u16) -> Option<&str> {
    devices.get(usize::from(index))?.uuid.as_deref()
}

/// Returns true if the command uses `{port}`.
pub(crate) fn needs_port(command: &StartCommand) -> bool {
    command.argv.iter().chain(command.env.values()).any(|text| text.contains("{port}"))
}

/// Replaces `{host}` and `{port}`, and unescapes doubled braces. In a text that is not a valid
/// template other braces stay as they are.
pub(crate) fn fill_placeholders(text: &str, listen: &ListenConfig, port: Option<u16>) -> String {
    let host = listen.address.to_string();
    let port = port.map_or("{port}".to_owned(), |port| port.to_string());
    template::finish(text, &host, &port)
        .unwrap_or_else(|_| text.replace("{host}", &host).replace("{port}", &port))
}

/// Returns the complete environment of a model server: the inherited variables, those of its
/// command, and the tags of the slot.
pub(crate) fn build_environment(
    command: &StartCommand,
    placed: &[LaunchDevice],
    listen: &ListenConfig,
    port: Option<u16>,
    tags: &[(&str, String)],
) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    for name in INHERITED {
        environment.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
    }
    if placed.is_empty() {
        // Most runtimes use all devices that they see, and this slot has none.
        environment.extend(CUDA_AND_ROCM.map(|name| (name.to_owned(), String::new())));
        environment.insert(FOR_CONTAINERS.to_owned(), "void".to_owned());
    }
    for (name, value) in &command.env {
        environment.insert(name.clone(), fill_placeholders(value, listen, port));
    }
    environment.extend(tags.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    environment.extend(port.map(|port| (ENV_PORT.to_owned(), port.to_string())));
    environment
}

/// Starts the program in a process group of its own, so that it survives the agent and can be
/// signalled as a whole.
pub(crate) fn spawn(
    argv: &[String],
    environment: &BTreeMap<String, String>,
    log: &File,
) -> Result<Child, StartError> {
    let (program, args) = argv.split_first().ok_or(LaunchError::NoProgram)?;
    let (stdout, stderr) =
        log.try_clone().and_then(|out| Ok((out, log.try_clone()?))).map_err(StartError::Log)?;
    Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()
        .map_err(|source| StartError::Spawn { program: program.clone(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::tests::listen_config;
    use crate::state_dir::tests::{command, launch as blank_launch};

    const CUDA: &str = "CUDA_VISIBLE_DEVICES";

    fn device(uuid: Option<&str>) -> DeviceFacts {
        DeviceFacts { uuid: uuid.map(str::to_owned), ..DeviceFacts::new("", 1) }
    }

    fn launch(devices: &[(u16, Option<&str>)], env: &[(&str, &str)]) -> Launch {
        let placed = devices.iter().map(|(index, uuid)| LaunchDevice {
            index: *index,
            uuid: uuid.map(str::to_owned),
            bytes: Some(1),
            total: None,
        });
        let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let start = Start::Command(StartCommand { env: env.collect(), ..command() });
        Launch { devices: placed.collect(), start, ..blank_launch() }
    }

    /// Checks a launch on a runner with GPU-a, GPU-b and a device without UUID.
    fn check(devices: &[(u16, Option<&str>)], env: &[(&str, &str)]) -> Result<(), String> {
        let has = [device(Some("GPU-a")), device(Some("GPU-b")), device(None)];
        checked_command(&launch(devices, env), &has).map(drop).map_err(|error| error.to_string())
    }

    fn environment(
        launch: &Launch,
        port: Option<u16>,
        tags: &[(&str, String)],
    ) -> BTreeMap<String, String> {
        let Start::Command(command) = &launch.start else { panic!("no command") };
        build_environment(command, &launch.devices, &listen_config(), port, tags)
    }

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay_single() {
        let listen = listen_config();
        for (text, expected) in [
            ("--port={port}", "--port=81"),
            ("http://{host}:{port}", "http://127.0.0.1:81"),
            (r#"{{"a":{{}}}}"#, r#"{"a":{}}"#),
            (r#"{"a":"{port}"}"#, r#"{"a":"81"}"#),
        ] {
            assert_eq!(fill_placeholders(text, &listen, Some(81)), expected);
        }
        assert_eq!(fill_placeholders("{port}", &listen, None), "{port}");
    }

    #[test]
    fn a_launch_that_is_confined_to_its_devices_is_accepted() {
        for (devices, value) in [
            (&[(0, Some("GPU-a"))][..], "GPU-a"),
            (&[(0, None)], "0"),
            (&[(0, Some("GPU-a")), (1, Some("GPU-b"))], "GPU-b, GPU-a"),
            (&[(2, None)], "2"),
            (&[], ""),
        ] {
            assert_eq!(check(devices, &[(CUDA, value)]), Ok(()), "{value}");
        }
        assert_eq!(check(&[], &[]), Ok(()));
    }

    #[test]
    fn a_launch_for_other_devices_or_without_confinement_is_rejected() {
        for (devices, env, part) in [
            (&[(3, None)][..], &[(CUDA, "3")][..], "placed on GPU 3, but this runner has 3 GPUs"),
            (&[(0, Some("GPU-b"))], &[(CUDA, "GPU-b")], "placed on GPU-b, but GPU 0 is GPU-a"),
            (&[(2, Some("GPU-c"))], &[(CUDA, "GPU-c")], "GPU 2 has no UUID"),
            (&[(0, None)], &[], "no environment variable confines it"),
            (
                &[(0, None)],
                &[("NVIDIA_VISIBLE_DEVICES", "GPU-a")],
                "no environment variable confines it",
            ),
            (
                &[(0, None)],
                &[(CUDA, "GPU-b")],
                "CUDA_VISIBLE_DEVICES is \"GPU-b\", but the slot is placed on GPU-a",
            ),
            (&[(0, None)], &[(CUDA, "")], "is \"\", but the slot is placed on GPU-a"),
            (&[(0, None)], &[(CUDA, "GPU-a,GPU-b")], "placed on GPU-a"),
            (&[(0, None)], &[(CUDA, "GPU-a"), ("NVIDIA_VISIBLE_DEVICES", "all")], "is \"all\""),
            (&[], &[(CUDA, "0")], "placed on no GPU"),
        ] {
            let error = check(devices, env).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_launch_without_a_program_is_rejected() {
        let (field, problem) = ("kv".to_owned(), "not supported".to_owned());
        let no_program = Start::Command(StartCommand { argv: Vec::new(), ..command() });
        for (start, message) in [
            (Start::Invalid { field, problem }, "kv: not supported"),
            (Start::Unknown, "the server did not send a command for it"),
            (no_program, "its command names no program"),
        ] {
            let launch = Launch { start, ..blank_launch() };
            let error = checked_command(&launch, &[]).expect_err(message);
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn the_environment_is_minimal_and_tagged() {
        let launch = launch(&[(0, None)], &[("A", "{host}:{port}"), ("PLIMSOLL_SLOT", "another")]);
        let tags = [("PLIMSOLL_SLOT", "s".to_owned())];
        let environment = environment(&launch, Some(81), &tags);
        assert_eq!(environment["A"], "127.0.0.1:81");
        assert_eq!(environment["PLIMSOLL_SLOT"], "s");
        let allowed = ["A", "PATH", "HOME", "LANG", "PLIMSOLL_SLOT", "PLIMSOLL_PORT"];
        assert!(environment.keys().all(|name| allowed.contains(&name.as_str())), "{environment:?}");
    }

    #[test]
    fn a_slot_without_devices_sees_none() {
        let environment = environment(&launch(&[], &[]), None, &[]);
        assert_eq!(environment[CUDA], "");
        assert_eq!(environment["NVIDIA_VISIBLE_DEVICES"], "void");
    }
}
