//! `evmd keys unsafe-import-eth-key` stores a private key from plain hex.

use super::{Common, add::store, prompt::Prompt};
use keys::{PrivateKey, check_algorithm, keyring::Record};
use zeroize::Zeroizing;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the key
    name: String,
    /// The key: 64 hex digits. Other users of this machine can see arguments: omit it to enter the key at a prompt
    #[arg(value_name = "HEX")]
    key: Option<String>,
    /// Algorithm of the key
    #[arg(long, visible_alias = "algo", value_name = "NAME", default_value = "eth_secp256k1")]
    key_type: String,
}

pub(super) fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    check_algorithm(&args.key_type)?;
    let prompt = Prompt::new();
    let text = match args.key {
        Some(text) => Zeroizing::new(text),
        None => prompt.secret("Enter the private key in hex:")?,
    };
    let key = PrivateKey::from_hex(&text)?;
    store(common, &prompt, Record::local(args.name, key))
}
