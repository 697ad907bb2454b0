//! Names, sessions, tokens, and reactions to errors of the server.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use plimsoll_slots::wire::{FactsSource, SlotState};

use crate::server::Server;
use crate::world::{World, is_alive};

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_runner_registers_its_labels_and_devices() {
    let mut world = World::new();
    world.extra.extend(["--label", "zone=a", "--label", "gpu=a100"].map(str::to_owned));
    world.start();
    let registration = world.server.received(|received| received.registrations[0].clone());
    assert_eq!(
        (registration.labels["zone"].as_str(), registration.labels["gpu"].as_str()),
        ("a", "a100")
    );
    let device = &registration.devices[1];
    assert_eq!((device.uuid.as_deref(), device.total), (Some("GPU-b"), Some(80 << 30)));
    assert_eq!(device.source, FactsSource::Declared);
}

#[test]
fn sequences_and_sessions_increase() {
    let mut world = World::started();
    world.next_heartbeats(5);
    let beats = world.server.received(|received| received.heartbeats.clone());
    assert!(beats.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
    world.kill_agent();
    world.start();
    let sessions: Vec<u64> = world
        .server
        .received(|received| received.registrations.iter().map(|r| r.session).collect());
    assert!(sessions[0] < sessions[1], "{sessions:?}");
}

#[test]
fn orders_arrive_without_a_heartbeat_and_without_busy_polling() {
    let mut world = World::new();
    world.server.set_heartbeat(Duration::from_secs(600));
    world.start();
    std::thread::sleep(Duration::from_secs(2));
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_pids("s", 1);
    let (session, questions) = world
        .server
        .received(|received| (received.registrations[0].session, received.polls.clone()));
    assert!(
        questions.len() <= 3 && questions.iter().all(|polled| *polled == session),
        "{questions:?}"
    );
}

#[test]
fn a_second_agent_with_the_same_state_directory_is_rejected() {
    let world = World::started();
    let output = world.command().output().expect("the agent exits");
    assert!(error(&output).contains("another agent uses the state directory"), "{output:?}");
    world.next_heartbeats(2);
}

#[test]
fn a_superseded_agent_exits_and_leaves_its_model_servers_running() {
    let mut world = World::started();
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
    let pid = world.pids("s")[0];
    world.server.reject(Some(409));
    assert_eq!(world.wait_for_exit().code(), Some(2));
    assert!(
        world.log().contains("a later agent has registered under this name"),
        "{}",
        world.log()
    );
    assert!(is_alive(pid));
}

#[test]
fn a_runner_that_the_server_does_not_know_registers_again() {
    let world = World::started();
    world.next_heartbeats(1);
    world.server.reject_one_heartbeat(404, r#"{"code": "not_registered", "detail": "unknown"}"#);
    let sessions = sessions_of_two_registrations(&world);
    assert_eq!(sessions[0], sessions[1]);
    world.next_heartbeats(2);
}

#[test]
fn a_runner_that_an_operator_removed_registers_again_in_a_new_session() {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
    let pids = world.pids("s");
    world.server.reject_one_heartbeat(409, r#"{"code": "runner_removed", "detail": "removed"}"#);
    let sessions = sessions_of_two_registrations(&world);
    assert!(sessions[0] < sessions[1], "{sessions:?}");
    let heartbeat = world.next_heartbeats(2);
    assert_eq!((heartbeat.session, world.pids("s")), (sessions[1], pids));
}

fn sessions_of_two_registrations(world: &World) -> Vec<u64> {
    let sessions = world.server.wait(Duration::from_secs(10), |received| {
        let sessions = received.registrations.iter().map(|registration| registration.session);
        (sessions.len() == 2).then(|| sessions.collect())
    });
    sessions.unwrap_or_else(|| panic!("{}", world.log()))
}

#[test]
fn an_unavailable_server_does_not_affect_running_slots() {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
    let pids = world.pids("s");
    let before = world.server.received(|received| received.heartbeats.len());
    world.server.reject(Some(503));
    let many = world.server.received(|received| received.tokens.len()) + 4;
    world
        .server
        .wait(Duration::from_secs(10), |received| (received.tokens.len() > many).then_some(()))
        .expect("the agent retries");
    world.server.reject(None);
    let heartbeat = world.next_heartbeats(1);
    assert!(world.server.received(|received| received.heartbeats.len()) > before);
    assert_eq!((heartbeat.slots[0].state, world.pids("s")), (SlotState::Running, pids));
    assert_eq!(world.log().matches("retrying").count(), 1, "{}", world.log());
}

#[test]
fn a_rejected_token_ends_the_agent_only_before_the_first_registration() {
    let mut world = World::new();
    world.server.reject(Some(401));
    world.launch_agent();
    assert_eq!(world.wait_for_exit().code(), Some(2));
    assert!(world.log().contains("rejects the token of this runner (401)"), "{}", world.log());

    world.server.reject(None);
    world.start();
    world.next_heartbeats(1);
    world.server.reject(Some(403));
    let many = world.server.received(|received| received.tokens.len()) + 3;
    world
        .server
        .wait(Duration::from_secs(10), |received| (received.tokens.len() > many).then_some(()))
        .expect("the agent retries");
    world.server.reject(None);
    world.next_heartbeats(1);
}

#[test]
fn the_token_is_sent_and_not_logged() {
    let mut world = World::new();
    fs::write(world.path("token"), "s3cret-word\n").expect("the file is written");
    let file = world.path("token").display().to_string();
    world.extra.extend(["--token-file".to_owned(), file, "--log".to_owned(), "json".to_owned()]);
    world.start();
    world.next_heartbeats(2);
    let tokens = world.server.received(|received| received.tokens.clone());
    assert!(
        tokens.iter().all(|token| token.as_deref() == Some("Bearer s3cret-word")),
        "{tokens:?}"
    );
    assert!(!world.log().contains("s3cret-word"));
    assert!(world.log().lines().all(|line| line.starts_with('{')), "{}", world.log());
}

#[test]
fn a_server_is_trusted_only_with_its_certificate() {
    let pair =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.signing_key.serialize_der())
        .expect("a key");
    let mut world = World::new();
    world.server = Server::start_tls(pair.cert.der().clone(), key);
    world.launch_agent();
    world.wait_log("is not trusted; if it is your own, give its authority with --ca-file");
    world.kill_agent();
    assert!(world.server.received(|received| received.registrations.is_empty()));

    fs::write(world.path("ca.pem"), pair.cert.pem()).expect("the file is written");
    let file = world.path("ca.pem").display().to_string();
    world.extra.extend(["--ca-file".to_owned(), file]);
    world.start();
    world.next_heartbeats(2);
}

#[test]
fn a_token_is_not_sent_unencrypted_to_another_machine() {
    let world = World::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["runner", "--server", "http://192.0.2.1:1", "--state"]).arg(world.path("state"));
    let output = command.env("PLIMSOLL_TOKEN", "s3cret-word").output().expect("the agent exits");
    let text = error(&output);
    assert!(text.contains("unencrypted to 192.0.2.1") && !text.contains("s3cret-word"), "{text}");
}

#[test]
fn without_a_driver_and_a_declaration_the_error_says_what_to_do() {
    if Path::new("/proc/driver/nvidia").exists() {
        return;
    }
    let world = World::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["runner", "--server", "http://127.0.0.1:1", "--state"]).arg(world.path("state"));
    let began = Instant::now();
    let text = error(&command.output().expect("the agent exits"));
    assert!(text.contains("--devices") && text.contains("\"memory\":\"80GiB\""), "{text}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn orders_of_a_server_that_was_restored_from_a_copy_are_applied() {
    let world = World::started();
    world.server.order_as(50, vec![]);
    world.next_heartbeats(2);
    world.server.order_as(3, vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
}
