//! `evmd debug raw-bytes` converts bytes from decimal numbers to hex.

use crate::cli::Output;
use alloy_primitives::hex;
use anyhow::Context;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Numbers from 0 to 255, separated by spaces or commas, with or without brackets: "[10 21 13 255]"
    bytes: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let text = args.bytes.trim();
    let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let words = inside.split([' ', ',']).filter(|word| !word.is_empty());
    let read = |word: &str| {
        word.parse::<u8>().with_context(|| format!("{word:?} is not a number from 0 to 255"))
    };
    let bytes = words.map(read).collect::<anyhow::Result<Vec<u8>>>()?;
    let (hex, mut out) = (hex::encode_upper(bytes), crate::cli::stdout());
    match args.output {
        Output::Text => writeln!(out, "{hex}")?,
        Output::Json => writeln!(out, "{}", serde_json::json!({ "hex": hex }))?,
    }
    Ok(())
}
