//! The command line as people see it: recorded sessions replayed, the reference that is made from
//! the flags, and what operators do to a home folder.

mod files;
mod home;
mod killed;
mod pairs;
mod pipes;
mod reference;
mod session;
mod sessions;
