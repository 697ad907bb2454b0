//! A gate in the connections to a server: bytes pass, wait, or are lost. With it a test stops a
//! request before it arrives, or an answer after it left, whatever the protocol.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// A gate on a port of its own. Its connections end with it.
#[derive(Debug)]
pub struct Gate {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    server: u16,
    holds_to_server: bool,
    holds_to_client: bool,
    /// The bytes that wait in each direction; none are read beyond them.
    held_to_server: usize,
    held_to_client: usize,
    /// The number of cuts: connections from before the last one are closed.
    cuts: u64,
    is_closed: bool,
}

impl Gate {
    /// Opens a gate to a port of the loopback interface. Nothing needs to listen there yet.
    ///
    /// # Errors
    ///
    /// Any error of the socket.
    pub fn open_to(server: u16) -> io::Result<Gate> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = State { server, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = shared.clone();
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Gate { port, shared })
    }

    /// Returns the port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads connections from now on to another port.
    pub fn lead_to(&self, server: u16) {
        self.shared.state().server = server;
    }

    /// Lets bytes of one direction wait.
    pub fn hold(&self, way: Way) {
        *self.shared.state().holds_mut(way) = true;
    }

    /// Lets bytes of one direction pass, first those that waited.
    pub fn release(&self, way: Way) {
        *self.shared.state().holds_mut(way) = false;
        self.shared.changed.notify_all();
    }

    /// Returns the number of bytes that wait.
    pub fn held(&self, way: Way) -> usize {
        *self.shared.state().held_mut(way)
    }

    /// Closes all connections; bytes that wait are lost. New connections are possible at once.
    pub fn cut(&self) {
        self.shared.state().cuts += 1;
        self.shared.changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.cuts += 1;
        state.is_closed = true;
        drop(state);
        self.shared.changed.notify_all();
        // The listener waits for a connection; this one ends it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn holds_mut(&mut self, way: Way) -> &mut bool {
        match way {
            Way::ToServer => &mut self.holds_to_server,
            Way::ToClient => &mut self.holds_to_client,
        }
    }

    fn held_mut(&mut self, way: Way) -> &mut usize {
        match way {
            Way::ToServer => &mut self.held_to_server,
            Way::ToClient => &mut self.held_to_client,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until bytes may pass. Returns false if the connection was cut.
    fn passes(&self, way: Way, bytes: usize, cuts: u64) -> bool {
        let mut state = self.state();
        *state.held_mut(way) += bytes;
        while *state.holds_mut(way) && state.cuts == cuts {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state.held_mut(way) -= bytes;
        state.cuts == cuts
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().map_while(Result::ok) {
        let (server, cuts, is_closed) = {
            let state = shared.state();
            (state.server, state.cuts, state.is_closed)
        };
        if is_closed {
            return;
        }
        // Without a server the client sees its connection close, as after a crash.
        if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
            let _ = join(client, server, shared, cuts);
        }
    }
}

/// Copies in both directions until one side closes or the connection is cut.
fn join(client: TcpStream, server: TcpStream, shared: &Arc<Shared>, cuts: u64) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ways = [
        (client.try_clone()?, server.try_clone()?, Way::ToServer),
        (server.try_clone()?, client.try_clone()?, Way::ToClient),
    ];
    for (from, to, way) in ways {
        let shared = shared.clone();
        thread::spawn(move || copy(from, to, way, &shared, cuts));
    }
    // A cut is noticed here also where nothing is being copied.
    let shared = shared.clone();
    thread::spawn(move || {
        let mut state = shared.state();
        while state.cuts == cuts {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream, way: Way, shared: &Shared, cuts: u64) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        // The end of one side waits like its bytes: what was sent before it arrives first.
        if !shared.passes(way, read, cuts) {
            return;
        }
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A server that answers every byte with the next one.
    fn server() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read(&mut byte).is_ok_and(|read| read == 1) {
                        let _ = stream.write_all(&[byte[0] + 1]);
                    }
                });
            }
        });
        port
    }

    fn until(is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(10), "not after 10 s");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn answer(stream: &mut TcpStream, within: Duration) -> Option<u8> {
        stream.set_read_timeout(Some(within)).expect("a time");
        let mut byte = [0];
        stream.read(&mut byte).ok().filter(|read| *read == 1).map(|_| byte[0])
    }

    const SOON: Duration = Duration::from_millis(100);
    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn bytes_pass_wait_in_either_direction_and_are_lost_by_a_cut() {
        let gate = Gate::open_to(server()).expect("a gate");
        let connect = || TcpStream::connect(("127.0.0.1", gate.port())).expect("it listens");
        let mut stream = connect();
        stream.write_all(&[1]).expect("it reads");
        assert_eq!(answer(&mut stream, PATIENCE), Some(2));
        for way in [Way::ToServer, Way::ToClient] {
            gate.hold(way);
            stream.write_all(&[3]).expect("it reads");
            until(|| gate.held(way) == 1);
            assert_eq!(answer(&mut stream, SOON), None);
            gate.release(way);
            assert_eq!(answer(&mut stream, PATIENCE), Some(4));
        }
        gate.hold(Way::ToClient);
        stream.write_all(&[5]).expect("it reads");
        until(|| gate.held(Way::ToClient) == 1);
        gate.cut();
        assert_eq!(answer(&mut stream, PATIENCE), None);
        gate.release(Way::ToClient);
        assert_eq!(answer(&mut stream, SOON), None, "what waited is lost");
        let mut stream = connect();
        stream.write_all(&[7]).expect("it reads");
        assert_eq!(answer(&mut stream, PATIENCE), Some(8));
    }
}
