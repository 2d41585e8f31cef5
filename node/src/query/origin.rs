//! Where an account comes from: its number, and the public key it has shown. Nothing is stored for
//! either: both follow from the chain, by searching the history of the account for the block in which
//! it came to be, or first signed.
//!
//! Numbers are unique and never change. The chain's own accounts come first, then those of genesis by
//! address. A later account has the number of its block, 20 bits up, and its place among the accounts
//! that the block changed, by address; so numbers grow with the chain and have gaps, where the SDK's
//! have none.

use super::QueryError;
use crate::{
    account::PublicKey,
    execution::Transaction,
    rpc::stored::{MinedTx, StoredBlock},
    view::View,
};
use alloy_primitives::{Address, B256, Signature};
use std::sync::{Arc, OnceLock};
use storage::{Account, ReadError, StateRead};

/// Bits of a number below those of its block. More accounts than this holds would need a block of
/// 2^20 times the 9,000 gas that a call with value costs.
const PLACE_BITS: u32 = 20;

/// The accounts that were there from the start, read once.
#[derive(Clone, Debug, Default)]
pub struct Founders(Arc<OnceLock<Box<[Address]>>>);

impl Founders {
    fn of(&self, view: &View) -> Result<&[Address], QueryError> {
        if let Some(known) = self.0.get() {
            return Ok(known);
        }
        let founders = changed(view, 0)?.into_boxed_slice();
        Ok(self.0.get_or_init(|| founders))
    }
}

/// Addresses of the accounts that a block changed, ascending.
fn changed(view: &View, number: u64) -> Result<Vec<Address>, QueryError> {
    let changes = view.blocks()?.changes(number)?;
    let changes = changes
        .ok_or_else(|| QueryError::internal(format_args!("block {number} has no changes")))?;
    let mut addresses: Vec<_> = changes.accounts.iter().map(|change| change.address).collect();
    addresses.sort_unstable();
    Ok(addresses)
}

/// The first block up to `last` after which an account is as `wanted`, which it then stays.
fn first_block(
    view: &View,
    last: u64,
    address: Address,
    wanted: impl Fn(&Option<Account>) -> bool,
) -> Result<Option<u64>, ReadError> {
    let is = |number| Ok(wanted(&view.state.reader_at(number)?.account(address)?));
    if !is(last)? {
        return Ok(None);
    }
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        if is(middle)? { high = middle } else { low = middle + 1 }
    }
    Ok(Some(low))
}

/// The number of an account as of block `last`; `None` where there is no such account. `modules` are
/// the chain's own.
pub(super) fn number(
    view: &View,
    last: u64,
    founders: &Founders,
    modules: &[Address],
    address: Address,
) -> Result<Option<u64>, QueryError> {
    if let Some(place) = modules.iter().position(|module| *module == address) {
        return Ok(Some(place as u64));
    }
    let Some(block) = first_block(view, last, address, Option::is_some)? else { return Ok(None) };
    let place = |among: &[Address]| {
        among.binary_search(&address).map(|place| place as u64).map_err(QueryError::internal)
    };
    Ok(Some(match block {
        0 => modules.len() as u64 + place(founders.of(view)?)?,
        _ => block << PLACE_BITS | place(&changed(view, block)?)?,
    }))
}

/// The account of a number as of block `last`.
pub(super) fn numbered(
    view: &View,
    last: u64,
    founders: &Founders,
    modules: &[Address],
    wanted: u64,
) -> Result<Option<Address>, QueryError> {
    let block = wanted >> PLACE_BITS;
    let place = (wanted & ((1 << PLACE_BITS) - 1)) as usize;
    if block > last {
        return Ok(None);
    }
    let candidate = match block {
        0 if place < modules.len() => return Ok(Some(modules[place])),
        0 => founders.of(view)?.get(place - modules.len()).copied(),
        _ => changed(view, block)?.get(place).copied(),
    };
    let Some(candidate) = candidate else { return Ok(None) };
    // It may have been there before.
    let found = number(view, last, founders, modules, candidate)?;
    Ok((found == Some(wanted)).then_some(candidate))
}

/// The public key of an account that has signed something up to block `last`: a transaction, or an
/// authorization of EIP-7702.
pub(super) fn public_key(
    view: &View,
    last: u64,
    address: Address,
) -> Result<Option<PublicKey>, QueryError> {
    let nonce = |account: &Option<Account>| account.as_ref().map_or(0, |account| account.nonce);
    let at_first = nonce(&view.state.reader_at(0)?.account(address)?);
    let signed = |account: &Option<Account>| nonce(account) > at_first;
    let Some(block) = first_block(view, last, address, signed)? else { return Ok(None) };
    let stored = StoredBlock::read(&view.blocks()?, block)?;
    for index in 0..stored.block.transactions.len() {
        let Some(mined) = stored.tx(index)? else { break };
        if let Some(key) = shown(&mined, address) {
            return Ok(Some(key));
        }
    }
    // A contract: nonce 1 from its creation on.
    Ok(None)
}

/// The key of an address, if a transaction shows it.
fn shown(mined: &MinedTx<'_>, address: Address) -> Option<PublicKey> {
    if mined.sender == address {
        let (signature, hash) = (mined.tx.signature(), mined.tx.signature_hash());
        return recovered(signature, hash);
    }
    let Transaction::Eip7702(tx) = &mined.tx else { return None };
    let mut authorizations = tx.tx().authorization_list.iter();
    let by_it =
        authorizations.find(|signed| signed.recover_authority().is_ok_and(|by| by == address))?;
    recovered(&by_it.signature().ok()?, by_it.signature_hash())
}

fn recovered(signature: &Signature, hash: B256) -> Option<PublicKey> {
    let key = signature.recover_from_prehash(&hash).ok()?;
    PublicKey::from_bytes(&key.to_sec1_bytes()).ok()
}
