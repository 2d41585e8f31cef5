//! `debug_executionWitness`: the data that a client needs to execute a block without the state, in reth's format.

use super::{
    block_number,
    rerun::{Rerun, no_root},
};
use crate::replay::{Replay, trace_json};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use evm::{ExecutionCaches, ExecutionHost, StateError};
use rpc_eth::{
    eth::CallHost,
    method::{Answer, Call},
};
use rpc_types::{block_id::BlockId, error::Error};
use serde::Serialize;
use state::StateReader;
use state::stored::MinedTx;
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
};
use storage::{Account, ReadError, StateChanges, StateRead, trie::Witness};

/// The result.
#[derive(Serialize)]
struct ExecutionWitness {
    /// RLP of the trie nodes of the state before the block.
    state: Vec<Bytes>,
    /// Code that the block loads from accounts that existed before it.
    codes: Vec<Bytes>,
    /// The addresses and slots whose hashes are keys of the nodes. The slots of an address follow it.
    keys: Vec<Bytes>,
    /// RLP of the headers from the oldest one whose hash the block reads to the parent of the block.
    headers: Vec<Bytes>,
}

pub(super) fn execution_witness(call: &Call) -> Answer {
    let id: BlockId = call.arguments()?.required()?;
    let number = block_number(call, id)?;
    if number == 0 {
        return Err(Error::server("block number 0 found, but parent missing"));
    }
    let (replay, rerun) = (Replay::new(call), Rerun::new(call, number)?);
    let run = run(call, &replay, &rerun)?;
    let codes = codes(&run.state, &run.code_hashes)?;
    let witness = ExecutionWitness {
        headers: headers(call, number, run.oldest)?,
        keys: run.state.keys(),
        state: nodes(call, &replay, &rerun, &run)?,
        codes,
    };
    trace_json(call, &witness)
}

/// The result of executing the block.
struct Run {
    state: Recorder,
    changes: StateChanges,
    code_hashes: Vec<B256>,
    /// The oldest block whose hash was read.
    oldest: Option<u64>,
}

fn run(call: &Call, replay: &Replay<'_>, rerun: &Rerun<'_>) -> Result<Run, Error> {
    let deadline = call.interrupt.within(call.services.limits.trace_timeout);
    let host = RecordedHashes { inner: CallHost::new(call, &deadline), oldest: Cell::new(None) };
    let state = Recorder { inner: rerun.state()?, read: RefCell::default() };
    let mut block = rerun.begin(&state, &host).map_err(Error::internal)?;
    for tx in rerun.stored.txs().map(|tx| tx.map(MinedTx::recovered)) {
        replay.in_time()?;
        let pushed = block.push(&tx?, &no_root);
        replay.in_time()?;
        pushed.map_err(Error::internal)?.map_err(Error::internal)?;
    }
    let body = &rerun.stored.block;
    let withdrawals = body.withdrawals.as_ref().map(|list| list.as_slice());
    let finished = block.finish_with_codes(&body.ommers, withdrawals);
    replay.in_time()?;
    let (executed, code_hashes) = finished.map_err(Error::internal)?;
    let oldest = host.oldest.get();
    Ok(Run { state, changes: executed.changes, code_hashes, oldest })
}

/// Returns the trie nodes, or an error if they exceed the maximum length of a response.
fn nodes(
    call: &Call,
    replay: &Replay<'_>,
    rerun: &Rerun<'_>,
    run: &Run,
) -> Result<Vec<Bytes>, Error> {
    let trie = rerun.trie()?;
    let mut witness = Witness::new(&trie, trie.root);
    let max_bytes = call.services.limits.max_response_bytes;
    for (address, read) in &*run.state.read.borrow() {
        replay.in_time()?;
        let slots: Vec<U256> = read.slots.iter().copied().collect();
        witness.prove(*address, &slots).map_err(Error::internal)?;
        if witness.bytes() > max_bytes {
            return Err(Error::too_large("response", max_bytes));
        }
    }
    let root = witness.update(&run.changes).map_err(Error::internal)?;
    let expected = rerun.stored.block.header.state_root;
    if root != expected {
        let number = rerun.stored.block.header.number;
        let reason =
            format!("block {number} has state root {root} when it is run again, not {expected}");
        return Err(Error::internal(reason));
    }
    Ok(witness.into_nodes())
}

/// Returns the loaded code of accounts that existed before the block.
fn codes(state: &Recorder, loaded: &[B256]) -> Result<Vec<Bytes>, Error> {
    let loaded: BTreeSet<B256> = loaded.iter().copied().collect();
    let read = state.read.borrow();
    let had = read.values().filter_map(|read| read.account).map(|account| account.code_hash);
    let had: BTreeSet<B256> = had.filter(|hash| *hash != KECCAK256_EMPTY).collect();
    let codes = had.intersection(&loaded).map(|hash| state.inner.code(*hash));
    Ok(codes.collect::<Result<_, ReadError>>()?)
}

fn headers(call: &Call, number: u64, oldest: Option<u64>) -> Result<Vec<Bytes>, Error> {
    let blocks = call.view.blocks()?;
    let parent = number.saturating_sub(1);
    let first = oldest.unwrap_or(parent).min(parent);
    let header = |number| {
        let header = blocks.header(number)?;
        let header = header.ok_or_else(|| Error::internal(format_args!("no header {number}")))?;
        Ok::<_, Error>(header.1)
    };
    (first..=parent).map(header).collect()
}

/// The reads of one account.
#[derive(Default)]
struct ReadOfAccount {
    account: Option<Account>,
    slots: BTreeSet<U256>,
}

/// A state that records what is read.
struct Recorder {
    inner: StateReader,
    read: RefCell<BTreeMap<Address, ReadOfAccount>>,
}

impl Recorder {
    fn keys(&self) -> Vec<Bytes> {
        let mut keys = Vec::new();
        for (address, read) in &*self.read.borrow() {
            keys.push(Bytes::copy_from_slice(address.as_slice()));
            keys.extend(read.slots.iter().map(|slot| slot.to_be_bytes::<32>().into()));
        }
        keys
    }
}

impl StateRead for Recorder {
    type Error = ReadError;

    fn account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        let account = self.inner.account(address)?;
        self.read.borrow_mut().entry(address).or_default().account = account;
        Ok(account)
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        let mut read = self.read.borrow_mut();
        read.entry(address).or_default().slots.insert(slot);
        self.inner.storage(address, slot)
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, ReadError> {
        self.inner.code(code_hash)
    }

    fn has_storage(&self, address: Address) -> Result<bool, ReadError> {
        // A check for storage reads the storage root, which is part of the account.
        self.read.borrow_mut().entry(address).or_default();
        self.inner.has_storage(address)
    }
}

/// A source of block hashes that records the oldest block that is read.
struct RecordedHashes<'a> {
    inner: CallHost<'a>,
    oldest: Cell<Option<u64>>,
}

impl ExecutionHost for RecordedHashes<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        let oldest = self.oldest.get().map_or(number, |oldest| oldest.min(number));
        self.oldest.set(Some(oldest));
        self.inner.block_hash(number)
    }

    fn is_cancellable(&self) -> bool {
        self.inner.is_cancellable()
    }

    fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        self.inner.caches()
    }
}
