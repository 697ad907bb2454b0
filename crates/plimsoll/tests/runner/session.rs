//! Names, sessions and tokens: who may speak as this runner, and what it does when the server says no.

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
fn a_runner_says_what_it_is() {
    let mut world = World::new();
    world.extra.extend(["--label", "zone=a", "--label", "gpu=a100"].map(str::to_owned));
    world.start();
    let registration = world.server.heard(|said| said.registrations[0].clone());
    assert_eq!(
        (registration.labels["zone"].as_str(), registration.labels["gpu"].as_str()),
        ("a", "a100")
    );
    let device = &registration.devices[1];
    assert_eq!((device.uuid.as_deref(), device.total), (Some("GPU-b"), Some(80 << 30)));
    assert_eq!(device.source, FactsSource::Declared);
}

#[test]
fn heartbeats_count_up_and_sessions_too() {
    let mut world = World::started();
    world.beats(5);
    let beats = world.server.heard(|said| said.beats.clone());
    assert!(beats.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
    world.kill_agent();
    world.start();
    let sessions: Vec<u64> =
        world.server.heard(|said| said.registrations.iter().map(|r| r.session).collect());
    assert!(sessions[0] < sessions[1], "{sessions:?}");
}

#[test]
fn orders_come_at_once_where_nothing_is_to_be_reported_and_are_not_asked_for_all_the_time() {
    let mut world = World::new();
    world.server.beat_every(Duration::from_secs(600));
    world.start();
    std::thread::sleep(Duration::from_secs(2));
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_pids("s", 1);
    let (session, questions) =
        world.server.heard(|said| (said.registrations[0].session, said.questions.clone()));
    assert!(
        questions.len() <= 3 && questions.iter().all(|asked| *asked == session),
        "{questions:?}"
    );
}

#[test]
fn a_second_agent_with_the_same_state_is_refused() {
    let world = World::started();
    let output = world.command().output().expect("it ends");
    assert!(error(&output).contains("another agent uses the state directory"), "{output:?}");
    world.beats(2);
}

#[test]
fn an_agent_that_a_later_one_has_replaced_ends_and_leaves_its_model_servers() {
    let mut world = World::started();
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
    let pid = world.pids("s")[0];
    world.server.refuse(Some(409));
    assert_eq!(world.agent_ends().code(), Some(2));
    assert!(
        world.log().contains("a later agent has registered under this name"),
        "{}",
        world.log()
    );
    assert!(is_alive(pid));
}

#[test]
fn a_runner_that_the_server_has_forgotten_registers_again() {
    let world = World::started();
    world.beats(1);
    world.server.refuse_one_beat(404);
    let twice = world
        .server
        .wait(Duration::from_secs(10), |said| (said.registrations.len() == 2).then_some(()));
    assert!(twice.is_some(), "{}", world.log());
    world.beats(2);
}

#[test]
fn a_server_that_is_away_changes_nothing_for_what_runs() {
    let world = World::started();
    world.server.order(vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
    let pids = world.pids("s");
    let before = world.server.heard(|said| said.beats.len());
    world.server.refuse(Some(503));
    let many = world.server.heard(|said| said.tokens.len()) + 4;
    world
        .server
        .wait(Duration::from_secs(10), |said| (said.tokens.len() > many).then_some(()))
        .expect("it goes on");
    world.server.refuse(None);
    let beat = world.beats(1);
    assert!(world.server.heard(|said| said.beats.len()) > before);
    assert_eq!((beat.slots[0].state, world.pids("s")), (SlotState::Running, pids));
    assert_eq!(world.log().matches("trying again").count(), 1, "{}", world.log());
}

#[test]
fn a_wrong_token_ends_the_agent_at_first_and_later_does_not() {
    let mut world = World::new();
    world.server.refuse(Some(401));
    world.launch_agent();
    assert_eq!(world.agent_ends().code(), Some(2));
    assert!(world.log().contains("refuses this runner's token (401)"), "{}", world.log());

    world.server.refuse(None);
    world.start();
    world.beats(1);
    world.server.refuse(Some(403));
    let many = world.server.heard(|said| said.tokens.len()) + 3;
    world
        .server
        .wait(Duration::from_secs(10), |said| (said.tokens.len() > many).then_some(()))
        .expect("it goes on");
    world.server.refuse(None);
    world.beats(1);
}

#[test]
fn the_token_is_sent_and_never_logged() {
    let mut world = World::new();
    fs::write(world.path("token"), "s3cret-word\n").expect("it can be written");
    let file = world.path("token").display().to_string();
    world.extra.extend(["--token-file".to_owned(), file, "--log".to_owned(), "json".to_owned()]);
    world.start();
    world.beats(2);
    let tokens = world.server.heard(|said| said.tokens.clone());
    assert!(
        tokens.iter().all(|token| token.as_deref() == Some("Bearer s3cret-word")),
        "{tokens:?}"
    );
    assert!(!world.log().contains("s3cret-word"));
    assert!(world.log().lines().all(|line| line.starts_with('{')), "{}", world.log());
}

#[test]
fn a_server_is_trusted_by_its_certificate_and_not_without() {
    let pair =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.signing_key.serialize_der())
        .expect("a key");
    let mut world = World::new();
    world.server = Server::start_tls(pair.cert.der().clone(), key);
    world.launch_agent();
    world.wait_log("the server does not answer");
    world.kill_agent();
    assert!(world.server.heard(|said| said.registrations.is_empty()));

    fs::write(world.path("ca.pem"), pair.cert.pem()).expect("it can be written");
    let file = world.path("ca.pem").display().to_string();
    world.extra.extend(["--ca-file".to_owned(), file]);
    world.start();
    world.beats(2);
}

#[test]
fn a_token_does_not_go_unencrypted_to_another_machine() {
    let world = World::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["runner", "--server", "http://192.0.2.1:1", "--state"]).arg(world.path("state"));
    let output = command.env("PLIMSOLL_TOKEN", "s3cret-word").output().expect("it ends");
    let text = error(&output);
    assert!(text.contains("unencrypted to 192.0.2.1") && !text.contains("s3cret-word"), "{text}");
}

#[test]
fn without_a_driver_or_a_list_the_agent_says_what_to_do() {
    if Path::new("/proc/driver/nvidia").exists() {
        return;
    }
    let world = World::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(["runner", "--server", "http://127.0.0.1:1", "--state"]).arg(world.path("state"));
    let began = Instant::now();
    let text = error(&command.output().expect("it ends"));
    assert!(text.contains("--devices") && text.contains("\"memory\":\"80GiB\""), "{text}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_counts_anew_is_still_heard() {
    let world = World::started();
    world.server.order_as(50, vec![]);
    world.beats(2);
    world.server.order_as(3, vec![world.start_order("s", 1, "")]);
    world.wait_state("s", SlotState::Running);
}
