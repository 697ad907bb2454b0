//! The terminal: taken over, and restored however the program ends.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::event::{self, Event, KeyEventKind};
use ratatui::DefaultTerminal;
use tokio::signal::unix::{SignalKind, signal};

use super::draw;
use super::fleet::Fleet;
use super::poll::{self, Asked, Polled, Poller, Wanted};
use super::state::{Palette, State};
use crate::text::age::now;

/// The time that the screen has to react to a signal, and between two looks at the terminal.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// The longest reaction time to a key.
const TICK: Duration = Duration::from_millis(100);

/// Shows the server until the user quits.
pub(crate) fn run(poller: Poller, first: Fleet, every: Duration, palette: Palette) -> Result<()> {
    let mut state = State::new(poller.server(), first, palette);
    let (ask, asked) = mpsc::channel();
    let (send, polled) = mpsc::channel();
    let ended = signals()?;
    std::thread::spawn(move || poll::poll(poller, every, &asked, &send));
    // This also restores the terminal before a panic message.
    let mut terminal = ratatui::try_init().context("could not take over the terminal")?;
    let _restored = Restored;
    watch(&mut terminal, &mut state, &ask, &polled, &ended)
}

/// Restores the terminal when it is dropped.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. It may be gone, and then even an error message could not be printed.
fn restore() {
    let _ = ratatui::try_restore();
}

fn watch(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    ask: &mpsc::Sender<Asked>,
    polled: &Receiver<Polled>,
    ended: &Receiver<()>,
) -> Result<()> {
    let mut asked = Wanted::default();
    loop {
        terminal.draw(|frame| draw::draw(frame, state, now())).context("could not draw")?;
        let wanted = state.wanted();
        if wanted != asked && !state.paused {
            // If the poller has ended, there is nothing to update.
            let _ = ask.send(Asked::Show(wanted.clone()));
            asked = wanted;
        }
        if event::poll(TICK)? && !handle_events(state)? {
            return Ok(());
        }
        if let Some(action) = state.take_action() {
            let _ = ask.send(Asked::Do(action));
        }
        if ended.try_recv().is_ok() {
            return Ok(());
        }
        while let Ok(fleet) = polled.try_recv() {
            state.update(fleet);
        }
    }
}

/// Handles all pending events; returns `false` to quit.
fn handle_events(state: &mut State) -> io::Result<bool> {
    loop {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release && !state.key(key) => {
                return Ok(false);
            }
            _ => {}
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(true);
        }
    }
}

/// Returns a channel that receives SIGINT, SIGTERM and SIGHUP, after which the terminal is restored
/// too. The program also ends if the screen does not react to them, and if its terminal is gone.
fn signals() -> Result<Receiver<()>> {
    let (send, received) = mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("could not listen for signals")?;
    let hear =
        |kind| runtime.block_on(async { signal(kind) }).context("could not listen for signals");
    let (mut interrupt, mut end) = (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
    let mut hang_up = hear(SignalKind::hangup())?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = end.recv() => {}
                _ = hang_up.recv() => {}
            }
        });
        // The screen may be closed already.
        let _ = send.send(());
        std::thread::sleep(LAST_WAIT);
        end_at_once();
    });
    std::thread::spawn(|| {
        while io::stdin().is_terminal() {
            std::thread::sleep(LAST_WAIT);
        }
        end_at_once();
    });
    Ok(received)
}

/// Ends the program although the screen does not react: where the terminal is gone, crossterm reads
/// its empty input in an endless loop, and no signal or timeout ends that.
fn end_at_once() -> ! {
    restore();
    std::process::exit(0);
}
