//! `evmd tx evm` sends Ethereum transactions over REST.

use super::{
    flags::{BroadcastFlags, KeyFlags, NodeFlags},
    node::NodeToken,
    send::chain_id,
};
use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Signature, TxKind, U256, hex};
use anyhow::Context;
use keys::parse_address;
use transactions::cosmos::{GasPrice, parse_coin};

/// The gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Send a signed Ethereum transaction
    Raw {
        /// EIP-2718 encoding in hex
        tx: String,
        /// No effect, because the command never asks for confirmation
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        node: NodeFlags,
        #[command(flatten)]
        broadcast: BroadcastFlags,
    },
    /// Send tokens in an Ethereum transaction
    Send(Box<Send>),
}

#[derive(Debug, clap::Args)]
pub(super) struct Send {
    /// Name or address of the sender's key
    from: String,
    /// Address in any format
    to: String,
    /// Amount, such as 10atest
    amount: String,
    /// Gas limit
    #[arg(long, value_name = "GAS", default_value_t = TRANSFER_GAS)]
    gas: u64,
    /// Maximum price of gas, such as 1000000000atest; by default twice the base fee, or the minimum of the
    /// chain
    #[arg(long, value_name = "PRICE")]
    gas_prices: Option<String>,
    /// Nonce; by default queried from the node
    #[arg(long, short, value_name = "NUMBER", visible_alias = "nonce")]
    sequence: Option<u64>,
    /// Chain id, which must be that of the node
    #[arg(long, value_name = "ID")]
    chain_id: Option<u64>,
    /// No effect, because the command never asks for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    keys: KeyFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    broadcast: BroadcastFlags,
}

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Raw { tx, yes: _, node, broadcast } => {
            let bytes = hex::decode(tx.trim()).context("the transaction is not hex")?;
            node.open()?.broadcast(&bytes, broadcast.mode, node.output)
        }
        Command::Send(args) => send(&args),
    }
}

fn send(args: &Send) -> anyhow::Result<()> {
    let node = args.node.open()?;
    let key = args.keys.key(args.node.home(), &args.from)?;
    let to = parse_address(&args.to, &node.prefix()?).with_context(|| args.to.clone())?;
    let token = node.token()?;
    let coin = parse_coin(&args.amount)?;
    let amount = coin.amount.parse::<U256>().context("the amount")?;
    let value = token.unit_named(&coin.denom)?.to_wei(amount);
    let value = value.with_context(|| format!("{} exceeds 2^256 - 1 wei", args.amount))?;
    let (base_fee, min_price) = (node.base_fee()?, node.min_price()?);
    let max_fee = match &args.gas_prices {
        Some(price) => price_in_wei(price, &token)?,
        None => base_fee.saturating_mul(2).max(min_price),
    };
    let tx = TxEip1559 {
        chain_id: chain_id(args.chain_id, node.chain_id()?)?,
        nonce: args.sequence.map_or_else(|| node.sequence(key.address()), Ok)?,
        gas_limit: args.gas,
        max_fee_per_gas: max_fee,
        // If the minimum price exceeds the base fee, the priority fee pays the difference.
        max_priority_fee_per_gas: min_price.saturating_sub(base_fee).min(max_fee),
        to: TxKind::Call(to),
        value,
        ..TxEip1559::default()
    };
    let signature = Signature::from_raw_array(&key.sign(&tx.signature_hash()))?;
    let tx = tx.into_signed(signature);
    node.broadcast(&tx.encoded_2718(), args.broadcast.mode, args.node.output)
}

/// Converts a gas price to whole wei, rounded up, because an Ethereum transaction can only offer whole wei.
fn price_in_wei(text: &str, token: &NodeToken) -> anyhow::Result<u128> {
    let price: GasPrice = text.parse().context("--gas-prices")?;
    let wei = token.price_in_wei(&price)?;
    wei.with_context(|| format!("--gas-prices {text} is out of range"))
}
