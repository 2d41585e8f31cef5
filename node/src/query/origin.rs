//! The public key that an account has shown. Nothing is stored for it: the history of the account is
//! searched for the block in which it first signed something, some twenty reads.

use super::QueryError;
use crate::{
    account::PublicKey,
    execution::Transaction,
    rpc::stored::{MinedTx, StoredBlock},
    view::View,
};
use alloy_primitives::{Address, B256, Signature};
use storage::{Account, StateRead};

/// The public key of an account that has signed something up to block `last`: a transaction, or an
/// authorization of EIP-7702. Cosmos transactions sign the chain id without saying it.
pub(super) fn public_key(
    view: &View,
    chain_id: u64,
    last: u64,
    address: Address,
) -> Result<Option<PublicKey>, QueryError> {
    let nonce = |account: &Option<Account>| account.as_ref().map_or(0, |account| account.nonce);
    let at_first = nonce(&view.state.reader_at(0)?.account(address)?);
    let signed = |account: &Option<Account>| nonce(account) > at_first;
    let Some(block) = view.state.first_block(last, address, signed)? else { return Ok(None) };
    let stored = StoredBlock::read(&view.blocks()?, block)?;
    for index in 0..stored.block.transactions.len() {
        let Some(mined) = stored.tx(index)? else { break };
        if let Some(key) = shown(&mined, chain_id, address) {
            return Ok(Some(key));
        }
    }
    // A contract: nonce 1 from its creation on.
    Ok(None)
}

/// The key of an address, if a transaction shows it.
fn shown(mined: &MinedTx<'_>, chain_id: u64, address: Address) -> Option<PublicKey> {
    if mined.sender == address {
        if let Some(cosmos) = &mined.cosmos {
            return PublicKey::from_bytes(&cosmos.signing_key(chain_id)?).ok();
        }
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
