//! Builds transactions with a dummy signature, because the pool does not check signatures.

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip4844, TxEip7702, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use std::sync::{Arc, OnceLock};
use transactions::{RecoveredTx, Transaction};

/// The parts of a transaction that matter to the pool.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    /// The hash of the transaction as a number: transactions with equal IDs are the same.
    pub id: u64,
    /// Number of the sender.
    pub sender: u8,
    /// Its nonce.
    pub nonce: u64,
    /// Priority fee cap, in wei per gas. If it is above `cap`, the transaction is a legacy one.
    pub tip: u128,
    /// Fee cap, in wei per gas.
    pub cap: u128,
    /// Gas limit.
    pub gas: u64,
    /// Bytes of the raw transaction.
    pub bytes: usize,
    /// Number of blobs. A transaction with blobs is never a legacy one.
    pub blobs: u8,
    /// Cap of the blob gas price, in wei.
    pub blob_cap: u128,
}

/// Maximum size of a raw transaction in bytes.
pub const MAX_TX_BYTES: usize = 128 * 1024;

/// A transfer of sender 1 with fee caps of 100 wei per gas.
pub const PLAIN: Draft = Draft {
    id: 0,
    sender: 1,
    nonce: 0,
    tip: 100,
    cap: 100,
    gas: 21_000,
    bytes: 110,
    blobs: 0,
    blob_cap: 0,
};

/// Blob gas of a blob (EIP-4844).
pub const BLOB_GAS: u64 = 131_072;

/// The address of a sender.
pub fn address(sender: u8) -> Address {
    Address::repeat_byte(sender)
}

impl Draft {
    /// The transaction's hash.
    pub fn hash(&self) -> B256 {
        B256::left_padding_from(&self.id.to_be_bytes())
    }

    /// The maximum cost in wei, without a value.
    pub fn cost(&self) -> U256 {
        U256::from(self.gas) * U256::from(self.cap)
            + U256::from(self.blob_gas()) * U256::from(self.blob_cap)
    }

    /// The blob gas that the transaction uses.
    pub fn blob_gas(&self) -> u64 {
        u64::from(self.blobs) * BLOB_GAS
    }

    /// The transaction.
    pub fn tx(&self) -> Arc<RecoveredTx> {
        let signature = Signature::new(U256::ONE, U256::ONE, false);
        let to = TxKind::Call(Address::ZERO);
        let tx = if self.blobs > 0 {
            let body = TxEip4844 {
                nonce: self.nonce,
                max_fee_per_gas: self.cap,
                max_priority_fee_per_gas: self.tip,
                gas_limit: self.gas,
                blob_versioned_hashes: vec![B256::ZERO; self.blobs.into()],
                max_fee_per_blob_gas: self.blob_cap,
                ..TxEip4844::default()
            };
            Transaction::Eip4844(body.into_signed(signature))
        } else if self.tip > self.cap {
            let gas_price = self.cap;
            let (nonce, gas_limit) = (self.nonce, self.gas);
            let body = TxLegacy { nonce, gas_price, gas_limit, to, ..TxLegacy::default() };
            Transaction::Legacy(body.into_signed(signature))
        } else {
            let body = TxEip1559 {
                nonce: self.nonce,
                max_fee_per_gas: self.cap,
                max_priority_fee_per_gas: self.tip,
                gas_limit: self.gas,
                to,
                ..TxEip1559::default()
            };
            Transaction::Eip1559(body.into_signed(signature))
        };
        self.wrap(tx)
    }

    /// The same as a set-code transaction. Its authorities are passed to the pool separately.
    pub fn set_code(&self) -> Arc<RecoveredTx> {
        let body = TxEip7702 {
            nonce: self.nonce,
            max_fee_per_gas: self.cap,
            max_priority_fee_per_gas: self.tip,
            gas_limit: self.gas,
            ..TxEip7702::default()
        };
        let signature = Signature::new(U256::ONE, U256::ONE, false);
        self.wrap(Transaction::Eip7702(body.into_signed(signature)))
    }

    fn wrap(&self, tx: Transaction) -> Arc<RecoveredTx> {
        static BYTES: [u8; MAX_TX_BYTES] = [0; MAX_TX_BYTES];
        let raw = Bytes::from_static(&BYTES[..self.bytes]);
        let (hash, sender) = (self.hash(), address(self.sender));
        Arc::new(RecoveredTx {
            raw,
            tx,
            hash,
            sender,
            high_s: false,
            authorities: OnceLock::new(),
            cosmos: None,
        })
    }
}
