//! `evmd keys add` creates or recovers a key, or stores a public key.

use super::{
    Common,
    output::{KeyOutput, print_one},
    prompt::Prompt,
};
use anyhow::{Context, bail};
use keys::{
    Bech32Kind, COIN_TYPE, HdPath, PublicKey, check_algorithm,
    keyring::{Access, Keyring, Record},
    mnemonic::{DEFAULT_WORDS, MAX_PHRASE_BYTES, Phrase},
    read_secret,
};
use std::{io::Write, path::PathBuf};
use zeroize::Zeroizing;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the key
    name: String,
    /// Recover the key from its mnemonic, which is read from the prompt
    #[arg(long)]
    recover: bool,
    /// Read the mnemonic from a file
    #[arg(long, value_name = "FILE", requires = "recover")]
    source: Option<PathBuf>,
    /// Ask for a BIP-39 passphrase, too
    #[arg(long, short)]
    interactive: bool,
    /// Do not show the new mnemonic
    #[arg(long)]
    no_backup: bool,
    /// Show the key and do not store it
    #[arg(long)]
    dry_run: bool,
    /// Number of words of a new mnemonic: 12, 15, 18, 21 or 24
    #[arg(long, value_name = "N", default_value_t = DEFAULT_WORDS)]
    words: usize,
    /// Language of a new mnemonic; a given one may be in any language
    #[arg(long, value_name = "NAME", default_value = "english")]
    language: String,
    /// Full BIP-44 path, for example m/44'/60'/0'/0/0
    #[arg(long, value_name = "PATH", conflicts_with_all = ["coin_type", "account", "index"])]
    hd_path: Option<String>,
    /// Coin type of the path (SLIP-44)
    #[arg(long, value_name = "N", default_value_t = COIN_TYPE)]
    coin_type: u32,
    /// Account of the path
    #[arg(long, value_name = "N", default_value_t = 0)]
    account: u32,
    /// Index of the path
    #[arg(long, value_name = "N", default_value_t = 0)]
    index: u32,
    /// Algorithm of the key
    #[arg(long, visible_alias = "key-type", value_name = "NAME", default_value = "eth_secp256k1")]
    algo: String,
    /// Store this public key, in JSON, without a private key
    #[arg(long, value_name = "JSON", conflicts_with_all = ["recover", "pubkey_base64"])]
    pubkey: Option<String>,
    /// Store this public key, in base64, without a private key
    #[arg(long, value_name = "BASE64", conflicts_with = "recover")]
    pubkey_base64: Option<String>,
}

pub(super) fn run(common: &Common, args: Args) -> anyhow::Result<()> {
    check_algorithm(&args.algo)?;
    let prompt = Prompt::new();
    let prefix = common.prefix()?;
    let (record, words) = make(&args, &prompt)?;
    if args.dry_run {
        Keyring::memory().add(record.clone(), false)?;
    } else {
        store(common, &prompt, record.clone())?;
    }
    let shown = words.filter(|_| !args.no_backup);
    let words_in_json = shown.clone();
    let key = KeyOutput::new(&record, Bech32Kind::Account, &prefix);
    let key = if common.json() { key.with_mnemonic(words_in_json) } else { key };
    print_one(common, &key)?;
    if let Some(words) = shown.filter(|_| !common.json()) {
        writeln!(
            std::io::stderr(),
            "\n**Important** write this mnemonic phrase in a safe place.\n\
             It is the only way to recover your account if you ever forget your password.\n\n\
             {}",
            *words
        )?;
    }
    Ok(())
}

/// Creates the record to store. Also returns the mnemonic if this command generated it.
fn make(args: &Args, prompt: &Prompt) -> anyhow::Result<(Record, Option<Zeroizing<String>>)> {
    let public_key = match (&args.pubkey, &args.pubkey_base64) {
        (Some(json), _) => Some(PublicKey::from_json(json)?),
        (None, Some(base64)) => Some(PublicKey::from_base64(base64)?),
        (None, None) => None,
    };
    if let Some(public_key) = public_key {
        return Ok((Record::offline(args.name.clone(), public_key), None));
    }
    let path = match &args.hd_path {
        Some(path) => path.parse()?,
        None => HdPath::new(args.coin_type, args.account, args.index)?,
    };
    let phrase = match (&args.source, args.recover) {
        (Some(file), _) => {
            let reading = || format!("cannot read {}", file.display());
            let bytes = read_secret(file, MAX_PHRASE_BYTES).with_context(reading)?;
            Phrase::parse(std::str::from_utf8(&bytes).with_context(reading)?)?
        }
        (None, true) => Phrase::parse(&prompt.secret("Enter your bip39 mnemonic:")?)?,
        (None, false) => Phrase::random(args.words, &args.language)?,
    };
    let passphrase = if args.interactive {
        prompt.new_secret("your bip39 passphrase (most users leave it empty)")?
    } else {
        Zeroizing::default()
    };
    let key = phrase.derive(&passphrase, &path)?;
    let words = (!args.recover).then(|| phrase.words());
    Ok((Record::local(args.name.clone(), key), words))
}

/// Stores a record. Asks for confirmation before it replaces a record with the same name.
pub(super) fn store(common: &Common, prompt: &Prompt, record: Record) -> anyhow::Result<()> {
    let mut keyring = common.open(Access::Write, prompt)?;
    let exists = keyring.by_name(&record.name).is_some();
    if exists && !prompt.confirm(&format!("override the existing name {}", record.name))? {
        bail!("aborted");
    }
    keyring.add(record, exists)?;
    Ok(())
}
