//! Checks a decoded Cosmos transaction against the chain, like the ante handler of cosmos/evm.

use super::{
    CosmosTx, coin,
    error::{
        Refusal, gov_invalid_message, gov_unroutable, insufficient_funds, invalid_address,
        invalid_coins, out_of_gas, plain, timeout_height, wrong_sequence,
    },
    message::Message,
};
use crate::Update;
use alloy_primitives::U256;
use chain::{RulesVersion, Token};
use feemarket::LegacyDec;
use prost::Name;
use proto::evmd::distribution::v1::MsgUpdateParams;
use storage::Account;

/// The context of the checks, in addition to the account of the signer.
#[derive(Clone, Copy, Debug)]
pub struct ChainFacts<'a> {
    /// Bech32 prefix of addresses.
    pub prefix: &'a str,
    /// The chain's token, with its unit in the block that would contain the transaction.
    pub token: Token<'a>,
    /// The rules version of that block.
    pub rules: RulesVersion,
    /// Height of that block.
    pub height: u64,
    /// That block's base fee for Cosmos transactions, in wei.
    pub base_fee: LegacyDec,
    /// That block's gas limit.
    pub gas_limit: u64,
    /// The chain's minimum gas price, in wei.
    pub min_gas_price: LegacyDec,
    /// The minimum gas price of this node's mempool, in wei; zero outside the mempool.
    pub mempool_min_gas_price: LegacyDec,
}

/// The result of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Price that is paid per unit of gas, in wei, with its fraction.
    pub price: LegacyDec,
    /// Fee that is charged before the messages are executed, in wei.
    pub fee: U256,
}

/// Checks everything that depends on the chain, except the signature and the sequence. [`check_sequence`] is separate
/// because the pool can hold a transaction until those with the earlier sequences arrive.
///
/// # Errors
/// Returns the first reason for a rejection.
pub fn check(tx: &CosmosTx, chain: &ChainFacts<'_>, account: &Account) -> Result<Passed, Refusal> {
    let timeout = tx.body.timeout_height;
    if timeout != 0 && chain.height > timeout {
        return Err(timeout_height(format!(
            "block height: {}, timeout height: {timeout}",
            chain.height
        )));
    }
    tx.check_form(chain.rules)?;
    check_unit(tx, chain.token)?;
    check_names(tx, chain)?;
    tx.price.reaches_minimum(chain.min_gas_price, chain.token)?;
    tx.price.reaches_mempool_minimum(chain.mempool_min_gas_price, chain.token)?;
    let charge = tx.price.charge(chain.base_fee, chain.token)?;
    if account.balance < charge.fee {
        return Err(insufficient_funds(format!(
            "spendable balance {} is smaller than {}{}",
            chain.token.show_wei(account.balance),
            charge.amount,
            chain.token.denom
        )));
    }
    if tx.gas_limit() > chain.gas_limit {
        return Err(out_of_gas(format!(
            "tx gas ({}) exceeds block gas limit ({})",
            tx.gas_limit(),
            chain.gas_limit
        )));
    }
    Ok(Passed { price: charge.price, fee: charge.fee })
}

/// Checks that the amounts were interpreted in the unit of the block. The unit changes when the chain adopts rules
/// version 1.
///
/// # Errors
/// Returns an error if they were interpreted in another unit.
pub fn check_unit(tx: &CosmosTx, token: Token<'_>) -> Result<(), Refusal> {
    if tx.unit() == token.unit {
        return Ok(());
    }
    Err(plain(format!(
        "the base unit of {} had {} decimals when this transaction was submitted and has {} now; \
         submit it again if the amounts are still right",
        token.denom,
        tx.unit().decimals(),
        token.unit.decimals()
    )))
}

/// Checks that the sequence is the next one of the account, and not the maximum of `u64`.
///
/// # Errors
/// See [`sequence_mismatch`].
pub fn check_sequence(tx: &CosmosTx, account: &Account) -> Result<(), Refusal> {
    let (expected, got) = (account.nonce, tx.sequence());
    if got == expected && got != u64::MAX {
        return Ok(());
    }
    Err(sequence_mismatch(expected, got))
}

/// Returns the error of a wrong sequence. Clients parse its text to find the expected one.
pub fn sequence_mismatch(expected: u64, got: u64) -> Refusal {
    wrong_sequence(format!("account sequence mismatch, expected {expected}, got {got}"))
}

/// Checks that a change of parameters is possible on this chain, and under the rules of the block.
fn check_update(update: &Update, chain: &ChainFacts<'_>) -> Result<(), Refusal> {
    match update {
        Update::Evm(params) if params.evm_denom != chain.token.denom => Err(gov_invalid_message(
            format!("evm_denom cannot be changed: it is {}", chain.token.denom),
        )),
        Update::Distribution(_) if chain.rules < RulesVersion::V2 => {
            Err(gov_unroutable(MsgUpdateParams::type_url()))
        }
        Update::FeeMarket(_) | Update::Evm(_) | Update::Distribution(_) => Ok(()),
    }
}

/// Checks that addresses and tokens belong to this chain, and that it supports the proposed changes of parameters.
///
/// # Errors
/// Returns the first reason for a rejection.
pub fn check_names(tx: &CosmosTx, chain: &ChainFacts<'_>) -> Result<(), Refusal> {
    let accounts = tx.messages.iter().flat_map(Message::accounts);
    if let Some(account) = accounts.into_iter().find(|account| account.prefix != chain.prefix) {
        return Err(invalid_address(format!(
            "invalid Bech32 prefix; expected {}, got {}",
            chain.prefix, account.prefix
        )));
    }
    let fee = tx.auth_info.fee.as_ref().map_or(&[][..], |fee| &fee.amount);
    if let Some(coin) = coin::foreign(fee, chain.token.denom) {
        return Err(plain(format!(
            "expected only native token {} for fee, but got {}",
            chain.token.denom, coin.denom
        )));
    }
    for message in &tx.messages {
        if let Some(coin) = coin::foreign(message.coins(), chain.token.denom) {
            let text =
                format!("{}{}: this chain has only {}", coin.amount, coin.denom, chain.token.denom);
            return Err(match message {
                Message::Send(_) => invalid_coins(text),
                _ => super::error::gov_invalid_deposit_denom(text),
            });
        }
        if let Message::Submit(submission) = message {
            for update in &submission.updates {
                check_update(update, chain)?;
            }
        }
    }
    Ok(())
}
