//! Signed transfers of the development accounts.

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Signature, TxKind, U256, b256, keccak256};
use secp256k1::{
    Message, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};

/// Keys of the accounts that the mnemonic `test test test test test test test test test test test
/// junk` gives: public knowledge, funded on development chains only.
const KEYS: [B256; 10] = [
    b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];

/// Fee cap of every transfer, in wei per gas: stays above the base fee through a long load.
const FEE_CAP: u128 = 1_000_000_000_000;
/// Tip of every transfer, in wei per gas.
const TIP: u128 = 1_000_000_000;

/// A funded account.
#[derive(Debug)]
pub(crate) struct Sender {
    key: SecretKey,
    /// Its address.
    pub(crate) address: Address,
}

/// The funded accounts of a development chain.
pub(crate) fn senders() -> Vec<Sender> {
    let sender = |key: &B256| {
        let key = SecretKey::from_secret_bytes(key.0).expect("the constants are valid keys");
        let public = key.public_key().serialize_uncompressed();
        Sender { key, address: Address::from_word(keccak256(&public[1..])) }
    };
    KEYS.iter().map(sender).collect()
}

impl Sender {
    /// A transfer of one wei, as EIP-2718 bytes.
    pub(crate) fn transfer(&self, chain_id: u64, nonce: u64, to: Address) -> Vec<u8> {
        let tx = TxEip1559 {
            chain_id,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: FEE_CAP,
            max_priority_fee_per_gas: TIP,
            to: TxKind::Call(to),
            value: U256::ONE,
            ..TxEip1559::default()
        };
        let digest = Message::from_digest(tx.signature_hash().0);
        let signature = RecoverableSignature::sign_ecdsa_recoverable(digest, &self.key);
        let (id, compact) = signature.serialize_compact();
        let signature = Signature::from_bytes_and_parity(&compact, id == RecoveryId::One);
        TxEnvelope::from(tx.into_signed(signature)).encoded_2718()
    }
}
