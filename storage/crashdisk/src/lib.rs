//! Models the files that remain after a power failure, for tests which check that nothing is
//! announced before it is synced.
//!
//! Killing a process does not lose data that it has written, because the kernel holds the data. A power failure
//! may lose data that was not synced, except for any part of it that the file system has already written. So a
//! test that kills a process does not notice a missing `fsync`, but this model does:
//!
//! 1. [`Recorder`] runs a command with a library preloaded that records its writes, syncs, renames and
//!    outputs, in order (`recorder.c`; the test compiles it with `cc`).
//! 2. [`Recording`] replays the record. [`Disk`] is the model of a file system that keeps synced
//!    contents and the names in synced folders. Of everything else, it may keep any part.
//! 3. At any output of the program, [`Disk::tree`] returns the files that remain after a power
//!    failure at that moment, and [`Tree::write`] writes them to a folder, which the test opens.
//!
//! The model is stricter than common file systems: the sync of a file does not keep its name, and a
//! rename may be kept without the contents of the file. POSIX promises no more.
//!
//! It must never be linked into the node, so it may only be a development dependency.

mod disk;
mod record;
mod recorder;
mod tree;

pub use disk::{Disk, Fault};
pub use record::{Event, Operation};
pub use recorder::{Recorder, Recording};
pub use tree::Tree;
