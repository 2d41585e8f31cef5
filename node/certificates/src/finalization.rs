//! The decision of validators for a block, as the consensus engine proves it: signatures of a quorum of validators for
//! the block in the context in which it was proposed (`docs/adr/0038-consensus-engine.md`).
//!
//! The signed bytes are those of commonware-consensus 2026.10.0, scheme ed25519 of simplex. They are computed here
//! without the engine, so that each program can check them.

use super::{BlockId, PublicKey, key::SIGNATURE_BYTES};
use alloy_primitives::{B256, keccak256};

/// Maximum number of validators: each has one bit of the bitmap.
pub const MAX_SIGNERS: usize = u64::BITS as usize;
/// Bytes before the signatures: views, leader, digest of the parent, bitmap.
const FIXED_BYTES: usize = 8 + 8 + 32 + 32 + 8;
/// The end of the namespace of votes to finalize. It follows the genesis hash.
const FINALIZE: &[u8] = b"_FINALIZE";
/// The only epoch: the validators do not change.
const EPOCH: u64 = 0;

/// A proof that validators have decided for a block; see the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalization {
    /// The view in which the block was proposed.
    pub view: u64,
    /// The view in which its parent was proposed.
    pub parent_view: u64,
    /// The key of the validator that proposed it.
    pub leader: B256,
    /// The digest of the parent.
    pub parent: B256,
    /// The positions of the validators that signed, in the order of their keys: the lowest bit is that of the first.
    pub signers: u64,
    /// Their signatures, in the same order.
    pub signatures: Vec<[u8; SIGNATURE_BYTES]>,
}

impl Finalization {
    /// Returns whether the signatures are those of a quorum of these validators for the block. The keys must be in
    /// ascending order of their bytes.
    pub fn proves(&self, validators: &[PublicKey], genesis: B256, block: BlockId) -> bool {
        let count = self.signers.count_ones() as usize;
        let is_known = validators.len() == MAX_SIGNERS || self.signers >> validators.len() == 0;
        if !is_known || count != self.signatures.len() || count < quorum(validators.len()) {
            return false;
        }
        let message = self.message(genesis, block.hash);
        let signers = (0..).zip(validators).filter(|(at, _)| self.signers >> *at & 1 == 1);
        signers.zip(&self.signatures).all(|((_, key), signature)| key.verifies(&message, signature))
    }

    /// Returns the engine's name of the block: a digest of the context of the proposal and the block hash.
    fn digest(&self, block: B256) -> B256 {
        let mut context = Vec::new();
        varint(&mut context, EPOCH);
        varint(&mut context, self.view);
        context.extend_from_slice(self.leader.as_slice());
        varint(&mut context, self.parent_view);
        context.extend_from_slice(self.parent.as_slice());
        context.extend_from_slice(block.as_slice());
        keccak256(context)
    }

    /// Returns the signed message: the length of the namespace, the namespace and the proposal.
    fn message(&self, genesis: B256, block: B256) -> Vec<u8> {
        let mut message = Vec::new();
        varint(&mut message, (genesis.len() + FINALIZE.len()) as u64);
        message.extend_from_slice(genesis.as_slice());
        message.extend_from_slice(FINALIZE);
        varint(&mut message, EPOCH);
        varint(&mut message, self.view);
        varint(&mut message, self.parent_view);
        message.extend_from_slice(self.digest(block).as_slice());
        message
    }

    /// Appends the bytes that are stored and sent.
    pub(super) fn encode_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.view.to_be_bytes());
        bytes.extend_from_slice(&self.parent_view.to_be_bytes());
        bytes.extend_from_slice(self.leader.as_slice());
        bytes.extend_from_slice(self.parent.as_slice());
        bytes.extend_from_slice(&self.signers.to_be_bytes());
        self.signatures.iter().for_each(|signature| bytes.extend_from_slice(signature));
    }

    /// Reads what [`Self::encode_to`] writes. `None` if the length does not fit the number of signers.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fixed, signatures) = bytes.split_at_checked(FIXED_BYTES)?;
        let number = |at: usize| {
            let bytes = fixed[at..].first_chunk().expect("inside the fixed part");
            u64::from_be_bytes(*bytes)
        };
        let signers = number(80);
        let (signatures, rest) = signatures.as_chunks::<SIGNATURE_BYTES>();
        if !rest.is_empty() || signatures.len() != signers.count_ones() as usize {
            return None;
        }
        Some(Self {
            view: number(0),
            parent_view: number(8),
            leader: B256::from_slice(&fixed[16..48]),
            parent: B256::from_slice(&fixed[48..80]),
            signers,
            signatures: signatures.to_vec(),
        })
    }
}

