//! Recovers the public keys of accounts from their signatures.
//!
//! Blocks contain signatures, not keys. The key of an address never changes, so it is recovered once and then
//! served from a cache of bounded size. A search that misses the cache decodes little, whatever the block size:
//! it reads the sender lists and the bodies of at most two blocks, decodes one transaction that the account
//! sent in each, and recovers its signature. Accounts that only signed authorizations (EIP-7702) are in no sender
//! list. For them, a fixed number of authorizations is tried.

use super::QueryError;
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{Address, B256, Bytes, Signature, map::HashMap};
use chain::block::Block;
use keys::{PUBLIC_KEY_BYTES, PublicKey};
use modules::decorator::{has_code, is_delegation};
use state::View;
use std::sync::{Mutex, MutexGuard, PoisonError};
use storage::{Account, ChainReader, StateRead};
use transactions::{DecodedTx, Transaction};

/// Maximum number of cached accounts, each with its key or the fact that none was found: about 3 MB.
const MAX_CACHED_ACCOUNTS: usize = 32_768;
/// Maximum number of authorizations whose signer is recovered in a search: 8 take about 0.3 ms.
const MAX_AUTHORIZATIONS_TRIED: usize = 8;
/// Maximum bytes of transactions with authorizations that a search decodes. An authorization has about 100 bytes.
const MAX_AUTHORIZATION_TX_BYTES: usize = 16 * 1024;
/// EIP-2718 type of transactions with authorizations.
const SET_CODE_TX: u8 = 0x04;

/// The result of a search for the key of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Key([u8; PUBLIC_KEY_BYTES]),
    /// No key was found while the account had this nonce. The search is repeated when the nonce has increased.
    NoneUpTo {
        nonce: u64,
    },
}

/// A cached account.
#[derive(Clone, Copy, Debug)]
struct Cached {
    /// The nonce in genesis. The account can only have signed something if its nonce is higher.
    genesis_nonce: u64,
    outcome: Outcome,
}

/// A cache of search results. When it is full, the half that was used least recently is dropped.
#[derive(Debug, Default)]
pub(super) struct PublicKeys(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    /// [`View::undone`] of the views in which the searches ran.
    branch: u64,
    recent: HashMap<Address, Cached>,
    older: HashMap<Address, Cached>,
}

impl Generations {
    fn get(&mut self, address: Address) -> Option<Cached> {
        if let Some(cached) = self.recent.get(&address) {
            return Some(*cached);
        }
        let cached = self.older.remove(&address)?;
        self.put(address, cached);
        Some(cached)
    }

    fn put(&mut self, address: Address, cached: Cached) {
        if self.recent.len() >= MAX_CACHED_ACCOUNTS / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(address, cached);
    }
}

/// The work of a search. Tests compare it with the limits above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SearchWork {
    /// Blocks whose sender list was read.
    pub(super) sender_lists: usize,
    /// Blocks whose body was read.
    pub(super) bodies: usize,
    /// Transactions decoded.
    pub(super) decoded: usize,
    /// Signatures from which a key was recovered.
    pub(super) recovered: usize,
}

impl PublicKeys {
    /// Returns the entries of a branch. Drops those of another: undone blocks may have contained their signatures.
    fn entries(&self, branch: u64) -> MutexGuard<'_, Generations> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.branch != branch {
            *entries = Generations { branch, ..Generations::default() };
        }
        entries
    }

    /// Returns the public key of `address` if `account`, which is its account at the queried height, has a nonce that
    /// shows that it has signed something. The key may come from a later block of the view.
    ///
    /// # Errors
    /// If the chain or the state cannot be read.
    pub(super) fn of(
        &self,
        view: &View,
        chain_id: u64,
        address: Address,
        account: &Account,
    ) -> Result<Option<PublicKey>, QueryError> {
        self.of_counted(view, chain_id, address, account, &mut SearchWork::default())
    }

    fn of_counted(
        &self,
        view: &View,
        chain_id: u64,
        address: Address,
        account: &Account,
        work: &mut SearchWork,
    ) -> Result<Option<PublicKey>, QueryError> {
        if account.nonce == 0 {
            return Ok(None);
        }
        let cached = self.entries(view.undone).get(address);
        if let Some(Cached { genesis_nonce, outcome }) = cached {
            match outcome {
                _ if account.nonce <= genesis_nonce => return Ok(None),
                Outcome::Key(bytes) => return Ok(PublicKey::from_bytes(&bytes).ok()),
                Outcome::NoneUpTo { nonce } if account.nonce <= nonce => return Ok(None),
                Outcome::NoneUpTo { .. } => {}
            }
        }
        let nonce = |account: Option<Account>| account.map_or(0, |account| account.nonce);
        let genesis_nonce = nonce(view.state.reader_at(0)?.account(address)?);
        if account.nonce <= genesis_nonce {
            return Ok(None);
        }
        let head = view.state.reader()?;
        let newest = head.account(address)?.unwrap_or_default();
        // A contract has a nonce but cannot sign.
        let may_sign = !has_code(&newest) || is_delegation(&head.code(newest.code_hash)?);
        drop(head);
        let found = if may_sign {
            let mut search = Search { view, blocks: view.blocks()?, chain_id, address, work };
            search.run(genesis_nonce, newest.nonce)?
        } else {
            None
        };
        let outcome = match &found {
            Some(key) => Outcome::Key(*key.as_bytes()),
            None => Outcome::NoneUpTo { nonce: newest.nonce.max(account.nonce) },
        };
        self.entries(view.undone).put(address, Cached { genesis_nonce, outcome });
        Ok(found)
    }
}

