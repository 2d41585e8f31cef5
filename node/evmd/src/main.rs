//! The binary `evmd`: parse, dispatch.

use platform::heap::Heap;
use std::process::ExitCode;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    evmd::cli::main()
}
