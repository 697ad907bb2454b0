//! The API in-process: a router, a real store, and runners that follow a script.
