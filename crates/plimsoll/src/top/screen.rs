//! The terminal: taken over, and given back however it ends.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::event::{self, Event, KeyEventKind};
use ratatui::DefaultTerminal;
use tokio::signal::unix::{SignalKind, signal};

use super::draw;
use super::fleet::Fleet;
use super::poll::{self, Poller, Seen, Wanted};
use super::state::State;
use crate::client::rows::Moment;

/// How long a key may wait for an answer.
const TICK: Duration = Duration::from_millis(100);

/// Shows the server until somebody ends it.
pub(crate) fn run(poller: Poller, first: Fleet, every: Duration, colour: bool) -> Result<()> {
    let mut state = State::new(poller.server(), first, colour);
    let (want, wanted) = mpsc::channel();
    let (tell, seen) = mpsc::channel();
    let ended = told_to_end()?;
    std::thread::spawn(move || poll::poll(poller, every, &wanted, &tell));
    // This also gives the terminal back before a panic speaks.
    let mut terminal = ratatui::try_init().context("could not take over the terminal")?;
    let _restored = Restored;
    watch(&mut terminal, &mut state, &want, &seen, &ended)
}

/// Gives the terminal back when it goes.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn watch(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    want: &mpsc::Sender<Wanted>,
    seen: &Receiver<Seen>,
    ended: &Receiver<()>,
) -> Result<()> {
    let mut asked = Wanted::default();
    loop {
        terminal.draw(|frame| draw::draw(frame, state, Moment::now())).context("could not draw")?;
        let wanted = state.wanted();
        if wanted != asked && !state.paused {
            // Where nobody polls any more, the next look says so.
            let _ = want.send(wanted.clone());
            asked = wanted;
        }
        if event::poll(TICK)? && !answer(state)? {
            return Ok(());
        }
        if ended.try_recv().is_ok() {
            return Ok(());
        }
        while let Ok(look) = seen.try_recv() {
            state.take(look);
        }
    }
}

/// Takes in everything that was typed; `false` ends it.
fn answer(state: &mut State) -> io::Result<bool> {
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

/// Hears when the program is to end: a closed terminal and a polite kill leave the terminal as they found it too.
fn told_to_end() -> Result<Receiver<()>> {
    let (tell, told) = mpsc::channel();
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
        // Where nobody listens, it has ended already.
        let _ = tell.send(());
    });
    Ok(told)
}
