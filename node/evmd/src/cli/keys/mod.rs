//! `evmd keys` manages named keys, mnemonics and key files. Each subcommand has its own module.

mod add;
mod delete;
mod export;
mod import;
mod list;
mod list_key_types;
mod migrate;
mod mnemonic;
mod output;
mod parse;
pub(crate) mod prompt;
mod rename;
mod show;
mod unsafe_export_eth_key;
mod unsafe_import_eth_key;

use super::{HomeArg, Output, prefix};
use clap::{
    Subcommand,
    builder::{PossibleValue, PossibleValuesParser},
    error::ErrorKind,
};
use keys::{
    PrivateKey,
    keyring::{Access, Backend, Keyring, KeyringError, PassphraseNeed, passphrase_need},
    parse_address,
};
use prompt::Prompt;
use std::{
    io::Write,
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// Maximum number of attempts to type a passphrase at a terminal. A program that pipes its input has one attempt.
const ATTEMPTS: u32 = 3;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// The options of all subcommands.
#[derive(Debug, clap::Args)]
struct Common {
    /// Home folder
    #[arg(long, global = true, value_name = "DIR", env = "EVMD_HOME")]
    home: Option<PathBuf>,
    /// Folder of the keyring; by default the home folder
    #[arg(long, global = true, value_name = "DIR")]
    keyring_dir: Option<PathBuf>,
    /// Where keys are stored: `file` encrypted with a passphrase, `os` encrypted with a secret of the desktop's
    /// secret service, `test` not encrypted, `memory` not stored
    #[arg(
        long,
        global = true,
        value_name = "BACKEND",
        env = "EVMD_KEYRING_BACKEND",
        default_value = "file",
        value_parser = backend_names()
    )]
    keyring_backend: String,
    /// Output format
    #[arg(long, short, global = true, value_enum, default_value_t)]
    output: Output,
}

