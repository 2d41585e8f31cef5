//! `evmd query gov` queries proposals, votes and deposits.

use super::rest::{RestArgs, escape};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// A proposal
    Proposal(OfProposal),
    /// Proposals, oldest first
    Proposals {
        /// Show only proposals with this status, such as PROPOSAL_STATUS_VOTING_PERIOD
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Show only proposals with a vote of this account
        #[arg(long, value_name = "ADDRESS")]
        voter: Option<String>,
        /// Show only proposals with a deposit of this account
        #[arg(long, value_name = "ADDRESS")]
        depositor: Option<String>,
        #[command(flatten)]
        rest: RestArgs,
    },
    /// The tally of a proposal
    Tally(OfProposal),
    /// The votes on a proposal
    Votes(OfProposal),
    /// The vote of an account on a proposal
    Vote(OfAccount),
    /// The deposits on a proposal
    Deposits(OfProposal),
    /// The deposit of an account on a proposal
    Deposit(OfAccount),
    /// Periods, deposits and thresholds
    Params(RestArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct OfProposal {
    /// Id of the proposal
    id: u64,
    #[command(flatten)]
    rest: RestArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct OfAccount {
    /// Id of the proposal
    id: u64,
    /// Address in any format
    address: String,
    #[command(flatten)]
    rest: RestArgs,
}

const ROOT: &str = "/cosmos/gov/v1";

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    let show = |args: &OfProposal, what: &str| {
        args.rest.show(&format!("{ROOT}/proposals/{}{what}", args.id))
    };
    let show_of_account = |args: &OfAccount, what: &str| {
        args.rest.show(&format!("{ROOT}/proposals/{}/{what}/{}", args.id, escape(&args.address)))
    };
    match command {
        Command::Proposal(args) => show(args, ""),
        Command::Tally(args) => show(args, "/tally"),
        Command::Votes(args) => show(args, "/votes"),
        Command::Deposits(args) => show(args, "/deposits"),
        Command::Vote(args) => show_of_account(args, "votes"),
        Command::Deposit(args) => show_of_account(args, "deposits"),
        Command::Params(rest) => rest.show(&format!("{ROOT}/params")),
        Command::Proposals { status, voter, depositor, rest } => {
            let given = [("proposal_status", status), ("voter", voter), ("depositor", depositor)];
            let pairs: Vec<_> = given
                .into_iter()
                .filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_ref()?))))
                .collect();
            rest.show(&format!("{ROOT}/proposals?{}", pairs.join("&")))
        }
    }
}
