//! `evmd debug pubkey` shows the address and the hex form of a public key.

use crate::cli::{HomeArg, Output, prefix};
use alloy_primitives::hex;
use keys::{PublicKey, decode_public_key};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Public key as JSON, hex, base64, or in any of its Bech32 forms
    pubkey: String,
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let text = args.pubkey.trim();
    let prefix = prefix::of_home(&args.home)?;
    let key = if text.starts_with('{') {
        PublicKey::from_json(text)?
    } else if let Ok(bytes) = hex::decode(text) {
        PublicKey::from_bytes(&bytes)?
    } else if text.starts_with(&prefix) {
        decode_public_key(text, &prefix)?
    } else {
        PublicKey::from_base64(text)?
    };
    let (address, key) = (hex::encode_upper(key.address()), hex::encode(key.as_bytes()));
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => writeln!(out, "Address: {address}\nPubKey Hex: {key}")?,
        Output::Json => {
            let value = serde_json::json!({ "address": address, "pubkey_hex": key });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}
