//! The desk with runners that obey, dawdle, fail and fall silent.

mod cases;
mod fairness;
mod files;
mod histories;
mod orders;
mod restored;
mod runners;
mod strange;

mod world;
