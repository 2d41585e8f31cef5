//! Defines the options that the commands of `evmd tx` share, with the SDK's names.

use super::node::Node;
use crate::cli::{HomeArg, Output, keys, query::NodeArg};
use ::keys::PrivateKey;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use transactions::cosmos::ACCOUNT_NUMBER;

/// The node, and the output format.
#[derive(Clone, Debug, Args)]
pub(super) struct NodeFlags {
    #[command(flatten)]
    pub(super) node: NodeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Output,
}

impl NodeFlags {
    pub(super) fn open(&self) -> anyhow::Result<Node> {
        Node::new(&self.node)
    }

    pub(super) const fn home(&self) -> &HomeArg {
        &self.node.home
    }
}

/// How a transaction is sent.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct BroadcastFlags {
    /// What the response waits for; this node always waits for its checks
    #[arg(short = 'b', long = "broadcast-mode", value_name = "MODE", value_enum, default_value_t)]
    pub(super) mode: BroadcastMode,
}

/// What the response to a transaction waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum BroadcastMode {
    /// The node's checks
    #[default]
    Sync,
    /// Nothing
    Async,
}

/// Where keys are stored, if it is not the home folder of [`NodeFlags`].
#[derive(Clone, Debug, Args)]
pub(super) struct KeyFlags {
    /// Folder of the keyring; by default the home folder
    #[arg(long, value_name = "DIR")]
    pub(super) keyring_dir: Option<PathBuf>,
    /// Where keys are stored
    #[arg(
        long,
        value_name = "BACKEND",
        env = "EVMD_KEYRING_BACKEND",
        default_value = "file",
        value_parser = keys::backend_names()
    )]
    pub(super) keyring_backend: String,
}

impl KeyFlags {
    pub(super) fn key(&self, home: &HomeArg, name: &str) -> anyhow::Result<PrivateKey> {
        let (home, folder) = (home.home.clone(), self.keyring_dir.clone());
        keys::signing_key(home, folder, self.keyring_backend.clone(), name)
    }
}

/// The gas price and other fields of a transaction.
#[derive(Clone, Debug, Args)]
pub(super) struct TxFlags {
    #[command(flatten)]
    pub(super) node: NodeFlags,
    #[command(flatten)]
    pub(super) keys: KeyFlags,
    /// Chain id; by default queried from the node
    #[arg(long, value_name = "ID")]
    pub(super) chain_id: Option<u64>,
    /// Gas limit, or `auto` to query the node
    #[arg(long, value_name = "GAS", default_value = "auto")]
    pub(super) gas: String,
    /// Factor for the gas that the node estimates
    #[arg(long, value_name = "FACTOR", default_value = "1.5")]
    pub(super) gas_adjustment: String,
    /// Price of gas, such as 1000000000atest; without it and --fees, 1.3 times the base fee, or the minimum of
    /// the chain and the node's mempool
    #[arg(long, value_name = "PRICE", conflicts_with = "fees")]
    pub(super) gas_prices: Option<String>,
    /// The fee, such as 200000000000000atest
    #[arg(long, value_name = "AMOUNT")]
    pub(super) fees: Option<String>,
    /// Memo of the transaction
    #[arg(long, value_name = "TEXT", default_value = "", visible_alias = "memo")]
    pub(super) note: String,
    /// Last height at which the transaction is valid
    #[arg(long, value_name = "HEIGHT", default_value_t = 0)]
    pub(super) timeout_height: u64,
    /// Sequence; by default queried from the node
    #[arg(long, short, value_name = "NUMBER")]
    pub(super) sequence: Option<u64>,
    /// Account number; it is 0 for every account of this chain
    #[arg(long, short, value_name = "NUMBER", value_parser = account_number)]
    pub(super) account_number: Option<u64>,
    /// Sign mode
    #[arg(long, value_name = "MODE", default_value = "direct", value_parser = ["direct", "amino-json"])]
    pub(super) sign_mode: String,
    /// Print the unsigned transaction; the sender may be an address whose key is not in the keyring
    #[arg(long)]
    pub(super) generate_only: bool,
    /// Print the gas that the transaction would use
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not query a node, and print the signed transaction
    #[arg(long, requires_all = ["chain_id", "sequence"])]
    pub(super) offline: bool,
    #[command(flatten)]
    pub(super) broadcast: BroadcastFlags,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// Parses an account number, which must be 0.
pub(super) fn account_number(text: &str) -> Result<u64, String> {
    let number = text.parse().map_err(|error| format!("{error}"))?;
    if number == ACCOUNT_NUMBER {
        Ok(number)
    } else {
        Err(format!("every account of this chain has number {ACCOUNT_NUMBER}"))
    }
}
