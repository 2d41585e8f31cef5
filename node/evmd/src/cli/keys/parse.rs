//! `evmd keys parse` converts bytes between hex and Bech32.

use super::Common;
use alloy_primitives::{Address, hex};
use anyhow::{anyhow, bail};
use keys::{BECH32_KINDS, PublicKey, decode_any};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Hex, with or without 0x, of an address or a public key; or Bech32 with any prefix
    #[arg(value_name = "HEX_OR_BECH32")]
    text: String,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    match hex::decode(&args.text) {
        Ok(bytes) => {
            let formats = formats(&bytes, &common.prefix()?)?;
            if common.json() {
                writeln!(out, "{}", serde_json::json!({ "formats": formats }))?;
            } else {
                writeln!(out, "formats:")?;
                for format in formats {
                    writeln!(out, "- {format}")?;
                }
            }
        }
        Err(_) => {
            let (human, bytes) = decode_any(&args.text)
                .map_err(|error| anyhow!("{} is neither hex nor Bech32: {error}", args.text))?;
            let bytes = hex::encode_upper(bytes);
            if common.json() {
                writeln!(out, "{{\"human\":\"{human}\",\"bytes\":\"{bytes}\"}}")?;
            } else {
                writeln!(out, "bytes: {bytes}\nhuman: {human}")?;
            }
        }
    }
    Ok(())
}

/// Returns the Bech32 form of an address or a public key for each of the three kinds of keys.
fn formats(bytes: &[u8], prefix: &str) -> anyhow::Result<Vec<String>> {
    if let Ok(address) = Address::try_from(bytes) {
        return Ok(BECH32_KINDS.iter().map(|kind| kind.address(prefix, address)).collect());
    }
    match PublicKey::from_bytes(bytes) {
        Ok(key) => Ok(BECH32_KINDS.iter().map(|kind| kind.public_key(prefix, &key)).collect()),
        Err(error) if bytes.len() == keys::PUBLIC_KEY_BYTES => Err(error.into()),
        Err(_) => bail!(
            "neither an address (20 bytes) nor a public key (33 bytes): {} bytes",
            bytes.len()
        ),
    }
}
