//! `evmd keys export` writes a private key, encrypted or as plain hex.

use super::{Common, prompt::Prompt, show::find, usage};
use alloy_primitives::hex;
use anyhow::{Context, bail};
use keys::{
    PRIVATE_KEY_BYTES, PrivateKey, armor,
    keyring::{Access, MIN_PASSPHRASE_CHARS},
    keystore, write_secret,
};
use std::{io::Write, path::PathBuf};
use zeroize::Zeroizing;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name, or address in any format
    #[arg(value_name = "NAME_OR_ADDRESS")]
    key: String,
    /// Write a keystore V3 file, as geth and web3 wallets use it
    #[arg(long, conflicts_with = "unarmored_hex")]
    keystore: bool,
    /// Function that derives the key of the keystore from its passphrase
    #[arg(long, value_enum, default_value_t = Kdf::Scrypt, requires = "keystore")]
    kdf: Kdf,
    /// Print the key as plain hex; needs --unsafe
    #[arg(long)]
    unarmored_hex: bool,
    /// Allow the export as plain hex
    #[arg(long)]
    r#unsafe: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Write to this file, readable only by its owner, instead of standard output
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kdf {
    /// scrypt with geth's standard costs
    Scrypt,
    /// PBKDF2 with 600,000 rounds
    Pbkdf2,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    if args.unarmored_hex != args.r#unsafe {
        usage("the flags --unsafe and --unarmored-hex must be used together");
    }
    let prompt = Prompt::new();
    let prefix = common.prefix()?;
    let read_key = || -> anyhow::Result<PrivateKey> {
        let keyring = common.open(Access::Read, &prompt)?;
        Ok(find(&keyring, &args.key, &prefix)?.private_key()?.clone())
    };
    let text = if args.unarmored_hex {
        let warning = "WARNING: The private key will be exported as an unarmored hexadecimal \
                       string. USE AT YOUR OWN RISK. Continue?";
        if !args.yes && !prompt.confirm(warning)? {
            bail!("aborted");
        }
        let mut text = Zeroizing::new(vec![b'\n'; 2 * PRIVATE_KEY_BYTES + 1]);
        hex::encode_to_slice(*read_key()?.to_bytes(), &mut text[..2 * PRIVATE_KEY_BYTES])?;
        text
    } else {
        let passphrase = prompt.new_secret("passphrase to encrypt the exported key")?;
        if passphrase.chars().count() < MIN_PASSPHRASE_CHARS {
            bail!("password must be at least {MIN_PASSPHRASE_CHARS} characters");
        }
        Zeroizing::new(encrypt(args, &read_key()?, &passphrase)?.into_bytes())
    };
    match &args.to {
        Some(path) => {
            write_secret(path, &text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => crate::cli::stdout().write_all(&text)?,
    }
    Ok(())
}

fn encrypt(args: &Args, key: &PrivateKey, passphrase: &str) -> anyhow::Result<String> {
    if !args.keystore {
        return Ok(armor::encrypt(key, passphrase)?);
    }
    let kdf = match args.kdf {
        Kdf::Scrypt => keystore::Kdf::Scrypt,
        Kdf::Pbkdf2 => keystore::Kdf::Pbkdf2,
    };
    Ok(format!("{}\n", keystore::encrypt(key, passphrase, kdf)?))
}
