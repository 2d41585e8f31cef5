//! `evmd debug` examines signatures, addresses, base fees, state roots and proofs without querying a node.

mod addr;
mod basefee;
mod certificate;
mod prefixes;
mod pubkey;
mod raw_bytes;
mod state_proof;
mod state_root;
mod trust;

use super::{is_stdout_closed, tested_backend};
use alloy_primitives::{Bytes, hex};
use evm::TxError;
use std::io::{BufRead, BufWriter, Write};
use transactions::DecodedTx;
use verify::{Job, Outcome, Reason, Recoverer};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Recover the senders of raw transactions: one 0x transaction per input line, one address or error per
    /// output line. A signature whose s is in the upper half of the order is an error (EIP-2)
    Recover,
    /// Show an address in hex and Bech32
    Addr(addr::Args),
    /// Show the chain's Bech32 prefixes
    Prefixes(prefixes::Args),
    /// Show the address and hex of a public key
    Pubkey(pubkey::Args),
    /// Convert bytes from decimal numbers to hex
    RawBytes(raw_bytes::Args),
    /// Compute the next base fees: one JSON object per input line, `{"next":..}` or `{"error":..}` per output
    /// line
    Basefee,
    /// Compare the state root of the newest indexed block with the one recomputed from all accounts
    StateRoot(state_root::Args),
    /// Print the proof that the producer or the validators made a block: its headers up to a signed one, and the certificate
    Certificate(certificate::Args),
    /// Check the output of `evmd debug certificate` without a node
    VerifyCertificate(Box<certificate::VerifyArgs>),
    /// Check a response of `eth_getProof` without a node: the certificate proves the header, and the header proves the state
    VerifyProof(Box<state_proof::Args>),
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Recover => recover(),
        Command::Addr(args) => addr::run(args),
        Command::Prefixes(args) => prefixes::run(args),
        Command::Pubkey(args) => pubkey::run(args),
        Command::RawBytes(args) => raw_bytes::run(args),
        Command::Basefee => basefee::run(),
        Command::StateRoot(args) => state_root::run(args),
        Command::Certificate(args) => certificate::print(args),
        Command::VerifyCertificate(args) => certificate::verify(args),
        Command::VerifyProof(args) => state_proof::run(args),
    }
}

/// Number of lines recovered together: enough to fill the backends' batches, but few enough to print results promptly.
const BATCH_LINES: usize = 256;

fn recover() -> anyhow::Result<()> {
    let mut recoverer = Recoverer::new(tested_backend()?);
    let mut out = BufWriter::new(crate::cli::stdout());
    let mut lines = Vec::with_capacity(BATCH_LINES);
    for line in std::io::stdin().lock().lines() {
        lines.push(line?);
        if is_stdout_closed() {
            return Ok(());
        }
        if lines.len() == BATCH_LINES {
            recover_lines(&mut recoverer, &lines, &mut out)?;
            lines.clear();
        }
    }
    recover_lines(&mut recoverer, &lines, &mut out)?;
    out.flush()?;
    Ok(())
}

fn recover_lines(
    recoverer: &mut Recoverer,
    lines: &[String],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let decoded: Vec<_> = lines.iter().map(|line| decode(line)).collect();
    let jobs: Vec<Job> = decoded.iter().flatten().map(DecodedTx::job).collect();
    let mut outcomes: Vec<Outcome> = vec![Err(Reason::NoPublicKey); jobs.len()];
    recoverer.recover_batch(&jobs, &mut outcomes);
    let mut outcomes = outcomes.iter();
    for tx in decoded {
        let sender = tx.and_then(|tx| {
            let outcome = outcomes.next().expect("there is one outcome per decoded transaction");
            let tx = tx.finish(outcome).map_err(|reason| reason.to_string())?;
            // Every fork since Homestead rejects a high s (EIP-2).
            if tx.high_s { Err(format!("invalid signature: {}", TxError::HighS)) } else { Ok(tx) }
        });
        match sender {
            Ok(tx) => writeln!(out, "{}", tx.sender.to_checksum(None))?,
            Err(reason) => writeln!(out, "error: {reason}")?,
        }
    }
    Ok(())
}

fn decode(line: &str) -> Result<DecodedTx, String> {
    let bytes = hex::decode(line.trim()).map_err(|error| format!("not hex: {error}"))?;
    DecodedTx::decode(Bytes::from(bytes)).map_err(|error| error.to_string())
}
