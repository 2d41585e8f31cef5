//! `evmd keys unsafe-export-eth-key` prints a private key as plain hex.

use super::{Common, prompt::Prompt, show::find};
use alloy_primitives::hex;
use keys::keyring::Access;
use std::io::Write;
use zeroize::Zeroizing;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name, or address in any format
    #[arg(value_name = "NAME_OR_ADDRESS")]
    key: String,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    let keyring = common.open(Access::Read, &Prompt::new())?;
    let key = find(&keyring, &args.key, &common.prefix()?)?.private_key()?.to_bytes();
    let text = Zeroizing::new(hex::encode_upper(*key));
    let mut out = crate::cli::stdout();
    if common.json() {
        writeln!(out, "{{\"key\":\"{}\"}}", *text)?;
    } else {
        writeln!(out, "{}", *text)?;
    }
    Ok(())
}
