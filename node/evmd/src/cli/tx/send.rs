//! Sets the fee of a transaction, signs it and sends it.

use super::{
    flags::TxFlags,
    json,
    node::{Node, print},
};
use crate::cli::{Output, keys::prompt::is_yes, prefix};
use alloy_primitives::U256;
use anyhow::{Context, bail, ensure};
use chain::Token;
use feemarket::LegacyDec;
use keys::{PrivateKey, bech32, parse_address};
use prost::{Message, Name};
use prost_types::Any;
use proto::cosmos::{
    base::v1beta1::Coin,
    evm::crypto::v1::ethsecp256k1::PubKey,
    tx::{
        signing::v1beta1::SignMode,
        v1beta1::{AuthInfo, Fee, ModeInfo, SignerInfo, Tx, TxBody, mode_info},
    },
};
use std::io::{BufRead, Write};
use transactions::cosmos::{CosmosTx, GasPrice, Signatures, parse_coin};

/// The default gas price, in tenths of the base fee. It covers the increase by two full blocks (1.125 * 1.125 = 1.27).
const DEFAULT_PRICE_TENTHS: u128 = 13;

/// Builds, signs and sends a transaction. `messages` returns its messages, given the address of the sender.
pub(super) fn send(
    flags: &TxFlags,
    from: &str,
    messages: impl FnOnce(&str) -> anyhow::Result<Vec<Any>>,
) -> anyhow::Result<()> {
    let node = if flags.offline { None } else { Some(flags.node.open()?) };
    let home = flags.node.home();
    let prefix = node.as_ref().map_or_else(|| prefix::of_home(home), Node::prefix)?;
    let unsigned = flags.generate_only || flags.dry_run;
    let (key, address) = match parse_address(from, &prefix) {
        Ok(address) if unsigned => (None, address),
        _ => flags.keys.key(home, from).map(|key| (Some(key.clone()), key.address()))?,
    };
    let sender = bech32(&prefix, address);
    let sequence = match flags.sequence {
        Some(sequence) => sequence,
        None => required_node(node.as_ref(), "--sequence")?.sequence(address)?,
    };
    let mut tx = Tx {
        body: Some(TxBody {
            messages: messages(&sender)?,
            memo: flags.note.clone(),
            timeout_height: flags.timeout_height,
            ..TxBody::default()
        }),
        auth_info: Some(AuthInfo {
            signer_infos: vec![signer(key.as_ref(), sequence, mode(&flags.sign_mode))],
            fee: Some(Fee::default()),
        }),
        signatures: vec![Vec::new()],
    };
    let gas = match flags.gas.as_str() {
        "auto" => {
            let used =
                required_node(node.as_ref(), "--gas, a number")?.simulate(&json::raw(&tx))?;
            adjusted(used, &flags.gas_adjustment)?
        }
        digits => digits.parse().context("--gas must be a number or `auto`")?,
    };
    if flags.dry_run {
        writeln!(std::io::stderr(), "gas estimate: {gas}")?;
        return Ok(());
    }
    let amount = match (&flags.fees, &flags.gas_prices) {
        (Some(fees), _) => parse_coin(fees)?,
        (None, Some(price)) => priced(price, gas)?,
        (None, None) => {
            let node = required_node(node.as_ref(), "--fees or --gas-prices")?;
            let price = U256::from(node.base_fee()?) * U256::from(DEFAULT_PRICE_TENTHS);
            let token = node.token()?;
            let min_price = node.min_price()?.max(node.mempool_price(&token)?);
            let price = (price / U256::from(10)).max(U256::from(min_price));
            let Token { denom, unit } = token.token();
            let amount = unit.from_wei_up(price * U256::from(gas));
            Coin { denom: denom.to_owned(), amount: amount.to_string() }
        }
    };
    if let Some(auth) = &mut tx.auth_info {
        let amount = if amount.amount == "0" { Vec::new() } else { vec![amount] };
        auth.fee = Some(Fee { amount, gas_limit: gas, ..Fee::default() });
    }
    if flags.generate_only {
        tx.signatures.clear();
        return print(&json::tx_json(&tx)?, Output::Json);
    }
    let key = key.expect("every signed transaction has a key");
    let Some(node) = node else {
        sign(&mut tx, &key, flags.chain_id.context("--offline needs --chain-id")?)?;
        return print(&json::tx_json(&tx)?, Output::Json);
    };
    if !flags.yes && !confirmed(&tx)? {
        bail!("cancelled transaction");
    }
    let chain_id = chain_id(flags.chain_id, node.chain_id()?)?;
    sign(&mut tx, &key, chain_id)?;
    node.broadcast(&json::raw(&tx), flags.broadcast.mode, flags.node.output)
}

/// Returns the node, which must be queried because `flag` is not set, or an error with `--offline`.
fn required_node<'a>(node: Option<&'a Node>, flag: &str) -> anyhow::Result<&'a Node> {
    node.with_context(|| format!("--offline does not query a node: set {flag}"))
}

/// Returns `found`, the node's chain id. A chain id from the command line must equal it.
pub(super) fn chain_id(named: Option<u64>, found: u64) -> anyhow::Result<u64> {
    ensure!(
        named.is_none_or(|named| named == found),
        "--chain-id {}: the node's chain is {found}",
        named.unwrap_or_default()
    );
    Ok(found)
}

pub(super) fn mode(name: &str) -> SignMode {
    if name == "amino-json" { SignMode::LegacyAminoJson } else { SignMode::Direct }
}

/// Returns the signer information of a transaction, without a public key if the key is not known.
pub(super) fn signer(key: Option<&PrivateKey>, sequence: u64, mode: SignMode) -> SignerInfo {
    let public_key = key.map(|key| PubKey { key: key.public_key().as_bytes().to_vec() });
    let single = mode_info::Single { mode: mode.into() };
    SignerInfo {
        public_key: public_key
            .map(|key| Any { type_url: PubKey::type_url(), value: key.encode_to_vec() }),
        mode_info: Some(ModeInfo { sum: Some(mode_info::Sum::Single(single)) }),
        sequence,
    }
}

/// Signs a transaction, whose only signer must be the owner of the key.
pub(super) fn sign(tx: &mut Tx, key: &PrivateKey, chain_id: u64) -> anyhow::Result<()> {
    let read = CosmosTx::decode(&json::raw(tx), Signatures::Optional)?;
    ensure!(
        read.signer.address == key.address(),
        "the key belongs to {}, but the messages to {}",
        key.address(),
        read.signer.address
    );
    tx.signatures = vec![key.sign(&read.digest(chain_id))[..64].to_vec()];
    Ok(())
}

/// Computes the fee: the gas price times the gas, rounded up.
fn priced(price: &str, gas: u64) -> anyhow::Result<Coin> {
    let GasPrice { amount, denom } = price.parse().context("--gas-prices")?;
    let fee = amount.checked_mul_int(U256::from(gas))?.ceil();
    Ok(parse_coin(&format!("{fee}{denom}"))?)
}

/// Returns the gas times a decimal factor, rounded down.
fn adjusted(gas: u64, factor: &str) -> anyhow::Result<u64> {
    let factor: LegacyDec = factor.parse().context("--gas-adjustment")?;
    let gas = factor.checked_mul_int(U256::from(gas))?.truncate_u64();
    gas.context("--gas-adjustment is out of range")
}

fn confirmed(tx: &Tx) -> anyhow::Result<bool> {
    let mut err = std::io::stderr();
    writeln!(err, "{}", json::tx_json(tx)?)?;
    write!(err, "confirm transaction before signing and broadcasting [y/N]: ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(is_yes(&answer))
}
