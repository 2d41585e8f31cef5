//! `evmd status` shows the status of a running node, once or every second.

mod text;
mod watch;

use super::{Output, query::NodeArg};
use anyhow::Context;
use serde_json::{Map, Value};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    node: NodeArg,
    /// Show the status again every second until Ctrl-C; a terminal is redrawn
    #[arg(short, long)]
    watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.watch {
        return watch::run(args);
    }
    super::stdout().write_all(&args.status()?)?;
    Ok(())
}

impl Args {
    /// Queries the status of the node and formats it.
    fn status(&self) -> anyhow::Result<Vec<u8>> {
        let body = self.node.status()?;
        let status: Map<String, Value> =
            serde_json::from_str(&body).context("the response is not a status")?;
        let status = Value::Object(status);
        Ok(match self.output {
            Output::Json => format!("{status}\n").into_bytes(),
            Output::Text => text::text(&status).into_bytes(),
        })
    }
}
