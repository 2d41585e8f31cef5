//! The binary `evmd`: parse, dispatch.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::cli::main()
}
