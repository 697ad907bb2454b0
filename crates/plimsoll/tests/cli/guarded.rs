//! The guard on a real API server: `plimsoll kube --guard` with the rights of its account.

mod clients;
mod cluster;
mod crashes;
mod lines;
mod paused;
mod record;
mod replicas;
mod scheduler;
mod takeover;
