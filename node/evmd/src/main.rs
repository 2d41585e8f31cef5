//! The binary `evmd` sets the global allocator and runs the command line.

use platform::heap::Heap;
use std::process::ExitCode;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    evmd::cli::main()
}
