//! `evmd debug certificate` prints, and `evmd debug verify-certificate` checks, the proof that the producer or the
//! validators of a chain produced a block.

use super::trust::Trust;
use crate::cli::{HomeArg, Output};
use anyhow::{Context, ensure};
use certificates::BlockId;
use home::BlockProof;
use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
};

/// Maximum size of a file with a proof in bytes. A proof of a block contains headers in hex.
const MAX_PROOF_BYTES: u64 = 32 << 20;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The block
    number: u64,
    #[command(flatten)]
    home: HomeArg,
}

/// Prints the proof of one block from a home folder, whose node may be running.
pub(super) fn print(args: &Args) -> anyhow::Result<()> {
    let proof = BlockProof::of(&args.home.path()?, args.number)?;
    writeln!(crate::cli::stdout(), "{}", serde_json::to_string(&proof)?)?;
    Ok(())
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct VerifyArgs {
    /// A file with the output of `evmd debug certificate`; - for standard input
    proof: PathBuf,
    #[command(flatten)]
    trust: Trust,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Checks a proof without a node and without a home folder.
pub(super) fn verify(args: &VerifyArgs) -> anyhow::Result<()> {
    let proof: BlockProof = serde_json::from_str(&read(&args.proof)?).with_context(|| {
        format!("{} is not the output of `evmd debug certificate`", args.proof.display())
    })?;
    let block = proof.check(args.trust.authority()?)?;
    let mut out = crate::cli::stdout();
    let BlockId { number, hash } = block;
    match args.output {
        Output::Text => writeln!(out, "Block {number} {hash} is proved")?,
        Output::Json => writeln!(out, "{}", serde_json::to_value(block)?)?,
    }
    Ok(())
}

pub(super) fn read(path: &Path) -> anyhow::Result<String> {
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
