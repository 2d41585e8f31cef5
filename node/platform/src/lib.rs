//! Provides functions of the machine and the operating system, and data structures close to them.
//!
//! - [`clock`]: the monotonic clock, and whether the system clock is synchronized.
//! - [`disk_watch`]: whether the disk responds.
//! - [`heap`]: the allocator of the programs, with huge pages for large allocations.
//! - [`memory`]: how much memory the process may use, and defaults that are derived from it.
//! - [`process`]: the memory, open files and processor time of this process.
//! - [`slice`]: time slices of threads.
//! - [`sigbus`]: the message if a mapped file cannot be read.
//! - [`whole_file`]: atomic replacement of files.
//! - [`table`]: a map whose lines can be prefetched.

pub mod clock;
pub mod disk_watch;
pub mod heap;
pub mod memory;
pub mod process;
pub mod sigbus;
pub mod slice;
pub mod table;
pub mod whole_file;
