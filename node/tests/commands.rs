//! The command line as people see it: recorded sessions replayed, the reference that is made from
//! the flags, and what operators do to a home folder.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "json_rpc/client.rs"]
mod client;
mod common;
#[path = "commands/home.rs"]
mod home;
#[path = "commands/killed.rs"]
mod killed;
#[path = "commands/reference.rs"]
mod reference;
#[path = "commands/session.rs"]
mod session;
#[path = "commands/sessions.rs"]
mod sessions;

/// Held by a test that starts processes or opens homes: between its fork and its exec a child has the
/// lock file of a home that is being opened, which would then be found locked.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
