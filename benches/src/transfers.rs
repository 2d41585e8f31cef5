//! Signed transfers.

use crate::signatures;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256};
use chain::DEV_ACCOUNTS;
use secp256k1::{
    Message, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};

/// Chain id of the development genesis.
const CHAIN_ID: u64 = 262_144;

/// A transfer of one wei from a development account, as EIP-2718 bytes.
///
/// # Panics
/// If there is no such account.
pub fn transfer(from: usize, nonce: u64, to: Address) -> Bytes {
    let key = DEV_ACCOUNTS[from].private_key.0;
    signed(&SecretKey::from_secret_bytes(key).expect("the constants are valid keys"), nonce, to)
}

/// `count` transfers of one wei, each from a different sender.
pub fn transfers(count: usize) -> Vec<Bytes> {
    let keys = (0..count as u64).map(signatures::key);
    keys.map(|key| signed(&key, 0, Address::ZERO)).collect()
}

fn signed(key: &SecretKey, nonce: u64, to: Address) -> Bytes {
    let tx = TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 1_000_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(to),
        value: U256::ONE,
        ..TxEip1559::default()
    };
    let digest = Message::from_digest(tx.signature_hash().0);
    let signature = RecoverableSignature::sign_ecdsa_recoverable(digest, key);
    let (id, compact) = signature.serialize_compact();
    let signature = Signature::from_bytes_and_parity(&compact, id == RecoveryId::One);
    TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
}
