//! Computes blocks from their number alone, so that any process can compute any block.

// Each test file that includes this module uses only a part of it.
#![allow(dead_code)]

use alloy_primitives::{Address, B256, Bytes, Log, U256, keccak256};
use storage::{Account, AccountChange, BlockRecord, ReceiptOutcome, StateChanges, StoredReceipt};

/// Bytes of a body: more than a page, so that overflow pages are used too.
const BODY_BYTES: usize = 9000;
/// Number of accounts that a block changes.
const CHANGED: u64 = 8;

pub(crate) fn block(number: u64) -> BlockRecord {
    let seed = keccak256(number.to_be_bytes());
    let sender = Address::from_word(seed);
    let log = Log::new_unchecked(sender, vec![seed, B256::ZERO], Bytes::from(seed.to_vec()));
    let receipts = vec![
        StoredReceipt {
            tx_type: 2,
            outcome: ReceiptOutcome::Status(number.is_multiple_of(2)),
            cumulative_gas_used: 21_000 + number,
            logs: vec![log],
        },
        StoredReceipt {
            tx_type: 0,
            outcome: ReceiptOutcome::PostState(seed),
            cumulative_gas_used: 42_000 + number,
            logs: Vec::new(),
        },
    ];
    BlockRecord {
        number,
        hash: seed,
        flags: storage::BlockFlags::NONE,
        header: Bytes::from(seed.repeat(16)),
        body: Bytes::from(vec![number as u8; BODY_BYTES]),
        senders: vec![sender, Address::ZERO],
        receipts,
        changes: changes(number).into(),
        fees: Bytes::from(number.to_be_bytes().to_vec()),
        module: Bytes::new(),
        governance: Vec::new(),
        certificate: None,
    }
}

/// Returns the address of one of the 64 accounts that blocks change in turn.
pub(crate) fn account(index: u64) -> Address {
    Address::from_word(keccak256((index % 64).to_le_bytes()))
}

/// Returns the changes of a block: it changes a few accounts and sets a slot of each. Every seventh block also
/// wipes one of them.
pub(crate) fn changes(number: u64) -> StateChanges {
    let mut accounts: Vec<AccountChange> = (0..CHANGED)
        .map(|index| AccountChange {
            address: account(number * 5 + index),
            account: Some(Account {
                nonce: number,
                balance: U256::from(number + 1),
                ..Account::default()
            }),
            wiped: index == 0 && number % 7 == 3,
            slots: vec![(U256::from(number % 16), U256::from(number))],
        })
        .collect();
    accounts.sort_by_key(|change| change.address);
    let code = Bytes::from(number.to_be_bytes().to_vec());
    StateChanges { accounts, codes: vec![(keccak256(&code), code)] }
}
