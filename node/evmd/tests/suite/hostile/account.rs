//! Derives the accounts of this test from names, and signs their transactions.

use crate::common::signed::signed_by;
use alloy_consensus::{SignableTransaction, Signed, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes, Signature, keccak256};
use keys::{PrivateKey, bech32};
use prost_types::Any;
use transactions::cosmos::TX_TYPE;

/// An account and its key.
pub(super) struct Account {
    key: PrivateKey,
    pub(super) address: Address,
}

impl Account {
    /// Derives the account with this name.
    pub(super) fn new(name: &str) -> Self {
        let key = PrivateKey::from_bytes(keccak256(name).as_slice()).unwrap();
        let address = key.address();
        Self { key, address }
    }

    pub(super) fn bech32(&self) -> String {
        bech32("cosmos", self.address)
    }

    /// Signs an Ethereum transaction of this account, and returns its EIP-2718 encoding.
    pub(super) fn ethereum<T>(&self, tx: T) -> Bytes
    where
        T: SignableTransaction<Signature>,
        TxEnvelope: From<Signed<T>>,
    {
        let signed = self.key.sign(&tx.signature_hash());
        let signature = Signature::from_bytes_and_parity(&signed[..64], signed[64] == 1);
        TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
    }

    /// Returns a signed Cosmos transaction of this account. `price` is in wei per gas.
    pub(super) fn cosmos(&self, sequence: u64, price: u128, messages: Vec<Any>) -> Bytes {
        let price = u64::try_from(price).unwrap();
        let raw = signed_by(&self.key, price, true, sequence, messages);
        [&[TX_TYPE], raw.as_slice()].concat().into()
    }
}
