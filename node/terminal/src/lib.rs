//! Prints the lines of `evmd start` while the node runs: one for each block, and on a development chain also one for
//! each transaction, each message of `console.log` and each failed call.
//!
//! A thread of its own follows the published heads, as a subscription of JSON-RPC does, and reads the blocks from the
//! view. It shares nothing with the pipeline. Lines are log events with the targets below, so `RUST_LOG`, `--log` and
//! `--log-file` apply to them, and a blocked terminal only fills the queue of log lines. If there are many blocks, one
//! line per second summarises them ([`rate`]).

mod block;
mod calls;
mod console;
mod printer;
mod rate;
mod reason;
mod transactions;

pub use calls::CallPrinter;
pub use printer::{BlockPrinter, Terminal};

use tracing::Level;
use tracing_subscriber::filter::Targets;

/// Target of the lines about blocks.
pub const BLOCK: &str = "block";
/// Target of the lines about transactions.
pub const TX: &str = "tx";
/// Target of the messages of contracts.
pub const CONSOLE: &str = "console";
/// Target of the lines about failed calls.
pub const CALL: &str = "call";
/// All targets above.
pub const TARGETS: [&str; 4] = [BLOCK, TX, CONSOLE, CALL];

/// The field `status` of a transaction that succeeded.
pub const SUCCESS: &str = "success";

/// Which lines are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Lines about blocks.
    pub blocks: bool,
    /// Lines about transactions.
    pub txs: bool,
    /// Messages of contracts.
    pub console: bool,
    /// Lines about failed calls.
    pub calls: bool,
}

impl Printed {
    /// Returns the lines that the log levels let through.
    pub fn by(levels: &Targets) -> Self {
        let is_printed = |target| levels.would_enable(target, &Level::INFO);
        Self {
            blocks: is_printed(BLOCK),
            txs: is_printed(TX),
            console: is_printed(CONSOLE),
            calls: is_printed(CALL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_select_lines() {
        let printed = |levels: &str| Printed::by(&levels.parse().unwrap());
        let all = Printed { blocks: true, txs: true, console: true, calls: true };
        assert_eq!(printed("info"), all);
        assert_eq!(printed("error"), Printed::default());
        assert_eq!(printed("warn,tx=info"), Printed { txs: true, ..Printed::default() });
        assert_eq!(printed("info,block=off"), Printed { blocks: false, ..all });
    }
}
