//! Senders with their own keys.

use crate::common::CHAIN_ID;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256, keccak256};
use secp256k1::{
    Message, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};

/// The recipient of all transfers.
pub const RECIPIENT: Address = Address::repeat_byte(0x77);

/// A sender and its key.
#[derive(Clone, Debug)]
pub struct Wallet {
    key: SecretKey,
    /// Its address.
    pub address: Address,
}

impl Wallet {
    /// The wallet whose key is the hash of `number`.
    pub fn new(number: u64) -> Self {
        let secret = keccak256(number.to_be_bytes());
        let key = SecretKey::from_secret_bytes(secret.0).unwrap();
        let public = key.public_key().serialize_uncompressed();
        Self { key, address: Address::from_word(keccak256(&public[1..])) }
    }

    /// Signs a transaction. Returns its EIP-2718 bytes.
    pub fn sign(&self, tx: TxEip1559) -> Bytes {
        let digest = Message::from_digest(tx.signature_hash().0);
        let signature = RecoverableSignature::sign_ecdsa_recoverable(digest, &self.key);
        let (id, compact) = signature.serialize_compact();
        let signature = Signature::from_bytes_and_parity(&compact, id == RecoveryId::One);
        TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
    }
}

/// A transfer of one wei with this nonce and fees, in wei per gas.
pub fn transfer(nonce: u64, cap: u128, priority_fee: u128) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: cap,
        max_priority_fee_per_gas: priority_fee,
        to: TxKind::Call(RECIPIENT),
        value: U256::ONE,
        ..TxEip1559::default()
    }
}