/// Returns the number of validators that must sign: all except the maximum number of faulty ones (below a third).
pub const fn quorum(validators: usize) -> usize {
    validators - validators.saturating_sub(1) / 3
}

/// Appends a number in LEB128: seven bits a byte, the lowest first.
fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    const GENESIS: B256 = B256::repeat_byte(1);
    const BLOCK: BlockId = BlockId { number: 7, hash: B256::repeat_byte(7) };

    fn keys(count: u8) -> Vec<SecretKey> {
        let mut keys: Vec<_> = (0..count).map(|n| SecretKey::from_bytes(&[n + 1; 32])).collect();
        keys.sort_by_key(|key| key.public().bytes());
        keys
    }

    fn signed(keys: &[SecretKey], signers: u64) -> Finalization {
        let mut finalization = Finalization {
            view: 300,
            parent_view: 299,
            leader: keys[0].public().bytes(),
            parent: B256::repeat_byte(9),
            signers,
            signatures: Vec::new(),
        };
        let message = finalization.message(GENESIS, BLOCK.hash);
        let signers = (0..).zip(keys).filter(|(at, _)| signers >> *at & 1 == 1);
        finalization.signatures = signers.map(|(_, key)| key.sign(&message)).collect();
        finalization
    }

    fn public(keys: &[SecretKey]) -> Vec<PublicKey> {
        keys.iter().map(SecretKey::public).collect()
    }

    #[test]
    fn a_quorum_is_all_but_less_than_a_third() {
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 10, 64].map(quorum), [1, 2, 3, 3, 4, 5, 5, 7, 43]);
    }

    #[test]
    fn a_quorum_must_sign() {
        let keys = keys(4);
        let validators = public(&keys);
        for signers in 0..1 << 4 {
            let proves = signed(&keys, signers).proves(&validators, GENESIS, BLOCK);
            assert_eq!(proves, signers.count_ones() >= 3, "{signers:b}");
        }
        // The fifth validator is not one of the four.
        let five = self::keys(5);
        assert!(!signed(&five, 0b11110).proves(&public(&five)[..4], GENESIS, BLOCK));
        let all = self::keys(64);
        assert!(signed(&all, u64::MAX).proves(&public(&all), GENESIS, BLOCK));
    }

    #[test]
    fn each_part_is_signed() {
        let keys = keys(4);
        let validators = public(&keys);
        let valid = signed(&keys, 0b1011);
        assert!(valid.proves(&validators, GENESIS, BLOCK));
        let hash = BlockId { hash: B256::repeat_byte(8), ..BLOCK };
        assert!(!valid.proves(&validators, GENESIS, hash));
        assert!(!valid.proves(&validators, B256::repeat_byte(2), BLOCK));
        let changes: [fn(&mut Finalization); 6] = [
            |proof| proof.view += 1,
            |proof| proof.parent_view -= 1,
            |proof| proof.leader = B256::ZERO,
            |proof| proof.parent = B256::ZERO,
            |proof| proof.signers = 0b1101,
            |proof| proof.signatures[2][0] ^= 1,
        ];
        for change in changes {
            let mut changed = valid.clone();
            change(&mut changed);
            assert!(!changed.proves(&validators, GENESIS, BLOCK), "{changed:?}");
        }
        // One validator cannot sign for another one.
        let mut twice = valid;
        twice.signatures[1] = twice.signatures[0];
        assert!(!twice.proves(&validators, GENESIS, BLOCK));
    }

    #[test]
    fn encoding_has_one_form() {
        let finalization = signed(&keys(4), 0b0111);
        let mut bytes = Vec::new();
        finalization.encode_to(&mut bytes);
        assert_eq!(bytes.len(), FIXED_BYTES + 3 * SIGNATURE_BYTES);
        assert_eq!(Finalization::decode(&bytes), Some(finalization));
        let long = [&bytes[..], &[0]].concat();
        let mut bits = bytes.clone();
        bits[FIXED_BYTES - 1] = 0b1111;
        for wrong in [&bytes[..bytes.len() - 1], &long, &bits, &bytes[..FIXED_BYTES - 1], &[]] {
            assert_eq!(Finalization::decode(wrong), None, "{} bytes", wrong.len());
        }
    }
}
