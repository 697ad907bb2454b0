//! The desk with runners that obey, dawdle, fail and fall silent.

mod backlog;
mod bound;
mod cases;
mod fairness;
mod files;
mod forecasts;
mod histories;
mod leases;
mod maintenance;
mod measuring;
mod messages;
mod orders;
mod restored;
mod runners;
mod served_files;
mod strange;
mod utilisation;

mod world;
