//! The flags that commands share which send a transaction; named as the SDK's.

use super::node::Node;
use crate::cli::{HomeArg, Output, keys, prefix};
use ::keys::PrivateKey;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use transactions::cosmos::ACCOUNT_NUMBER;

/// Where a node is, and how its answers are printed.
#[derive(Clone, Debug, Args)]
pub(super) struct NodeFlags {
    /// Where the node serves REST
    #[arg(long, value_name = "URL", env = "EVMD_NODE", default_value = "http://127.0.0.1:1317")]
    pub(super) node: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Output,
}

impl NodeFlags {
    pub(super) fn open(&self) -> anyhow::Result<Node> {
        Node::new(&self.node)
    }
}

/// How a transaction is sent.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct BroadcastFlags {
    /// What the answer waits for; this node's for its checks, whatever is named
    #[arg(short = 'b', long = "broadcast-mode", value_name = "MODE", value_enum, default_value_t)]
    pub(super) mode: BroadcastMode,
}

/// What the answer to a transaction waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum BroadcastMode {
    /// The node's checks
    #[default]
    Sync,
    /// Nothing
    Async,
}

/// Where keys are.
#[derive(Clone, Debug, Args)]
pub(super) struct KeyFlags {
    /// Home folder
    #[arg(long, value_name = "DIR", env = "EVMD_HOME")]
    pub(super) home: Option<PathBuf>,
    /// Folder of the keyring; the home folder without it
    #[arg(long, value_name = "DIR")]
    pub(super) keyring_dir: Option<PathBuf>,
    /// Where keys are kept
    #[arg(
        long,
        value_name = "BACKEND",
        env = "EVMD_KEYRING_BACKEND",
        default_value = "file",
        value_parser = ["file", "test", "memory", "os", "kwallet", "pass"]
    )]
    pub(super) keyring_backend: String,
}

impl KeyFlags {
    pub(super) fn key(&self, name: &str) -> anyhow::Result<PrivateKey> {
        let (home, folder) = (self.home.clone(), self.keyring_dir.clone());
        keys::signing_key(home, folder, self.keyring_backend.clone(), name)
    }

    /// The prefix of addresses, as far as the home folder tells it.
    pub(super) fn prefix(&self) -> anyhow::Result<String> {
        prefix::of_home(&HomeArg { home: self.home.clone() })
    }
}

/// What is paid for gas, and what else a transaction says.
#[derive(Clone, Debug, Args)]
pub(super) struct TxFlags {
    #[command(flatten)]
    pub(super) node: NodeFlags,
    #[command(flatten)]
    pub(super) keys: KeyFlags,
    /// Chain id; asked of the node without it
    #[arg(long, value_name = "ID")]
    pub(super) chain_id: Option<u64>,
    /// Gas limit, or `auto` to ask the node
    #[arg(long, value_name = "GAS", default_value = "auto")]
    pub(super) gas: String,
    /// Factor on the gas that the node tells
    #[arg(long, value_name = "FACTOR", default_value = "1.5")]
    pub(super) gas_adjustment: String,
    /// Price of gas, such as 1000000000atest; without it and --fees, 1.3 times the base fee,
    /// or the minimum that the chain and the node's mempool accept
    #[arg(long, value_name = "PRICE", conflicts_with = "fees")]
    pub(super) gas_prices: Option<String>,
    /// The fee, such as 200000000000000atest
    #[arg(long, value_name = "AMOUNT")]
    pub(super) fees: Option<String>,
    /// A note in the transaction
    #[arg(long, value_name = "TEXT", default_value = "", visible_alias = "memo")]
    pub(super) note: String,
    /// Height after which it is not valid any more
    #[arg(long, value_name = "HEIGHT", default_value_t = 0)]
    pub(super) timeout_height: u64,
    /// Sequence; asked of the node without it
    #[arg(long, short, value_name = "NUMBER")]
    pub(super) sequence: Option<u64>,
    /// Account number; every account of this chain has 0
    #[arg(long, short, value_name = "NUMBER", value_parser = account_number)]
    pub(super) account_number: Option<u64>,
    /// What is signed
    #[arg(long, value_name = "MODE", default_value = "direct", value_parser = ["direct", "amino-json"])]
    pub(super) sign_mode: String,
    /// Print the unsigned transaction and stop; the sender may be an address without a key here
    #[arg(long)]
    pub(super) generate_only: bool,
    /// Print the gas it would use and stop
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Ask no node, and print the signed transaction
    #[arg(long, requires_all = ["chain_id", "sequence"])]
    pub(super) offline: bool,
    #[command(flatten)]
    pub(super) broadcast: BroadcastFlags,
    /// Do not ask before sending
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// Reads an account number, of which there is one.
pub(super) fn account_number(text: &str) -> Result<u64, String> {
    let number = text.parse().map_err(|error| format!("{error}"))?;
    if number == ACCOUNT_NUMBER {
        Ok(number)
    } else {
        Err(format!("every account of this chain has number {ACCOUNT_NUMBER}"))
    }
}
