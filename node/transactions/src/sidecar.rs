//! Verifies and removes the blobs of submitted transactions (EIP-4844, EIP-7594).
//!
//! A block contains only the transaction, which refers to its blobs by versioned hashes. A submitted transaction
//! must include the blobs, which the node checks and does not store (ADR 0014).

use super::tx::{DecodeError, DecodedTx};
use alloy_consensus::Transaction as _;
use alloy_eips::{
    eip4844::{BYTES_PER_BLOB, BYTES_PER_COMMITMENT, BYTES_PER_PROOF},
    eip7594::{BlobTransactionSidecarVariant as Sidecar, CELLS_PER_EXT_BLOB},
};
use alloy_primitives::{B256, Bytes};
use alloy_rlp::Header;

/// EIP-2718 type of blob transactions.
const TX_TYPE: u8 = 3;
/// Maximum number of blobs of one transaction under all forks so far: the limit is 9 in Prague, as for a whole
/// block, and 6 since Osaka (EIP-7594).
const MAX_BLOBS: usize = 9;
/// Maximum number of bytes that each blob adds: the blob, its commitment and its cell proofs, each with an RLP
/// header of at most 4 bytes.
const SIDECAR_BYTES_PER_BLOB: usize =
    (BYTES_PER_BLOB + 4) + (BYTES_PER_COMMITMENT + 4) + CELLS_PER_EXT_BLOB * (BYTES_PER_PROOF + 4);
/// Maximum size of the blobs, commitments and proofs that are submitted with a transaction, in RLP bytes.
pub const MAX_SIDECAR_BYTES: usize = MAX_BLOBS * SIDECAR_BYTES_PER_BLOB + 32;

/// Why the blobs of a transaction are rejected. The texts are geth's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// The bytes are not a transaction, with or without a sidecar.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The transaction has no sidecar.
    #[error("missing sidecar in blob transaction")]
    Missing,
    /// The number of blobs differs from the number of versioned hashes.
    #[error("invalid number of {have} blobs compared to {want} blob hashes")]
    Blobs {
        /// Number of blobs.
        have: usize,
        /// Number of versioned hashes in the transaction.
        want: usize,
    },
    /// The number of commitments differs from the number of versioned hashes.
    #[error("invalid number of {have} blob commitments compared to {want} blob hashes")]
    Commitments {
        /// Number of commitments.
        have: usize,
        /// Number of versioned hashes in the transaction.
        want: usize,
    },
    /// The number of proofs differs from the number of blobs (EIP-4844) or cells (EIP-7594).
    #[error("invalid number of {have} blob proofs expected {want}")]
    Proofs {
        /// Number of proofs.
        have: usize,
        /// Required number of proofs.
        want: usize,
    },
    /// The hash of a commitment differs from the versioned hash in the transaction.
    #[error("blob {index}: computed hash {computed} mismatches transaction one {stated}")]
    Hash {
        /// Index of the blob.
        index: usize,
        /// Versioned hash of the commitment.
        computed: B256,
        /// Versioned hash in the transaction.
        stated: B256,
    },
    /// A proof is not valid for its blob and its commitment.
    #[error("KZG verification error: invalid blob proof: can't verify opening proof")]
    Proof,
}

/// Returns whether these are the bytes of a blob transaction, with or without blobs.
pub fn is_blob_tx(raw: &[u8]) -> bool {
    raw.first() == Some(&TX_TYPE)
}

/// Checks the blobs of a transaction and returns its EIP-2718 bytes without them. Accepts the sidecar formats of
/// EIP-4844 and EIP-7594 under every fork.
///
/// Takes 2 ms for a blob with one proof, and 20 ms for a blob with cell proofs. The first call of a process takes
/// 2 s more, to load the trusted setup.
///
/// # Errors
/// See [`SidecarError`].
pub fn without_blobs(raw: &[u8]) -> Result<Bytes, SidecarError> {
    split(raw).map(|(tx, _)| tx)
}

/// Checks the blobs of a transaction like [`without_blobs`], and returns the transaction and the sidecar.
///
/// # Errors
/// See [`SidecarError`].
pub fn split(raw: &[u8]) -> Result<(Bytes, Sidecar), SidecarError> {
    let (raw, sidecar) = unwrap(raw)?;
    let decoded = DecodedTx::decode(raw)?;
    check(decoded.tx.blob_versioned_hashes().unwrap_or_default(), &sidecar)?;
    Ok((decoded.raw, sidecar))
}

