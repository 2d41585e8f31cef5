//! Tests the command line: recorded sessions are replayed, the reference is compared with the flags, and commands
//! for operators are run on home folders.

mod client_commands;
mod db;
mod files;
mod home;
mod killed;
mod node_address;
mod pairs;
mod pipes;
mod reference;
mod session;
mod sessions;
