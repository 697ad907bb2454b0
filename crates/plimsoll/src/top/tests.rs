//! The screen at two sizes, compared with stored ones, and the effects of keys. `UPDATE_GOLDEN=1`
//! rewrites the stored screens.

use std::path::Path;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use plimsoll_core::units::Bytes;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde::de::DeserializeOwned;

use super::action::Action;
use super::draw;
use super::fleet::Fleet;
use super::poll::Polled;
use super::state::{Palette, State, View};
use plimsoll_api::rows::{GpuRow, RunnerStatus, Time};
use plimsoll_core::units::Millis;

const NOW: Time = Time(Millis(1_800_000_000_000));

/// Reads stored rows, with `AGO 90` as the time 90 seconds before now.
fn rows<T: DeserializeOwned>(file: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/clients/rows")
        .join(format!("{file}.json"));
    let text = std::fs::read_to_string(path).expect("it is stored");
    let mut parts = text.split("\"AGO ");
    let mut out = parts.next().expect("one part").to_string();
    for part in parts {
        let (seconds, rest) = part.split_once('"').expect("it is closed");
        let before: i64 = seconds.parse().expect("a number");
        let at = i64::try_from(NOW.0.0).expect("small") - before * 1000;
        let at = Time(Millis(u64::try_from(at).expect("after 1970")));
        out.push_str(&format!("\"{at}\"{rest}"));
    }
    serde_json::from_str(&out).expect("it is JSON")
}

fn fleet() -> Fleet {
    Fleet {
        runners: vec![rows("gpu-a"), rows("gpu-b")],
        queue: rows("queue"),
        decisions: rows("decisions"),
        asked_slots: Some(rows("slots")),
        log: None,
        at: NOW,
    }
}

