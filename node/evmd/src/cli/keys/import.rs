//! `evmd keys import` stores a private key from a file.

use super::{Common, add::store, prompt::Prompt};
use anyhow::{Context, bail};
use keys::{PrivateKey, armor, check_algorithm, keyring::Record, keystore, read_secret};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the key
    name: String,
    /// Armored, keystore V3 or plain hex file; the format is detected
    file: PathBuf,
    /// Allow the import of plain hex
    #[arg(long)]
    r#unsafe: bool,
    /// Algorithm of the key
    #[arg(long, visible_alias = "algo", value_name = "NAME", default_value = "eth_secp256k1")]
    key_type: String,
}

pub(super) fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    check_algorithm(&args.key_type)?;
    let prompt = Prompt::new();
    let reading = || format!("cannot read {}", args.file.display());
    let bytes = read_secret(&args.file, keystore::MAX_FILE_BYTES).with_context(reading)?;
    let text = std::str::from_utf8(&bytes).with_context(reading)?;
    let ask = || prompt.secret("Enter passphrase to decrypt your key:");
    let key = if armor::is_armor(text) {
        armor::decrypt(text, &ask()?)?
    } else if text.trim_start().starts_with('{') {
        keystore::decrypt(text, &ask()?)?
    } else if args.r#unsafe {
        PrivateKey::from_hex(text)?
    } else {
        bail!(
            "{} is neither an armored key nor a keystore file; plain hex needs --unsafe",
            args.file.display()
        );
    };
    store(common, &prompt, Record::local(args.name, key))
}
