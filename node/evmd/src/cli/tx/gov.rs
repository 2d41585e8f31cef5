//! `evmd tx gov` sends governance transactions, and drafts a proposal.

use super::{flags::TxFlags, json, node::Node, send::send};
use crate::cli::{prefix, query::NodeArg};
use anyhow::{Context, bail};
use keys::{bech32, parse_address};
use prost::{Message, Name};
use prost_types::Any;
use proto::cosmos::gov::v1::{MsgDeposit, MsgSubmitProposal, MsgVote, VoteOption};
use serde::Deserialize;
use serde_json::Value;
use std::{io::Write, path::PathBuf};
use transactions::cosmos::parse_coin;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Submit the proposal in a file, as `draft-proposal` writes one
    SubmitProposal {
        /// JSON with messages, deposit, title and summary
        file: PathBuf,
        #[command(flatten)]
        from: From,
    },
    /// Add to the deposit of a proposal
    Deposit {
        /// Id of the proposal
        id: u64,
        /// Amount, such as 10atest
        amount: String,
        #[command(flatten)]
        from: From,
    },
    /// Vote on a proposal
    Vote {
        /// Id of the proposal
        id: u64,
        /// yes, no, no_with_veto or abstain
        option: String,
        /// Memo of the vote
        #[arg(long, value_name = "TEXT", default_value = "")]
        metadata: String,
        #[command(flatten)]
        from: From,
    },
    /// Print a draft proposal that changes the fee market
    DraftProposal {
        #[command(flatten)]
        node: NodeArg,
    },
}

/// The sender of the transaction.
#[derive(Debug, clap::Args)]
pub(super) struct From {
    /// Name or address of the sender's key
    #[arg(long, value_name = "KEY")]
    from: String,
    #[command(flatten)]
    flags: Box<TxFlags>,
}

/// The content of a proposal file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proposal {
    #[serde(default)]
    messages: Vec<Value>,
    #[serde(default)]
    metadata: String,
    #[serde(default)]
    deposit: String,
    title: String,
    summary: String,
    #[serde(default)]
    expedited: bool,
}

/// The address of the governance module in [`DRAFT`], its Bech32 prefix, and the token.
const DRAFT_AUTHORITY: &str = "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn";
const DRAFT_PREFIX: &str = "cosmos";
const DRAFT_DENOM: &str = "atest";

const DRAFT: &str = r#"{
 "messages": [
  {
   "@type": "/cosmos.evm.feemarket.v1.MsgUpdateParams",
   "authority": "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn",
   "params": {
    "no_base_fee": false,
    "base_fee_change_denominator": 8,
    "elasticity_multiplier": 2,
    "enable_height": "0",
    "base_fee": "1000000000.000000000000000000",
    "min_gas_price": "0.000000000000000000",
    "min_gas_multiplier": "0.500000000000000000"
   }
  }
 ],
 "metadata": "",
 "deposit": "10000000atest",
 "title": "Title",
 "summary": "What it changes, and why",
 "expedited": false
}
"#;

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::SubmitProposal { file, from } => {
            let text =
                std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let proposal: Proposal =
                serde_json::from_str(&text).with_context(|| file.display().to_string())?;
            send(&from.flags, &from.from, |sender| submission(proposal, sender))
        }
        Command::Deposit { id, amount, from } => send(&from.flags, &from.from, |sender| {
            let message = MsgDeposit {
                proposal_id: id,
                depositor: sender.to_owned(),
                amount: vec![parse_coin(&amount)?],
            };
            Ok(vec![any(&message)])
        }),
        Command::Vote { id, option, metadata, from } => {
            let option = read_option(&option)?.into();
            send(&from.flags, &from.from, |sender| {
                let voter = sender.to_owned();
                Ok(vec![any(&MsgVote { proposal_id: id, voter, option, metadata })])
            })
        }
        Command::DraftProposal { node } => {
            crate::cli::stdout().write_all(draft(&node)?.as_bytes())?;
            Ok(())
        }
    }
}

/// Returns the draft with the address prefix and the token of the chain. They come from the genesis in the home folder,
/// or from the node if the user has set its address or there is no genesis. Without a node, the defaults remain.
fn draft(node: &NodeArg) -> anyhow::Result<String> {
    let genesis = if node.has_address() { None } else { prefix::spec_of_home(&node.home)? };
    let (prefix, denom) = match genesis {
        Some(spec) => (spec.bech32_prefix.clone(), spec.token(0).denom.to_owned()),
        None => match Node::new(node) {
            Ok(node) => (node.prefix()?, node.token()?.token().denom.to_owned()),
            Err(error) if node.has_address() => return Err(error),
            Err(_) => return Ok(DRAFT.to_owned()),
        },
    };
    let authority = bech32(&prefix, parse_address(DRAFT_AUTHORITY, DRAFT_PREFIX)?);
    Ok(DRAFT.replace(DRAFT_AUTHORITY, &authority).replace(DRAFT_DENOM, &denom))
}

fn submission(proposal: Proposal, proposer: &str) -> anyhow::Result<Vec<Any>> {
    let deposit = match proposal.deposit.as_str() {
        "" => Vec::new(),
        text => vec![parse_coin(text)?],
    };
    let message = MsgSubmitProposal {
        messages: proposal.messages.iter().map(json::any).collect::<anyhow::Result<_>>()?,
        initial_deposit: deposit,
        proposer: proposer.to_owned(),
        metadata: proposal.metadata,
        title: proposal.title,
        summary: proposal.summary,
        expedited: proposal.expedited,
    };
    Ok(vec![any(&message)])
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

fn read_option(text: &str) -> anyhow::Result<VoteOption> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "yes" => VoteOption::Yes,
        "no" => VoteOption::No,
        "abstain" => VoteOption::Abstain,
        "no_with_veto" | "no-with-veto" | "nowithveto" => VoteOption::NoWithVeto,
        _ => bail!("{text:?} is not a vote: use yes, no, no_with_veto or abstain"),
    })
}