fn state(fleet: Fleet) -> State {
    State::new("http://127.0.0.1:8080", fleet, Palette::Coloured)
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
    for (width, height) in [(80, 24), (120, 40), (160, 45)] {
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
    check("gpu-overcommitted", &mut state);
    press(&mut state, &[KeyCode::Char('2')]);
    check("pending", &mut state);
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
fn slots_that_are_still_loading_are_not_shown_as_none() {
    let mut state = state(Fleet { asked_slots: None, ..fleet() });
    press(&mut state, &[KeyCode::Char('4')]);
    let screen = drawn(&mut state, 80, 24);
    assert!(screen.contains("loading the slots") && !screen.contains("no slots"), "{screen}");
}

#[test]
fn an_empty_fleet_has_a_text_in_every_view() {
    let empty = Fleet {
        runners: Vec::new(),
        queue: Vec::new(),
        decisions: Vec::new(),
        asked_slots: Some(Vec::new()),
        log: None,
        at: NOW,
    };
    let mut state = state(empty);
    check("empty", &mut state);
    for (view, words) in
        View::ALL.iter().zip(["no runners", "the queue is empty", "no decisions", "no slots"])
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
    fleet.runners[0].runner.runner_id =
        "a-runner-with-a-name-that-is-longer-than-any-column-is-wide-enough-for".to_string();
    fleet.runners[0].gpus[0].device.tenants[0].namespace =
        "Organisation/Model-With-A-Very-Long-Name-".repeat(4).into();
    fleet.runners[0].gpus[1].device.usable = None;
    fleet.runners[0].gpus[1].device.over_by = None;
    fleet.runners[0].gpus[1].device.tenants[0].bytes = None;
    fleet.runners[1].runner.runner_id = "\u{1b}[2Jüñï".to_string();
    fleet.queue[0].model = "Organisation/Model-With-A-Very-Long-Name".to_string();
    let mut state = state(fleet);
    check("long-names", &mut state);
    for line in drawn(&mut state, 80, 24).lines() {
        assert!(line.chars().count() <= 80 && !line.contains('\u{1b}'), "{line:?}");
    }
}

fn thousand() -> Fleet {
    let known: RunnerStatus = rows("gpu-a");
    let gpu: &GpuRow = &known.gpus[0];
    let runner = |number: usize| {
        let mut row = known.clone();
        row.runner.runner_id = format!("runner-{number:04}");
        row.runner.gpu_count = 8;
        (row.runner.usable, row.runner.free) = (Some(Bytes::gib(640)), Some(Bytes::gib(320)));
        // The GPUs of most runners were not requested yet.
        row.gpus = if number == 500 { vec![gpu.clone(); 8] } else { Vec::new() };
        row
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
    state.update(Polled::Fleet(Box::new(empty.clone())));
    assert_eq!(state.fleet.runners.len(), 2, "it is paused");
    assert!(drawn(&mut state, 120, 24).contains("paused"));
    press(&mut state, &[KeyCode::Char('p')]);
    state.update(Polled::Failed("no server answers".to_string()));
    assert_eq!(state.fleet.runners.len(), 2, "the last data stays");
    assert!(drawn(&mut state, 80, 24).contains("no server answers (data from 0s ago)"));
    state.update(Polled::Fleet(Box::new(empty)));
    assert!(state.fleet.runners.is_empty() && state.error.is_none());
    press(&mut state, &[KeyCode::Char('?'), KeyCode::Char('2')]);
    assert!(
        !state.help && state.view == View::Gpus,
        "any key closes the help and does nothing else"
    );
}

#[test]
fn the_selected_decision_stays_selected_while_newer_ones_arrive() {
    let mut state = state(fleet());
    press(&mut state, &[KeyCode::Char('3'), KeyCode::Down]);
    let mut newer = fleet();
    let mut first = newer.decisions[0].clone();
    first.id = Some("1300.0".to_string());
    newer.decisions.insert(0, first);
    state.update(Polled::Fleet(Box::new(newer)));
    assert_eq!(state.position().cursor, 2);
    assert!(drawn(&mut state, 80, 24).contains(">1230.0"));
}

#[test]
fn without_colour_the_screen_has_the_same_text() {
    let mut coloured = state(fleet());
    let mut plain = State::new("http://127.0.0.1:8080", fleet(), Palette::Plain);
    assert_eq!(drawn(&mut coloured, 80, 24), drawn(&mut plain, 80, 24));
}

#[test]
fn a_filter_keeps_matching_rows_and_typing_it_does_not_quit() {
    let mut state = state(fleet());
    press(&mut state, &[KeyCode::Char('/'), KeyCode::Char('g'), KeyCode::Char('q')]);
    assert_eq!(state.filter, "gq");
    press(&mut state, &[KeyCode::Backspace, KeyCode::Char('p'), KeyCode::Char('u')]);
    press(&mut state, &[KeyCode::Char('-'), KeyCode::Char('b'), KeyCode::Enter]);
    check("filtered", &mut state);
    assert_eq!(state.fleet.runners.len(), 1);
    state.update(Polled::Fleet(Box::new(fleet())));
    assert_eq!(state.fleet.runners.len(), 1, "it applies to later polls too");
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!((state.fleet.runners.len(), state.filter.as_str()), (2, ""));
}

#[test]
fn rows_are_sorted_in_the_next_order() {
    let mut state = state(fleet());
    press(&mut state, &[KeyCode::Char('4'), KeyCode::Char('s')]);
    let models: Vec<&str> = state.fleet.slots().iter().map(|row| row.model.as_str()).collect();
    assert!(models.is_sorted(), "{models:?}");
    assert!(drawn(&mut state, 80, 24).contains("by model"));
    press(&mut state, &[KeyCode::Char('s'), KeyCode::Char('s')]);
    assert!(!drawn(&mut state, 80, 24).contains("by model"));
}

#[test]
fn a_gpu_leads_to_its_slot_its_decision_and_its_output() {
    let mut state = state(fleet());
    press(&mut state, &[KeyCode::Char('o')]);
    assert_eq!(state.view, View::Slots);
    let slot = state.fleet.slots()[state.position().cursor].id.clone();
    assert_eq!(slot, "slot-1", "the first holder of the first GPU");
    press(&mut state, &[KeyCode::Char('l')]);
    assert_eq!(state.wanted().log.as_deref(), Some("slot-1"));
    let with_log = Fleet { log: Some("loading weights\nready\n".to_string()), ..fleet() };
    state.update(Polled::Fleet(Box::new(with_log)));
    check("output", &mut state);
    press(&mut state, &[KeyCode::Esc, KeyCode::Char('2'), KeyCode::Char('o')]);
    assert_eq!(state.view, View::Decisions);
    let decision = &state.fleet.decisions[state.position().cursor];
    assert_eq!(decision.slot_id.as_deref(), Some("slot-4"));
}

#[test]
fn a_change_is_sent_only_after_its_confirmation() {
    let mut state = state(fleet());
    press(&mut state, &[KeyCode::Char('4'), KeyCode::Down, KeyCode::Char('x')]);
    check("confirm", &mut state);
    press(&mut state, &[KeyCode::Char('q')]);
    assert_eq!(state.take_action(), None, "any other key cancels");
    press(&mut state, &[KeyCode::Char('x'), KeyCode::Char('y')]);
    let stop = Action::StopSlot { id: "slot-1".to_string(), reservations: 3 };
    assert_eq!(state.take_action(), Some(stop));
    assert_eq!(state.take_action(), None, "it is sent once");
    press(&mut state, &[KeyCode::Char('1'), KeyCode::Char('c'), KeyCode::Char('y')]);
    assert_eq!(state.take_action(), Some(Action::Cordon { runner: "gpu-a".to_string() }));
    state.update(Polled::Notice("cordoned gpu-a".to_string()));
    assert!(drawn(&mut state, 80, 24).contains("cordoned gpu-a"));
}

#[test]
fn the_past_of_a_gpu_is_drawn_as_sparklines() {
    let mut state = state(fleet());
    for percent in [0, 50, 100] {
        let mut next = fleet();
        next.runners[0].gpus[0].utilisation = Some(percent);
        state.update(Polled::Fleet(Box::new(next)));
    }
    let screen = drawn(&mut state, 80, 30);
    assert!(screen.contains("▁▄█"), "{screen}");
}
