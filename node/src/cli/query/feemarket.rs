//! `evmd query feemarket`

use super::QueryArgs;
use crate::{
    cli::Output,
    feemarket::query::{BaseFeeResponse, BlockGasResponse, ParamsResponse},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use std::io::Write;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Its parameters, the current base fee among them
    Params(QueryArgs),
    /// The current base fee, with all its decimals
    BaseFee(QueryArgs),
    /// The gas of the last block, from which the next base fee follows
    BlockGas(QueryArgs),
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Params(args) => print(args, "evmd_feemarketParams", ParamsResponse::to_text),
        Command::BaseFee(args) => print(args, "evmd_feemarketBaseFee", BaseFeeResponse::to_text),
        Command::BlockGas(args) => print(args, "evmd_feemarketBlockGas", BlockGasResponse::to_text),
    }
}

fn print<T: Serialize + DeserializeOwned>(
    args: &QueryArgs,
    method: &str,
    to_text: impl Fn(&T) -> String,
) -> anyhow::Result<()> {
    let answer: T = args.client()?.call(method, &json!([args.block()]))?;
    let mut out = std::io::stdout();
    match args.output {
        Output::Text => write!(out, "{}", to_text(&answer))?,
        Output::Json => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
    }
    out.flush()?;
    Ok(())
}
