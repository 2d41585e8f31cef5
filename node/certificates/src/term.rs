//! Terms of producers: a signed term names the key that signs the blocks above a height.

use super::{BlockId, PublicKey, SecretKey, key::SIGNATURE_BYTES};
use alloy_primitives::{B256, FixedBytes};
use serde::{Deserialize, Serialize};

/// Domain separator at the start of the signed message.
const CONTEXT: &[u8] = b"evmd producer term 1";

/// The key that has signed a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signer {
    /// The producer of the previous term.
    Producer,
    /// The recovery key in the genesis, for a producer that is lost.
    Recovery,
}

/// The start of a producer term. Term 0 has none: it starts with the genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Term {
    /// The number of the term, from 1.
    pub term: u64,
    /// The last block of the earlier terms. Later blocks of their producers are not part of the chain.
    pub last: BlockId,
    /// The public key of the producer of the blocks after `last`.
    pub producer: PublicKey,
    /// The key that has signed the term.
    pub signer: Signer,
    signature: FixedBytes<SIGNATURE_BYTES>,
}

impl Term {
    /// Signs the start of a term.
    pub fn sign(
        (signer, key): (Signer, &SecretKey),
        genesis: B256,
        term: u64,
        last: BlockId,
        producer: PublicKey,
    ) -> Self {
        let signature = key.sign(&message(genesis, term, last, &producer, signer)).into();
        Self { term, last, producer, signer, signature }
    }

    pub(crate) fn is_signed_by(&self, key: &PublicKey, genesis: B256) -> bool {
        let message = message(genesis, self.term, self.last, &self.producer, self.signer);
        key.verifies(&message, &self.signature)
    }
}

/// Returns the signed message.
fn message(
    genesis: B256,
    term: u64,
    last: BlockId,
    producer: &PublicKey,
    signer: Signer,
) -> Vec<u8> {
    let (term, number) = (term.to_be_bytes(), last.number.to_be_bytes());
    let producer = producer.bytes();
    let signer = [signer as u8];
    [
        CONTEXT,
        genesis.as_slice(),
        &term,
        &number,
        last.hash.as_slice(),
        producer.as_slice(),
        &signer,
    ]
    .concat()
}
