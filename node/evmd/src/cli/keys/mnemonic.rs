//! `evmd keys mnemonic` creates a mnemonic and does not store it.

use super::{Common, prompt::Prompt};
use anyhow::bail;
use keys::mnemonic::{DEFAULT_WORDS, Phrase};
use sha2::{Digest, Sha256};
use std::io::Write;
use zeroize::Zeroizing;

/// Minimum length of the text: 43 base64 characters can carry 256 bits of entropy.
const MIN_ENTROPY_CHARS: usize = 43;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Create it from text that is read from the prompt, not from the system's randomness
    #[arg(long, conflicts_with = "words")]
    unsafe_entropy: bool,
    /// Number of words: 12, 15, 18, 21 or 24
    #[arg(long, value_name = "N", default_value_t = DEFAULT_WORDS)]
    words: usize,
    /// Language
    #[arg(long, value_name = "NAME", default_value = "english")]
    language: String,
}

pub(super) fn run(common: &Common, args: &Args) -> anyhow::Result<()> {
    let phrase = if args.unsafe_entropy {
        let question =
            "> WARNING: Generate at least 256-bits of entropy and enter the results here:";
        let text = Prompt::new().secret(question)?;
        let length = text.chars().count();
        if length < MIN_ENTROPY_CHARS {
            bail!("256-bits is {MIN_ENTROPY_CHARS} characters in Base-64, input has {length}");
        }
        let entropy = Zeroizing::new(<[u8; 32]>::from(Sha256::digest(text.as_bytes())));
        Phrase::from_entropy(entropy.as_ref(), &args.language)?
    } else {
        Phrase::random(args.words, &args.language)?
    };
    let words = phrase.words();
    let mut out = crate::cli::stdout();
    if common.json() {
        // The words contain no characters that need escaping in JSON.
        writeln!(out, "{{\"mnemonic\":\"{}\"}}", *words)?;
    } else {
        writeln!(out, "{}", *words)?;
    }
    Ok(())
}
