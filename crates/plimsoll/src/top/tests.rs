//! The screen as it is drawn at two sizes, compared with stored ones, and what keys do to it. `UPDATE_GOLDEN=1` rewrites them.

use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use plimsoll_core::units::Bytes;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde::de::DeserializeOwned;

use super::draw;
use super::fleet::Fleet;
use super::state::{State, View};
use crate::client::rows::{GpuRow, Moment, RunnerRow};

const NOW: Moment = Moment(1_800_000_000_000);

/// What a server said, with `AGO 90` as the time 90 seconds before now.
fn said<T: DeserializeOwned>(file: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/clients/said")
        .join(format!("{file}.json"));
    let text = std::fs::read_to_string(path).expect("it is stored");
    let mut parts = text.split("\"AGO ");
    let mut out = parts.next().expect("one part").to_string();
    for part in parts {
        let (seconds, rest) = part.split_once('"').expect("it is closed");
        let before: i64 = seconds.parse().expect("a number");
        let at = i64::try_from(NOW.0).expect("small") - before * 1000;
        out.push_str(&format!("{at}{rest}"));
    }
    serde_json::from_str(&out).expect("it is JSON")
}

fn fleet() -> Fleet {
    Fleet {
        runners: vec![said("gpu-a"), said("gpu-b")],
        queue: said("queue"),
        decisions: said("decisions"),
        asked_slots: Some(said("slots")),
        at: NOW,
    }
}

fn state(fleet: Fleet) -> State {
    State::new("http://127.0.0.1:8080", fleet, true)
}

fn drawn(state: &mut State, width: u16, height: u16) -> String {
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("no terminal is needed");
    terminal.draw(|frame| draw::draw(frame, state, NOW)).expect("it is drawn");
    let buffer = terminal.backend().buffer();
    let row = |y: u16| {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        format!("{}\n", line.trim_end())
    };
    (0..height).map(row).collect()
}

/// Compares the screens at both sizes with the stored ones.
fn check(name: &str, state: &mut State) {
    for (width, height) in [(80, 24), (120, 40)] {
        let screen = drawn(state, width, height);
        let file = format!("{name}-{width}x{height}.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/top").join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
            std::fs::write(&path, &screen).expect("golden files can be written");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == screen, "{} differs; it shows now:\n{screen}", path.display());
    }
}

fn press(state: &mut State, codes: &[KeyCode]) {
    for code in codes {
        assert!(state.key(KeyEvent::from(*code)), "{code:?} does not end it");
    }
}

#[test]
fn every_view_is_drawn_as_it_was() {
    let mut state = state(fleet());
    check("gpus", &mut state);
    press(&mut state, &[KeyCode::Char('j')]);
    check("gpu-over-its-line", &mut state);
    press(&mut state, &[KeyCode::Char('2')]);
    check("waiting", &mut state);
    press(&mut state, &[KeyCode::Tab]);
    check("decisions", &mut state);
    press(&mut state, &[KeyCode::Enter]);
    check("decision", &mut state);
    press(&mut state, &[KeyCode::Char('4')]);
    check("slots", &mut state);
    press(&mut state, &[KeyCode::Char('?')]);
    check("help", &mut state);
}

#[test]
fn slots_that_were_not_asked_for_yet_are_not_said_to_be_none() {
    let mut state = state(Fleet { asked_slots: None, ..fleet() });
    press(&mut state, &[KeyCode::Char('4')]);
    let screen = drawn(&mut state, 80, 24);
    assert!(screen.contains("asking for the slots") && !screen.contains("no slots"), "{screen}");
}

#[test]
fn an_empty_fleet_says_so_in_every_view() {
    let empty = Fleet {
        runners: Vec::new(),
        queue: Vec::new(),
        decisions: Vec::new(),
        asked_slots: Some(Vec::new()),
        at: NOW,
    };
    let mut state = state(empty);
    check("empty", &mut state);
    for (view, words) in
        View::ALL.iter().zip(["no runners", "nothing is pending", "no decisions yet", "no slots"])
    {
        assert_eq!(state.view, *view);
        let screen = drawn(&mut state, 80, 24);
        assert!(screen.contains(words), "{screen}");
        press(
            &mut state,
            &[KeyCode::Char('j'), KeyCode::End, KeyCode::Enter, KeyCode::Esc, KeyCode::Tab],
        );
    }
}

