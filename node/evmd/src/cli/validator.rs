//! `evmd validator` manages the consensus key of a validator and the record of its votes.

use super::{HomeArg, Output, stdout};
use anyhow::{Context, bail};
use certificates::PublicKey;
use clap::Subcommand;
use home::{VALIDATOR_KEY_FILE, validator_key};
use std::{io::Write, path::Path};
use validator::{accept_record, create_record, create_validator, evidence};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create the key with which this home votes, and an empty record of its votes
    ///
    /// The genesis of the chain names the public keys of its validators (config.evmd.gov.validators, consensus_key).
    NewKey(KeyArgs),
    /// Show the public key with which this home votes
    Show(KeyArgs),
    /// Print the votes that contradict each other, as this home's validator has seen them
    ///
    /// A key that has signed such a pair is in use on two nodes, or its owner attacks the chain.
    Evidence(KeyArgs),
    /// Create an empty record of votes for a key whose record was lost
    ///
    /// A validator whose record was lost could vote for two blocks in one view. This is safe only if the key has never voted,
    /// or if the other validators have passed the views of its last votes: stop this validator for some minutes, and look at
    /// the chain's height on another one.
    NewRecord(RecordArgs),
    /// Accept the record of votes of a home that was copied or restored
    ///
    /// It may lack votes that were sent after the copy was made. This is safe only if the original has not been used since.
    AcceptRecord(AcceptArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct KeyArgs {
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, clap::Args)]
pub(super) struct RecordArgs {
    #[command(flatten)]
    home: HomeArg,
    /// Confirm that the chain has passed the views of all votes of this key, or that it has never voted
    #[arg(long)]
    old_votes_are_passed: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct AcceptArgs {
    #[command(flatten)]
    home: HomeArg,
    /// Confirm that no other copy of this home has voted since this one was made
    #[arg(long)]
    is_newest: bool,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::NewKey(args) => {
            let home = args.home.path()?;
            print(&home, create_validator(&home)?, args.output)
        }
        Command::Show(args) => {
            let home = args.home.path()?;
            let key = validator_key(&home)?.with_context(|| {
                let path = home.join(VALIDATOR_KEY_FILE);
                format!("{} is missing: `evmd validator new-key` creates it", path.display())
            })?;
            print(&home, key.public(), args.output)
        }
        Command::Evidence(args) => print_evidence(&args.home.path()?, args.output),
        Command::NewRecord(args) => {
            if !args.old_votes_are_passed {
                bail!(
                    "--old-votes-are-passed is missing: without the record of its votes a validator could vote for two blocks in \
                     one view, which the others see as an attack"
                );
            }
            Ok(create_record(&args.home.path()?)?)
        }
        Command::AcceptRecord(args) => {
            if !args.is_newest {
                bail!(
                    "--is-newest is missing: if another copy of this home has voted since this one was made, this validator could \
                     vote for two blocks in one view, which the others see as an attack"
                );
            }
            Ok(accept_record(&args.home.path()?)?)
        }
    }
}

fn print_evidence(home: &Path, output: Output) -> anyhow::Result<()> {
    let (pairs, mut out) = (evidence(home)?, stdout());
    if output == Output::Json {
        serde_json::to_writer_pretty(&mut out, &pairs)?;
        return Ok(writeln!(out)?);
    }
    if pairs.is_empty() {
        writeln!(out, "this validator has seen no votes that contradict each other")?;
    }
    for pair in pairs {
        writeln!(out, "{pair}")?;
    }
    Ok(())
}

fn print(home: &Path, key: PublicKey, output: Output) -> anyhow::Result<()> {
    let mut out = stdout();
    match output {
        Output::Text => writeln!(out, "{key}")?,
        Output::Json => {
            let file = home.join(VALIDATOR_KEY_FILE);
            let value = serde_json::json!({ "consensusKey": key, "file": file.to_string_lossy() });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}
