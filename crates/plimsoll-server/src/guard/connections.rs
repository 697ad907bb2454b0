//! A limit on open connections. One more is closed before anything of it is read.

use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum_server::accept::Accept;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Service;

use crate::metrics::{Counted, Rejected};

/// Accepts connections up to a limit.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    free: Arc<Semaphore>,
    counted: Arc<Counted>,
}

impl Connections {
    /// Creates an acceptor with a limit.
    pub(crate) fn at_most(most: usize, counted: Arc<Counted>) -> Self {
        Connections { free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), counted }
    }
}

impl<I, S> Accept<I, S> for Connections {
    type Stream = I;
    type Service = Counting<S>;
    type Future = Ready<io::Result<(I, Counting<S>)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        ready(match self.free.clone().try_acquire_owned() {
            Ok(permit) => Ok((stream, Counting { service, _permit: Arc::new(permit) })),
            Err(_) => {
                self.counted.rejected(Rejected::Connections);
                Err(io::Error::other("too many connections"))
            }
        })
    }
}

/// The service of one connection, which gives its place back when the connection ends.
#[derive(Clone, Debug)]
pub(crate) struct Counting<S> {
    service: S,
    _permit: Arc<OwnedSemaphorePermit>,
}

impl<S: Service<R>, R> Service<R> for Counting<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.service.call(request)
    }
}