/// The search for the key of one account.
struct Search<'a> {
    view: &'a View,
    blocks: ChainReader,
    chain_id: u64,
    address: Address,
    work: &'a mut SearchWork,
}

impl Search<'_> {
    /// Searches the blocks in which the nonce increased for the first and for the last time. If the account
    /// sent no transaction in either, authorizations of the first block are tried.
    fn run(
        &mut self,
        genesis_nonce: u64,
        newest_nonce: u64,
    ) -> Result<Option<PublicKey>, QueryError> {
        let Some(first) = self.block_reaching(genesis_nonce.saturating_add(1))? else {
            return Ok(None);
        };
        if let Some(key) = self.of_sent(first)? {
            return Ok(Some(key));
        }
        let last = self.block_reaching(newest_nonce)?.filter(|last| *last != first);
        if let Some(last) = last
            && let Some(key) = self.of_sent(last)?
        {
            return Ok(Some(key));
        }
        self.of_authorization(first, genesis_nonce)
    }

    /// Returns the first block after which the account has at least this nonce, by binary search: the state is read
    /// once for each bit of the head's number.
    fn block_reaching(&self, nonce: u64) -> Result<Option<u64>, QueryError> {
        let reached = |account: &Option<Account>| account.is_some_and(|a| a.nonce >= nonce);
        Ok(self.view.state.first_block(self.view.number(), self.address, reached)?)
    }

    /// Returns the key of the first transaction that the account sent in a block.
    fn of_sent(&mut self, number: u64) -> Result<Option<PublicKey>, QueryError> {
        self.work.sender_lists += 1;
        let senders = self.blocks.senders(number)?.ok_or_else(|| missing("senders", number))?;
        let Some(index) = senders.iter().position(|sender| *sender == self.address) else {
            return Ok(None);
        };
        let body = self.body(number)?;
        let raw = Block::transaction_at(&body, index).map_err(QueryError::internal)?;
        let tx = self.decode(raw.ok_or_else(|| missing("transaction of a sender", number))?)?;
        self.work.recovered += 1;
        if let Some(cosmos) = &tx.cosmos {
            let key = cosmos.signing_key(self.chain_id);
            return Ok(key.and_then(|key| PublicKey::from_bytes(&key).ok()));
        }
        Ok(recovered(tx.tx.signature(), tx.tx.signature_hash()))
    }

    /// Returns the key of an authorization with this nonce, which is the first one that the account can have signed.
    fn of_authorization(
        &mut self,
        number: u64,
        nonce: u64,
    ) -> Result<Option<PublicKey>, QueryError> {
        let body = self.body(number)?;
        let (mut bytes_left, mut tries_left) =
            (MAX_AUTHORIZATION_TX_BYTES, MAX_AUTHORIZATIONS_TRIED);
        for raw in Block::raw_transactions(&body).map_err(QueryError::internal)? {
            let raw = raw.map_err(QueryError::internal)?;
            if raw.first() != Some(&SET_CODE_TX) {
                continue;
            }
            let Some(left) = bytes_left.checked_sub(raw.len()) else { break };
            bytes_left = left;
            let tx = self.decode(body.slice_ref(raw))?;
            let Transaction::Eip7702(tx) = &tx.tx else { continue };
            for signed in &tx.tx().authorization_list {
                let ours = signed.chain_id.is_zero() || signed.chain_id == self.chain_id;
                if !ours || signed.nonce != nonce {
                    continue;
                }
                let Some(left) = tries_left.checked_sub(1) else { return Ok(None) };
                tries_left = left;
                self.work.recovered += 1;
                if let Some(key) = authority_key(signed).filter(|key| key.address() == self.address)
                {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }

    fn body(&mut self, number: u64) -> Result<Bytes, QueryError> {
        self.work.bodies += 1;
        self.blocks.body(number)?.ok_or_else(|| missing("body", number))
    }

    fn decode(&mut self, raw: Bytes) -> Result<DecodedTx, QueryError> {
        self.work.decoded += 1;
        DecodedTx::decode(raw).map_err(QueryError::internal)
    }
}

fn missing(what: &str, number: u64) -> QueryError {
    QueryError::internal(format_args!("block {number} has no {what}"))
}

/// Returns the key that signed an authorization.
fn authority_key(signed: &SignedAuthorization) -> Option<PublicKey> {
    recovered(&signed.signature().ok()?, signed.signature_hash())
}

fn recovered(signature: &Signature, hash: B256) -> Option<PublicKey> {
    let key = signature.recover_from_prehash(&hash).ok()?;
    PublicKey::from_bytes(&key.to_sec1_bytes()).ok()
}

#[cfg(test)]
mod tests;
