//! The command line as people see it: recorded sessions replayed, the reference that is made from
//! the flags, and what operators do to a home folder.

mod home;
mod killed;
mod reference;
mod session;
mod sessions;

/// Held by a test that starts processes or opens homes: between its fork and its exec a child has the
/// lock file of a home that is being opened, which would then be found locked.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
