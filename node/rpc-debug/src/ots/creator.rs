//! Finds the creator of the contract that exists at an address.
//!
//! Before Cancun a contract can destroy itself and be created again at the same address. Its code can therefore appear
//! and disappear any number of times, and the blocks that changed the account are searched one by one, newest first.
//! Since Cancun (EIP-6780) only the transaction that creates a contract can destroy it, and a binary search suffices.

use super::trace::Frames;
use crate::replay::Replay;
use alloy_primitives::{Address, B256};
use chain::Fork;
use modules::decorator::{has_code, is_delegation};
use rpc_eth::method::{Answer, Call, json};
use rpc_types::error::Error;
use serde::Serialize;
use state::Appearances;
use state::stored::{StoredBlock, header};
use std::ops::ControlFlow;
use storage::{Account, ChainReader, StateRead};

// A contract needs one of these instructions to destroy itself.
const CALLCODE: u8 = 0xf2;
const DELEGATECALL: u8 = 0xf4;
const SELFDESTRUCT: u8 = 0xff;

/// The creator of a contract, and the transaction that created it.
#[derive(Serialize)]
struct Creation {
    hash: B256,
    creator: Address,
}

pub(super) fn contract_creator(call: &Call) -> Answer {
    let address: Address = call.arguments()?.required()?;
    let state = call.view.state.reader()?;
    let account = state.account(address)?.filter(has_code);
    let Some(account) = account else { return json(&()) };
    let code = state.code(account.code_hash)?;
    if is_delegation(&code) {
        return json(&());
    }
    let search = Search {
        call,
        blocks: call.view.blocks()?,
        address,
        code_hash: account.code_hash,
        may_be_destroyed: may_be_destroyed(&code),
        replay: Replay::new(call),
    };
    json(&search.run()?)
}

/// Returns whether the code may destroy its contract. Data in the code counts as instructions.
fn may_be_destroyed(code: &[u8]) -> bool {
    code.iter().any(|byte| matches!(*byte, CALLCODE | DELEGATECALL | SELFDESTRUCT))
}

fn code_hash_of(account: &Option<Account>) -> Option<B256> {
    account.as_ref().filter(|account| has_code(account)).map(|account| account.code_hash)
}

/// A search for the creation of a contract that exists at the head.
struct Search<'a> {
    call: &'a Call,
    blocks: ChainReader,
    address: Address,
    /// The code hash of the contract at the head.
    code_hash: B256,
    may_be_destroyed: bool,
    replay: Replay<'a>,
}

impl Search<'_> {
    fn run(&self) -> Result<Option<Creation>, Error> {
        if self.may_be_destroyed
            && let Some(last) = self.first_of_cancun()?.checked_sub(1)
            && self.code_hash_at(last)?.is_some()
        {
            return self.before_cancun(last);
        }
        // Since Cancun the contract cannot have been destroyed, so the account had no such code before its creation.
        let (state, head) = (&self.call.view.state, self.call.view.number());
        let has_hash = |account: &Option<Account>| code_hash_of(account) == Some(self.code_hash);
        let first = state.first_block(head, self.address, has_hash)?;
        first.map_or(Ok(None), |number| self.last_creation(number))
    }

    /// Returns the first block of Cancun, or the number after the head. Reads about 20 headers for a million blocks.
    fn first_of_cancun(&self) -> Result<u64, Error> {
        let (mut low, mut high) = (0, self.call.view.number() + 1);
        while low < high {
            let middle = low.midpoint(high);
            let (_, header) = header(&self.blocks, middle)?;
            if self.call.context.spec.fork_of(&header) >= Fork::Cancun {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// Returns the code hash of the account after a block; `None` if it has no code.
    fn code_hash_at(&self, number: u64) -> Result<Option<B256>, Error> {
        let account = self.call.view.state.reader_at(number)?.account(self.address)?;
        Ok(code_hash_of(&account))
    }

    /// Returns the newest creation up to block `last`, after which the contract exists.
    fn before_cancun(&self, last: u64) -> Result<Option<Creation>, Error> {
        let appearances = Appearances::of(&self.call.view, self.address)?;
        let mut next = Some(last);
        while let Some(from) = next
            && let Some(number) = appearances.up_to(from)?
        {
            self.replay.in_time()?;
            next = number.checked_sub(1);
            let before = next.map_or(Ok(None), |parent| self.code_hash_at(parent))?;
            if before != Some(self.code_hash) {
                return self.last_creation(number);
            }
            // One block may destroy the contract and create it again. The code hashes before and after it are then
            // equal.
            if self.has_two_transactions(number)?
                && let Some(found) = self.last_creation(number)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns whether a block may have destroyed the contract and created it again, which takes two transactions.
    fn has_two_transactions(&self, number: u64) -> Result<bool, Error> {
        Ok(self.blocks.senders(number)?.is_some_and(|senders| senders.len() > 1))
    }

    /// Returns the last creation of the contract in a block. Genesis has none.
    fn last_creation(&self, number: u64) -> Result<Option<Creation>, Error> {
        if number == 0 {
            return Ok(None);
        }
        let stored = StoredBlock::read(&self.call.context.spec, &self.blocks, number)?;
        for mined in stored.txs() {
            let mined = mined?;
            // The nonce of an account that sends transactions never decreases, so it creates a contract at an address
            // at most once.
            if mined.created() == Some(self.address) {
                return Ok(Some(Creation { hash: mined.hash, creator: mined.sender }));
            }
        }
        // Another contract created it. The calls of the transactions show which one.
        let mut last = None;
        Frames::of_block(&self.replay, &stored, |hash, frames| {
            if let Some(creator) = frames.created(self.address) {
                last = Some(Creation { hash, creator });
            }
            ControlFlow::Continue(())
        })?;
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_with_an_instruction_that_can_destroy_its_contract_is_found() {
        for (code, expected) in [
            (&[0x60, 0x01, 0x55][..], false),
            (&[0x33, 0xff], true),
            (&[0x36, 0x3d, 0xf4], true),
            (&[0xf2], true),
            (&[], false),
        ] {
            assert_eq!(may_be_destroyed(code), expected, "{code:02x?}");
        }
    }
}