/// Splits `0x03 || rlp([tx, ...sidecar])` into its two parts.
fn unwrap(raw: &[u8]) -> Result<(Bytes, Sidecar), SidecarError> {
    let rlp = |error| SidecarError::Decode(DecodeError::Rlp(error));
    let mut rest = raw.get(1..).unwrap_or_default();
    let wrapper = Header::decode(&mut rest).map_err(rlp)?;
    if !wrapper.list {
        return Err(rlp(alloy_rlp::Error::UnexpectedString));
    }
    if rest.len() != wrapper.payload_length {
        return Err(DecodeError::Trailing(rest.len() - wrapper.payload_length).into());
    }
    let mut after = rest;
    let inner = Header::decode(&mut after).map_err(rlp)?;
    if !inner.list {
        // The list begins with a chain id: this is a transaction without a sidecar.
        return Err(SidecarError::Missing);
    }
    let (tx, mut rest) = rest.split_at(inner.length_with_payload());
    let sidecar = Sidecar::rlp_decode_fields(&mut rest).map_err(rlp)?;
    if !rest.is_empty() {
        return Err(DecodeError::Trailing(rest.len()).into());
    }
    Ok(([&[TX_TYPE], tx].concat().into(), sidecar))
}

/// Compares the numbers and the hashes first, which is cheap, and verifies the KZG proofs last.
fn check(hashes: &[B256], sidecar: &Sidecar) -> Result<(), SidecarError> {
    let want = hashes.len();
    let have = sidecar.blobs().len();
    if have != want {
        return Err(SidecarError::Blobs { have, want });
    }
    let have = sidecar.commitments().len();
    if have != want {
        return Err(SidecarError::Commitments { have, want });
    }
    for (index, (computed, stated)) in sidecar.versioned_hashes().zip(hashes).enumerate() {
        if computed != *stated {
            return Err(SidecarError::Hash { index, computed, stated: *stated });
        }
    }
    let (have, want) = match sidecar {
        Sidecar::Eip4844(sidecar) => (sidecar.proofs.len(), want),
        Sidecar::Eip7594(sidecar) => (sidecar.cell_proofs.len(), want * CELLS_PER_EXT_BLOB),
    };
    if have != want {
        return Err(SidecarError::Proofs { have, want });
    }
    // No tables are precomputed: they speed up computing proofs, and proofs are only verified here.
    let setup = c_kzg::ethereum_kzg_settings(0);
    sidecar.validate(hashes, setup).map_err(|_| SidecarError::Proof)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transaction;
    use alloy_consensus::{SignableTransaction, TxEip4844};
    use alloy_eips::{
        eip2718::Encodable2718,
        eip4844::{Blob, BlobTransactionSidecar as Whole},
        eip7594::BlobTransactionSidecarEip7594 as Cells,
    };
    use alloy_primitives::Signature;

    /// Returns the sidecars of the same two blobs in both formats.
    fn sidecars() -> [Sidecar; 2] {
        let setup = c_kzg::ethereum_kzg_settings(0);
        let byte = |salt: u8, at: usize| {
            if at.is_multiple_of(32) { 0 } else { (at as u8).wrapping_mul(salt) }
        };
        let bytes = |salt| (0..BYTES_PER_BLOB).map(|at| byte(salt, at)).collect::<Vec<_>>();
        let blob = |salt| Blob::from_slice(&bytes(salt));
        let blobs = vec![blob(3), blob(7)];
        [
            Whole::try_from_blobs_with_settings(blobs.clone(), setup).unwrap().into(),
            Cells::try_from_blobs_with_settings(blobs, setup).unwrap().into(),
        ]
    }

    fn encoded_tx(sidecar: &Sidecar) -> Vec<u8> {
        let blob_versioned_hashes = sidecar.versioned_hashes().collect();
        let tx = TxEip4844 { blob_versioned_hashes, ..TxEip4844::default() };
        Transaction::from(tx.into_signed(Signature::test_signature())).encoded_2718()
    }

    fn wrap(tx: &[u8], sidecar: &Sidecar) -> Vec<u8> {
        let payload = [&tx[1..], &sidecar.rlp_encoded_fields()].concat();
        let mut raw = vec![TX_TYPE];
        Header { list: true, payload_length: payload.len() }.encode(&mut raw);
        [raw, payload].concat()
    }

    #[test]
    fn split_returns_the_transaction_and_its_sidecar() {
        for sidecar in sidecars() {
            let tx = encoded_tx(&sidecar);
            let raw = wrap(&tx, &sidecar);
            assert!(is_blob_tx(&raw) && raw.len() < tx.len() + MAX_SIDECAR_BYTES);
            assert_eq!(split(&raw), Ok((Bytes::from(tx), sidecar)));
        }
    }

    #[test]
    fn largest_sidecar_is_within_the_size_limit() {
        let largest = Sidecar::from(Cells::new(
            vec![Blob::default(); MAX_BLOBS],
            vec![Default::default(); MAX_BLOBS],
            vec![Default::default(); MAX_BLOBS * CELLS_PER_EXT_BLOB],
        ));
        let raw = wrap(&encoded_tx(&largest), &largest);
        assert!(raw.len() <= encoded_tx(&largest).len() + MAX_SIDECAR_BYTES, "{}", raw.len());
    }

    #[test]
    fn sidecars_with_one_fault_are_rejected() {
        for sidecar in sidecars() {
            let tx = encoded_tx(&sidecar);
            assert_eq!(without_blobs(&tx), Err(SidecarError::Missing));
            for (changed, expected) in faults(&sidecar) {
                assert_eq!(without_blobs(&wrap(&tx, &changed)), Err(expected));
            }
        }
    }

    /// Returns sidecars with one fault each, and the expected errors.
    fn faults(valid: &Sidecar) -> Vec<(Sidecar, SidecarError)> {
        let change = |change: &dyn Fn(&mut Vec<Blob>, &mut Vec<_>, &mut Vec<_>)| {
            let mut changed = valid.clone();
            match &mut changed {
                Sidecar::Eip4844(sidecar) => {
                    change(&mut sidecar.blobs, &mut sidecar.commitments, &mut sidecar.proofs);
                }
                Sidecar::Eip7594(sidecar) => {
                    change(&mut sidecar.blobs, &mut sidecar.commitments, &mut sidecar.cell_proofs);
                }
            }
            changed
        };
        let proofs = if valid.is_eip7594() { 2 * CELLS_PER_EXT_BLOB } else { 2 };
        let [first, second] = [0, 1].map(|at| valid.versioned_hashes().nth(at).unwrap());
        vec![
            (change(&|blobs, _, _| blobs.truncate(1)), SidecarError::Blobs { have: 1, want: 2 }),
            (
                change(&|_, commitments, _| commitments.truncate(1)),
                SidecarError::Commitments { have: 1, want: 2 },
            ),
            (
                change(&|_, _, proofs| proofs.truncate(1)),
                SidecarError::Proofs { have: 1, want: proofs },
            ),
            (
                change(&|_, commitments, _| commitments.swap(0, 1)),
                SidecarError::Hash { index: 0, computed: second, stated: first },
            ),
            (change(&|blobs, _, _| blobs.swap(0, 1)), SidecarError::Proof),
            (change(&|blobs, _, _| blobs[1].0[40] ^= 1), SidecarError::Proof),
            // This is not a field element.
            (change(&|blobs, _, _| blobs[1].0[32] = 0xff), SidecarError::Proof),
            (change(&|_, _, proofs| proofs.swap(0, 1)), SidecarError::Proof),
            // This is not a point on the curve.
            (change(&|_, _, proofs| proofs[1].0[20] ^= 1), SidecarError::Proof),
        ]
    }

    #[test]
    fn malformed_bytes_are_rejected_without_a_panic() {
        let [sidecar, _] = sidecars();
        let raw = wrap(&encoded_tx(&sidecar), &sidecar);
        for end in (0..200).chain([raw.len() / 2, raw.len() - 1]) {
            let cut = without_blobs(&raw[..end]);
            assert!(matches!(cut, Err(SidecarError::Decode(_))), "{end}: {cut:?}");
        }
        let trailing = without_blobs(&[raw.as_slice(), &[0]].concat());
        assert_eq!(trailing, Err(DecodeError::Trailing(1).into()));
        // Damages one byte of the transaction at a time. The result is not always an error, because the chain id
        // and the signature of the transaction are not checked here.
        for at in 1..150 {
            let mut damaged = raw.clone();
            damaged[at] ^= 0x80;
            drop(without_blobs(&damaged));
        }
        assert_eq!(without_blobs(&[TX_TYPE, 0x80]).unwrap_err(), {
            SidecarError::Decode(DecodeError::Rlp(alloy_rlp::Error::UnexpectedString))
        });
    }
}
