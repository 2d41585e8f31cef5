//! The binary `evmd`: parse, dispatch.

use node::heap::Heap;
use std::process::ExitCode;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    node::cli::main()
}
