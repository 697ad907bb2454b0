//! The guard on a real API server: `plimsoll kube --guard` with the rights of its account.

mod clients;
mod cluster;
mod record;
mod paused;
mod replicas;
mod scheduler;
