//! Defines the options of `evmd start` that select which lines are logged, in which format and to which outputs.

use clap::{ArgAction, ValueEnum};
use std::path::PathBuf;

/// The part of the help text of `evmd start` that explains `RUST_LOG`.
pub(in crate::cli) const RUST_LOG_HELP: &str = "\
Log:
  RUST_LOG selects log lines by target and level, and replaces -v, -vv and -q.
  It is a comma-separated list such as warn,block=info,rpc=debug. The levels are
  off, error, warn, info, debug and trace. The default is
  warn,evmd=info,home=info,replication=info,block=info,tx=info,console=info,call=info.

  Targets at level info about the chain:
    block    each block, or each second of a busy chain
    tx       each transaction of a development chain
    console  messages that contracts of a development chain pass to console.log
    call     failed calls and estimates of clients of a development chain
  Targets of the parts of the node:
    evmd            start, shutdown and the command line
    home            the home folder: replayed blocks, migrations, the index
    pipeline        the stages that execute and store blocks
    mempool         the journal of the mempool
    consensus       the clock of new blocks
    replication     the sources that this node follows
    rpc, rpc_types  JSON-RPC
    cosmos_api      REST, gRPC and the CometBFT RPC
    server          connections to these servers

  Lines go to standard error, in colours if it is a terminal and NO_COLOR is not
  set.";

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One object per line, for programs
    Json,
}

/// The options.
#[derive(Debug, Default, clap::Args)]
pub(in crate::cli) struct LogArgs {
    /// Log more: -v also logs what all parts of the node do (level info), -vv also logs the details (level debug)
    #[arg(short, action = ArgAction::Count, conflicts_with = "errors_only")]
    verbose: u8,
    /// Log errors only: no blocks, transactions and warnings
    #[arg(short = 'q')]
    errors_only: bool,
    /// Format of the log lines
    #[arg(long = "log", value_enum, value_name = "FORMAT", default_value_t)]
    pub(super) format: LogFormat,
    /// Append the log lines to this file too. At 64 MiB it is renamed to FILE.1, and FILE.1 to FILE.2; FILE.4 is the
    /// oldest
    #[arg(long = "log-file", value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
}

/// The levels without options: warnings from all parts, start and shutdown of the node, and events of its chain.
const DEFAULT: &str =
    "warn,evmd=info,home=info,replication=info,block=info,tx=info,console=info,call=info";
/// The levels with `-vv`. The servers' libraries stay at info, because they would log each frame at level debug.
const DEBUG: &str = "debug,h2=info,hyper=info,hyper_util=info,jsonrpsee=info,tokio_tungstenite=info,\
                     tonic=info,tower=info,tungstenite=info";

impl LogArgs {
    /// Returns the levels by target, in the syntax of `RUST_LOG`.
    pub(super) const fn levels(&self) -> &'static str {
        match (self.errors_only, self.verbose) {
            (true, _) => "error",
            (false, 0) => DEFAULT,
            (false, 1) => "info",
            (false, _) => DEBUG,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;
    use tracing_subscriber::filter::Targets;

    #[test]
    fn options_select_levels() {
        let enabled = |verbose, errors_only, target, level| {
            let args = LogArgs { verbose, errors_only, ..LogArgs::default() };
            args.levels().parse::<Targets>().unwrap().would_enable(target, &level)
        };
        for target in ["block", "tx", "console", "call", "evmd::cli::start", "home"] {
            assert!(enabled(0, false, target, Level::INFO), "{target}");
            assert!(!enabled(0, false, target, Level::DEBUG), "{target}");
            assert!(!enabled(0, true, target, Level::WARN), "{target}");
        }
        assert!(enabled(0, false, "server", Level::WARN));
        assert!(!enabled(0, false, "pipeline::ante", Level::INFO));
        assert!(enabled(1, false, "pipeline::ante", Level::INFO));
        assert!(!enabled(1, false, "pipeline::ante", Level::DEBUG));
        assert!(enabled(2, false, "pipeline::ante", Level::DEBUG));
        assert!(!enabled(2, false, "h2::codec", Level::DEBUG));
        assert!(enabled(0, true, "rpc", Level::ERROR));
    }

    #[test]
    fn help_names_the_default_levels() {
        assert!(RUST_LOG_HELP.contains(DEFAULT));
    }
}
