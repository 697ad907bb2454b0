//! The binary as a user runs it: exit codes, JSON, and text that is compared with stored text.

mod clients;
mod cluster;
mod differential;
mod docs;
mod endured;
mod errors;
mod estimate;
mod golden;
mod guarded;
mod incident;
mod installed;
mod manifests;
mod output;
mod proven;
mod remembered;
mod replay;
mod scenario;
mod screen;
mod terminal;
mod tool;
mod top;
mod transcript;
mod tutorial;
mod watched;
mod watching;