#[test]
fn long_names_and_unknown_sizes_stay_in_their_columns() {
    let mut fleet = fleet();
    fleet.runners[0].runner_id =
        "a-runner-with-a-name-that-is-longer-than-any-column-is-wide-enough-for".to_string();
    fleet.runners[0].gpus[0].tenants[0].namespace =
        "Organisation/Model-With-A-Very-Long-Name-".repeat(4);
    fleet.runners[0].gpus[1].usable = None;
    fleet.runners[0].gpus[1].over_by = None;
    fleet.runners[0].gpus[1].tenants[0].bytes = None;
    fleet.runners[1].runner_id = "\u{1b}[2Jüñï".to_string();
    fleet.queue[0].model = "Organisation/Model-With-A-Very-Long-Name".to_string();
    let mut state = state(fleet);
    check("long-names", &mut state);
    for line in drawn(&mut state, 80, 24).lines() {
        assert!(line.chars().count() <= 80 && !line.contains('\u{1b}'), "{line:?}");
    }
}

fn thousand() -> Fleet {
    let gpu =
        GpuRow { usable: Some(Bytes::gib(80)), held: Some(Bytes::gib(40)), ..GpuRow::default() };
    let runner = |number: usize| RunnerRow {
        runner_id: format!("runner-{number:04}"),
        status: Some("online".to_string()),
        gpu_count: 8,
        usable: Some(Bytes::gib(640)),
        free: Some(Bytes::gib(320)),
        // Of most only the number of GPUs is known so far.
        gpus: if number == 500 { vec![gpu.clone(); 8] } else { Vec::new() },
        ..RunnerRow::default()
    };
    Fleet { runners: (0..1000).map(runner).collect(), ..fleet() }
}

#[test]
fn a_thousand_runners_are_scrolled_and_only_those_on_the_screen_are_wanted() {
    let mut state = state(thousand());
    drawn(&mut state, 80, 24);
    assert_eq!(state.wanted().runners, ["runner-0000", "runner-0001"]);
    for _ in 0..4003 {
        press(&mut state, &[KeyCode::Down]);
    }
    check("thousand", &mut state);
    drawn(&mut state, 80, 24);
    assert!(state.wanted().runners.iter().any(|id| id == "runner-0500"));
    press(&mut state, &[KeyCode::End]);
    assert!(drawn(&mut state, 80, 24).contains(">runner-0999"));
    press(&mut state, &[KeyCode::PageUp, KeyCode::Home]);
    assert!(drawn(&mut state, 80, 24).contains(">runner-0000"));
    let started = std::time::Instant::now();
    for _ in 0..20 {
        drawn(&mut state, 200, 60);
    }
    assert!(
        started.elapsed().as_secs() < 10,
        "a frame costs what is on the screen: {:?}",
        started.elapsed()
    );
}

#[test]
fn any_size_of_screen_can_be_drawn_with_any_key_pressed() {
    let codes = [
        KeyCode::Enter,
        KeyCode::Down,
        KeyCode::PageDown,
        KeyCode::Up,
        KeyCode::Char('?'),
        KeyCode::Tab,
    ];
    let mut state = state(fleet());
    for (width, height) in [(1, 1), (2, 3), (10, 5), (20, 18), (39, 9), (300, 100)] {
        for code in codes {
            press(&mut state, &[code]);
            drawn(&mut state, width, height);
        }
    }
}

#[test]
fn keys_end_pause_and_help() {
    let mut state = state(fleet());
    assert!(!state.key(KeyEvent::from(KeyCode::Char('q'))));
    assert!(!state.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    press(&mut state, &[KeyCode::Char('p')]);
    let empty = Fleet { runners: Vec::new(), ..fleet() };
    state.take(Ok(Box::new(empty.clone())));
    assert_eq!(state.fleet.runners.len(), 2, "it stands still");
    assert!(drawn(&mut state, 120, 24).contains("paused"));
    press(&mut state, &[KeyCode::Char('p')]);
    state.take(Err("no server answers".to_string()));
    assert_eq!(state.fleet.runners.len(), 2, "what was seen stays");
    assert!(drawn(&mut state, 80, 24).contains("no server answers (shown: 0ms ago)"));
    state.take(Ok(Box::new(empty)));
    assert!(state.fleet.runners.is_empty() && state.trouble.is_none());
    press(&mut state, &[KeyCode::Char('?'), KeyCode::Char('2')]);
    assert!(
        !state.help && state.view == View::Gpus,
        "any key closes the help and does nothing else"
    );
}

#[test]
fn the_chosen_decision_stays_chosen_while_newer_ones_come() {
    let mut state = state(fleet());
    press(&mut state, &[KeyCode::Char('3'), KeyCode::Down]);
    let mut newer = fleet();
    let mut first = newer.decisions[0].clone();
    first.id = Some("1300.0".to_string());
    newer.decisions.insert(0, first);
    state.take(Ok(Box::new(newer)));
    assert_eq!(state.place().cursor, 2);
    assert!(drawn(&mut state, 80, 24).contains(">1230.0"));
}

#[test]
fn without_colour_the_screen_says_the_same() {
    let mut coloured = state(fleet());
    let mut plain = State::new("http://127.0.0.1:8080", fleet(), false);
    assert_eq!(drawn(&mut coloured, 80, 24), drawn(&mut plain, 80, 24));
}
