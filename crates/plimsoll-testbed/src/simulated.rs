//! A simulated API server over HTTP, for more objects than a real one holds on a small machine:
//! discovery, lists in pages, watches with bookmarks, and writes with their preconditions.
//!
//! It has no rights, no admission and no validation. The cases of `tests/testbed` hold it against
//! the real one.

mod path;

mod write;

mod store;

mod stream;

mod answer;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use path::Path;
use store::Store;

/// A running server, which ends when this is dropped.
pub struct SimulatedApiServer {
    store: Arc<Store>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl SimulatedApiServer {
    /// Starts a server without objects on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// Any error of the socket or of the threads.
    pub fn start() -> io::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let store = Arc::new(Store::default());
        let router = Router::new().fallback(respond).with_state(store.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(SimulatedApiServer { store, address, runtime: Some(runtime) })
    }

    /// Returns the address of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates or replaces an object of a collection, such as `/api/v1/namespaces/default/pods`,
    /// without a request.
    ///
    /// # Panics
    ///
    /// If no such collection is served, or the object has no name.
    pub fn put(&self, collection: &str, object: Value) {
        let path = Path::parse(collection).expect("a collection that is served");
        self.store.put(&path, object).expect("an object with a name");
    }

    /// Deletes an object without a request. Returns false if there is none.
    pub fn remove(&self, path: &str) -> bool {
        let path = Path::parse(path).expect("a path that is served");
        self.store.delete(&path, &json!({"gracePeriodSeconds": 0})).is_ok()
    }

    /// Forgets all events so far: watches from an older version fail with 410.
    pub fn compact(&self) {
        self.store.compact();
    }

    /// Ends all watches, as a restart of the server does.
    pub fn end_watches(&self) {
        self.store.end_watches();
    }
}

impl Drop for SimulatedApiServer {
    fn drop(&mut self) {
        self.store.end_watches();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn respond(
    State(store): State<Arc<Store>>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> Response {
    answer::answer(&store, &method, &uri, &body)
}
