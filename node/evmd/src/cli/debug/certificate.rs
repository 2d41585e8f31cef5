//! `evmd debug certificate` and `evmd debug verify-certificate`: the proof that the producer of a chain made a block.

use crate::cli::{HomeArg, Output};
use alloy_primitives::B256;
use anyhow::{Context, bail, ensure};
use certificates::{Authority, BlockId, PublicKey};
use chain::Genesis;
use home::BlockProof;
use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
};

/// Maximum size of a proof in bytes: the headers in hex.
const MAX_PROOF_BYTES: u64 = 32 << 20;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The block
    number: u64,
    #[command(flatten)]
    home: HomeArg,
}

/// Prints the proof of a block of a home folder. Its node may be running.
pub(super) fn print(args: &Args) -> anyhow::Result<()> {
    let proof = BlockProof::of(&args.home.path()?, args.number)?;
    writeln!(crate::cli::stdout(), "{}", serde_json::to_string(&proof)?)?;
    Ok(())
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct VerifyArgs {
    /// A file with the output of `evmd debug certificate`; - for standard input
    proof: PathBuf,
    /// The genesis file of the chain
    #[arg(long, value_name = "FILE", conflicts_with = "genesis_hash")]
    genesis: Option<PathBuf>,
    /// Hash of block 0 of the chain, instead of --genesis
    #[arg(long, value_name = "HASH", requires = "producer_key")]
    genesis_hash: Option<B256>,
    /// The public key of the producer, if the genesis file is not given or names none
    #[arg(long, value_name = "KEY")]
    producer_key: Option<PublicKey>,
    /// The recovery key of the chain, if it has one and the genesis file is not given
    #[arg(long, value_name = "KEY", requires = "genesis_hash")]
    recovery_key: Option<PublicKey>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Checks a proof without a node and without a home folder.
pub(super) fn verify(args: &VerifyArgs) -> anyhow::Result<()> {
    let proof: BlockProof = serde_json::from_str(&read(&args.proof)?).with_context(|| {
        format!("{} is not the output of `evmd debug certificate`", args.proof.display())
    })?;
    let block = proof.check(trusted(args)?)?;
    let mut out = crate::cli::stdout();
    let BlockId { number, hash } = block;
    match args.output {
        Output::Text => writeln!(out, "Block {number} {hash} is proved")?,
        Output::Json => writeln!(out, "{}", serde_json::to_value(block)?)?,
    }
    Ok(())
}

/// What the caller trusts.
fn trusted(args: &VerifyArgs) -> anyhow::Result<Authority> {
    if let (Some(genesis), Some(producer)) = (args.genesis_hash, args.producer_key) {
        return Ok(Authority::new(genesis, producer, args.recovery_key));
    }
    let path =
        args.genesis.as_deref().context("state --genesis, or --genesis-hash and --producer-key")?;
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let genesis = Genesis::from_json(&text).with_context(|| path.display().to_string())?;
    let named = genesis.spec.native().and_then(|native| native.producer);
    let (producer, recovery) = match (named, args.producer_key) {
        (Some(named), None) => (named.key, named.recovery),
        (None, Some(key)) => (key, None),
        (None, None) => bail!("{} names no producer: state --producer-key", path.display()),
        (Some(named), Some(_)) => {
            bail!("{} names the producer {}: leave --producer-key out", path.display(), named.key)
        }
    };
    Ok(Authority::new(genesis.header().hash_slow(), producer, recovery))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let limited = |input: &mut dyn Read, text: &mut String| {
        input.take(MAX_PROOF_BYTES + 1).read_to_string(text)
    };
    let read = match path.to_str() {
        Some("-") => limited(&mut std::io::stdin().lock(), &mut text),
        _ => std::fs::File::open(path).and_then(|mut file| limited(&mut file, &mut text)),
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        text.len() as u64 <= MAX_PROOF_BYTES,
        "{} has more than {MAX_PROOF_BYTES} bytes",
        path.display()
    );
    Ok(text)
}
