//! A thread that works through a bounded queue, and is joined when the queue is closed.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{Builder, JoinHandle};

/// A handle to the thread.
pub struct Worker<T> {
    /// Dropped to close the queue.
    way: Option<SyncSender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Starts the thread with a queue of `waiting` items. The work can end the thread early.
    pub fn start(
        name: &str,
        waiting: usize,
        work: impl FnMut(T) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Worker<T>> {
        Worker::begin(name, waiting, || {}, work)
    }

    /// Starts a low-priority thread (nice 19) for background work. Where the system does not allow
    /// that, it runs at normal priority.
    pub fn start_low_priority(
        name: &str,
        waiting: usize,
        work: impl FnMut(T) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Worker<T>> {
        Worker::begin(name, waiting, step_back, work)
    }

    fn begin(
        name: &str,
        waiting: usize,
        first: fn(),
        mut work: impl FnMut(T) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Worker<T>> {
        let (way, handed) = mpsc::sync_channel(waiting);
        let body = move || {
            first();
            let _ = handed.into_iter().try_for_each(&mut work);
        };
        let thread = Builder::new().name(name.to_string()).spawn(body)?;
        Ok(Worker { way: Some(way), thread: Some(thread) })
    }

    /// Queues an item. Returns `false` if the queue is full or the thread has ended.
    pub fn hand(&self, thing: T) -> bool {
        self.way.as_ref().is_some_and(|way| way.try_send(thing).is_ok())
    }
}

impl<T> Worker<T> {
    /// Closes the queue and waits until the thread has worked through it.
    pub fn end(&mut self) {
        self.way = None;
        if let Some(thread) = self.thread.take() {
            // A panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lowers the priority of this thread. Only Linux can do that for a single thread.
fn step_back() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_handed_over_is_done_before_the_end() {
        let (done, seen) = mpsc::channel();
        let mut worker = Worker::start("test", 8, move |number: u32| match done.send(number) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
        .expect("a thread");
        assert!((0..8).all(|number| worker.hand(number)));
        worker.end();
        assert!(!worker.hand(9), "nothing more is taken");
        assert_eq!(seen.iter().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    }
}