/// Returns a parser for backend names. The SDK's other backends are hidden from the help and refused later.
pub(super) fn backend_names() -> PossibleValuesParser {
    let served = ["file", "test", "memory", "os"].map(PossibleValue::new);
    let refused = ["kwallet", "pass"].map(|name| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(served.into_iter().chain(refused))
}

/// Manage keys. If standard input is not a terminal, answers to prompts, including passphrases, are read from
/// it, one per line, in the order of the prompts.
#[derive(Debug, Subcommand)]
enum Command {
    /// Add a new key, recover one from its mnemonic, or store a public key
    Add(add::Args),
    /// Show keys, by name or address
    Show(show::Args),
    /// List all keys
    List(list::Args),
    /// Delete keys
    Delete(delete::Args),
    /// Rename a key
    Rename(rename::Args),
    /// Write a private key: armored with a passphrase, as a keystore V3 file, or as plain hex
    Export(export::Args),
    /// Read a private key from an armored, keystore V3 or plain hex file
    Import(import::Args),
    /// Create a mnemonic
    Mnemonic(mnemonic::Args),
    /// Convert bytes between hex and Bech32
    Parse(parse::Args),
    /// Print a private key as plain hex
    UnsafeExportEthKey(unsafe_export_eth_key::Args),
    /// Read a private key from plain hex
    UnsafeImportEthKey(unsafe_import_eth_key::Args),
    /// Rewrite the keyring in the current format, with a new salt
    Migrate,
    /// List the key algorithms
    ListKeyTypes,
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let common = args.common;
    match args.command {
        Command::Add(args) => add::run(&common, args),
        Command::Show(args) => show::run(&common, &args),
        Command::List(args) => list::run(&common, &args),
        Command::Delete(args) => delete::run(&common, &args),
        Command::Rename(args) => rename::run(&common, &args),
        Command::Export(args) => export::run(&common, &args),
        Command::Import(args) => import::run(&common, args),
        Command::Mnemonic(args) => mnemonic::run(&common, &args),
        Command::Parse(args) => parse::run(&common, &args),
        Command::UnsafeExportEthKey(args) => unsafe_export_eth_key::run(&common, &args),
        Command::UnsafeImportEthKey(args) => unsafe_import_eth_key::run(&common, args),
        Command::Migrate => migrate::run(&common),
        Command::ListKeyTypes => list_key_types::run(&common),
    }
}

impl Common {
    fn home_arg(&self) -> HomeArg {
        HomeArg { home: self.home.clone() }
    }

    fn prefix(&self) -> anyhow::Result<String> {
        prefix::of_home(&self.home_arg())
    }

    fn backend(&self) -> Result<Backend, KeyringError> {
        self.keyring_backend.parse()
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        match &self.keyring_dir {
            Some(folder) => Ok(folder.clone()),
            None => self.home_arg().path(),
        }
    }

    /// Opens the keyring, and asks for its passphrase if it has one.
    fn open(&self, access: Access, prompt: &Prompt) -> anyhow::Result<Keyring> {
        self.open_with_passphrase(access, prompt).map(|(keyring, _)| keyring)
    }

    fn open_with_passphrase(
        &self,
        access: Access,
        prompt: &Prompt,
    ) -> anyhow::Result<(Keyring, Option<Zeroizing<String>>)> {
        open(self.backend()?, &self.folder()?, access, prompt)
    }

    const fn json(&self) -> bool {
        matches!(self.output, Output::Json)
    }
}

/// Opens a keyring for reading, and asks for its passphrase if it has one.
pub(super) fn unlock(backend: Backend, folder: &Path) -> anyhow::Result<Keyring> {
    open(backend, folder, Access::Read, &Prompt::new()).map(|(keyring, _)| keyring)
}

/// Opens a keyring. If it needs a passphrase, asks for the existing or a new one, and also returns the passphrase.
fn open(
    backend: Backend,
    folder: &Path,
    access: Access,
    prompt: &Prompt,
) -> anyhow::Result<(Keyring, Option<Zeroizing<String>>)> {
    let open = |passphrase: Option<&str>| Keyring::open(backend, folder, access, passphrase);
    match (passphrase_need(backend, folder), access) {
        (PassphraseNeed::None, _) | (PassphraseNeed::New, Access::Read) => Ok((open(None)?, None)),
        (PassphraseNeed::New, Access::Write) => {
            let passphrase = prompt.new_secret("keyring passphrase")?;
            Ok((open(Some(&passphrase))?, Some(passphrase)))
        }
        (PassphraseNeed::Existing, _) => {
            let attempts = if prompt.is_terminal() { ATTEMPTS } else { 1 };
            let mut attempt = 1;
            loop {
                let question = format!("Enter keyring passphrase (attempt {attempt}/{attempts}):");
                let passphrase = prompt.secret(&question)?;
                match open(Some(&passphrase)) {
                    Err(KeyringError::WrongPassphrase) if attempt < attempts => {
                        writeln!(std::io::stderr(), "incorrect passphrase")?;
                        attempt += 1;
                    }
                    opened => return Ok((opened?, Some(passphrase))),
                }
            }
        }
    }
}

/// Ends the process with a usage error and exit code 2.
fn usage(message: &str) -> ! {
    let error: clap::Error = clap::Error::raw(ErrorKind::ArgumentConflict, format!("{message}\n"));
    error.exit()
}

/// Opens the keyring and returns the private key with this name or address.
pub(super) fn signing_key(
    home: Option<PathBuf>,
    keyring_dir: Option<PathBuf>,
    keyring_backend: String,
    name: &str,
) -> anyhow::Result<PrivateKey> {
    let common = Common { home, keyring_dir, keyring_backend, output: Output::default() };
    let keyring = common.open(Access::Read, &Prompt::new())?;
    let by_address = || keyring.by_address(parse_address(name, &common.prefix().ok()?).ok()?);
    let record = keyring.by_name(name).or_else(by_address);
    let record = record.ok_or_else(|| KeyringError::Unknown(name.to_owned()))?;
    Ok(record.private_key()?.clone())
}
