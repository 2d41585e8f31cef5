//! `evmd tx evm`: Ethereum transactions over the same interface.

use super::flags::{BroadcastFlags, KeyFlags, NodeFlags};
use crate::{account::parse_address, cosmos::coin_text};
use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Signature, TxKind, U256, hex};
use anyhow::{Context, ensure};

/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Send a signed Ethereum transaction
    Raw {
        /// Its EIP-2718 bytes in hex
        tx: String,
        #[command(flatten)]
        node: NodeFlags,
        #[command(flatten)]
        broadcast: BroadcastFlags,
    },
    /// Send tokens in an Ethereum transaction
    Send {
        /// Name or address of the sender's key
        from: String,
        /// Address in any form
        to: String,
        /// How much, such as 10atest
        amount: String,
        /// Gas limit
        #[arg(long, value_name = "GAS", default_value_t = TRANSFER_GAS)]
        gas: u64,
        #[command(flatten)]
        keys: KeyFlags,
        #[command(flatten)]
        node: NodeFlags,
        #[command(flatten)]
        broadcast: BroadcastFlags,
    },
}

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Raw { tx, node, broadcast } => {
            let bytes = hex::decode(tx.trim()).context("the transaction is not hex")?;
            node.open()?.broadcast(&bytes, broadcast.mode, node.output)
        }
        Command::Send { from, to, amount, gas, keys, node: flags, broadcast } => {
            let node = flags.open()?;
            let key = keys.key(&from)?;
            let to = parse_address(&to, &node.prefix()?).with_context(|| to.clone())?;
            let (coin, denom) = (coin_text(&amount)?, node.denom()?);
            ensure!(coin.denom == denom, "there is only {denom}, not {}", coin.denom);
            let (base_fee, least) = (node.base_fee()?, node.least_price()?);
            let tx = TxEip1559 {
                chain_id: node.chain_id()?,
                nonce: node.sequence(key.address())?,
                gas_limit: gas,
                max_fee_per_gas: base_fee.saturating_mul(2).max(least),
                // What the base fee leaves to pay, on a chain that has none.
                max_priority_fee_per_gas: least.saturating_sub(base_fee),
                to: TxKind::Call(to),
                value: coin.amount.parse::<U256>().context("the amount")?,
                ..TxEip1559::default()
            };
            let signature = Signature::from_raw_array(&key.sign(&tx.signature_hash()))?;
            let tx = tx.into_signed(signature);
            node.broadcast(&tx.encoded_2718(), broadcast.mode, flags.output)
        }
    }
}
