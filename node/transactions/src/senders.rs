//! Recovers the senders of raw transactions in batches.
//!
//! `verify` computes both hashes of a transaction (its own, and the signing hash) and recovers the key from its
//! signature, for many transactions at a time. Decoding, and any further attempts to verify the signature of a Cosmos
//! transaction, are done one by one. The only state between batches is scratch space as large as the largest batch.

use super::tx::{DecodeError, DecodedTx, RecoverError, RecoveredTx, authority_jobs};
use alloy_primitives::{Address, Bytes};
use std::{ops::Range, sync::Arc};
use verify::{Job, Outcome, Reason, Recoverer, keccak256_batch, keccak256_spans};

/// Authorizations of successive transactions are recovered together as soon as there are at least this many. Recovery
/// is most efficient with this batch size.
const AUTHORITIES_AT_ONCE: usize = 256;

/// A recoverer with its scratch space.
#[derive(Debug)]
pub struct Senders {
    recoverer: Recoverer,
    chain_id: u64,
    scratch: Scratch,
}

impl Senders {
    /// Uses this recoverer with chain id 0, which is wrong for Cosmos transactions and for most authorizations.
    pub fn new(recoverer: Recoverer) -> Self {
        Self::of_chain(recoverer, 0)
    }

    /// Uses this recoverer on the chain with this EIP-155 id. Signatures of Cosmos transactions cover the id,
    /// but the transactions do not contain it.
    pub fn of_chain(recoverer: Recoverer, chain_id: u64) -> Self {
        Self { recoverer, chain_id, scratch: Scratch::default() }
    }

    /// Decodes EIP-2718 transactions and recovers their senders. Returns one result for each, in order. Batches of a
    /// few hundred transactions are the most efficient.
    pub fn recover(
        &mut self,
        raw: &[Bytes],
    ) -> impl ExactSizeIterator<Item = Result<Arc<RecoveredTx>, RecoverError>> {
        // The `Arc` is created here because every caller would otherwise move the 400 bytes of a `RecoveredTx`.
        self.scratch.recover(&mut self.recoverer, raw, self.chain_id, Arc::new)
    }

    /// Decodes EIP-2718 transactions whose senders are known, in order. Signatures are not verified. The sender of a
    /// Cosmos transaction is the signer that it states.
    pub fn decode_with(
        &mut self,
        raw: &[Bytes],
        senders: &[Address],
    ) -> impl Iterator<Item = Result<Arc<RecoveredTx>, DecodeError>> {
        let decoded = self.scratch.decode(raw).into_iter().zip(senders);
        decoded.map(|(decoded, sender)| Ok(Arc::new(decoded?.with_sender(*sender))))
    }

    /// Stores in each transaction the authorities of its authorizations (EIP-7702). Most of these transactions have one
    /// authorization, but 128 KiB can contain thousands.
    pub fn recover_authorities<'a>(&mut self, txs: impl Iterator<Item = &'a RecoveredTx>) {
        self.scratch.jobs.clear();
        let mut gathered = Vec::new();
        for tx in txs {
            let jobs = &mut self.scratch.jobs;
            let first = jobs.len();
            jobs.extend(authority_jobs(&tx.tx, self.chain_id));
            if jobs.len() > first {
                gathered.push((tx, first..jobs.len()));
            }
            if jobs.len() >= AUTHORITIES_AT_ONCE {
                self.recover_gathered(&mut gathered);
            }
        }
        self.recover_gathered(&mut gathered);
    }

    fn recover_gathered(&mut self, gathered: &mut Vec<(&RecoveredTx, Range<usize>)>) {
        let Scratch { jobs, outcomes, .. } = &mut self.scratch;
        outcomes.clear();
        outcomes.resize(jobs.len(), Err(Reason::NoPublicKey));
        self.recoverer.recover_batch(jobs, outcomes);
        jobs.clear();
        for (tx, range) in gathered.drain(..) {
            let found = outcomes[range].iter().flatten().map(|key| key.address.into()).collect();
            // The authorities may already be stored.
            let _ = tx.authorities.set(found);
        }
    }
}

/// Does the same as [`Senders::recover`] for a single batch, but cannot verify signatures of Cosmos transactions.
pub fn recover_senders(
    recoverer: &mut Recoverer,
    raw: &[Bytes],
) -> Vec<Result<RecoveredTx, RecoverError>> {
    Scratch::default().recover(recoverer, raw, 0, |tx| tx).collect()
}

#[derive(Debug, Default)]
struct Scratch {
    hashes: Vec<[u8; 32]>,
    /// The signing payloads of the decoded transactions of the batch, concatenated.
    payloads: Vec<u8>,
    payload_spans: Vec<Range<usize>>,
    jobs: Vec<Job>,
    outcomes: Vec<Outcome>,
}

impl Scratch {
    fn recover<T>(
        &mut self,
        recoverer: &mut Recoverer,
        raw: &[Bytes],
        chain_id: u64,
        wrap: fn(RecoveredTx) -> T,
    ) -> impl ExactSizeIterator<Item = Result<T, RecoverError>> + use<'_, T> {
        let decoded = self.decode(raw);
        self.hash_payloads(&decoded, chain_id);
        self.jobs.clear();
        for (tx, digest) in decoded.iter().flatten().zip(&self.hashes) {
            self.jobs.push(tx.job_hashed(*digest));
            self.jobs.extend(tx.second_job(*digest));
        }
        self.outcomes.clear();
        self.outcomes.resize(self.jobs.len(), Err(Reason::NoPublicKey));
        recoverer.recover_batch(&self.jobs, &mut self.outcomes);
        let mut outcomes = self.outcomes.iter();
        decoded.into_iter().map(move |decoded| {
            let decoded = decoded?;
            let first = outcomes.next().expect("one outcome per decoded transaction");
            if decoded.cosmos.is_none() {
                return decoded.finish(first).map(wrap);
            }
            let second = outcomes.next().expect("two outcomes per Cosmos transaction");
            decoded.finish_cosmos([first, second], chain_id).map(wrap)
        })
    }

    fn decode(&mut self, raw: &[Bytes]) -> Vec<Result<DecodedTx, DecodeError>> {
        let messages: Vec<&[u8]> = raw.iter().map(AsRef::as_ref).collect();
        self.hashes.resize(raw.len(), [0; 32]);
        keccak256_batch(&messages, &mut self.hashes);
        let hashed = raw.iter().zip(&self.hashes);
        hashed.map(|(raw, hash)| DecodedTx::decode_hashed(raw.clone(), hash.into())).collect()
    }

    /// Stores the signing hash of each decoded transaction in `hashes`.
    fn hash_payloads(&mut self, decoded: &[Result<DecodedTx, DecodeError>], chain_id: u64) {
        self.payloads.clear();
        self.payload_spans.clear();
        for tx in decoded.iter().flatten() {
            let start = self.payloads.len();
            tx.encode_for_signing(chain_id, &mut self.payloads);
            self.payload_spans.push(start..self.payloads.len());
        }
        self.hashes.truncate(self.payload_spans.len());
        keccak256_spans(&self.payloads, &self.payload_spans, &mut self.hashes);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tx::Transaction, *};
    use alloy_consensus::{SignableTransaction as _, TxEip7702};
    use alloy_eips::{
        eip2718::Encodable2718 as _,
        eip7702::{Authorization, SignedAuthorization},
    };
    use alloy_primitives::{Address, Signature, U256};
    use verify::Backend;

    const CHAIN: u64 = 9;

    fn sign(key: u8, digest: [u8; 32]) -> Signature {
        let key = secp256k1::SecretKey::from_secret_bytes([key; 32]).unwrap();
        let message = secp256k1::Message::from_digest(digest);
        let signature =
            secp256k1::ecdsa::RecoverableSignature::sign_ecdsa_recoverable(message, &key);
        let (parity, bytes) = signature.serialize_compact();
        Signature::from_bytes_and_parity(&bytes, parity.to_u8() == 1)
    }

    fn authorization(key: u8, chain_id: u64) -> SignedAuthorization {
        let chain_id = U256::from(chain_id);
        let inner = Authorization { chain_id, address: Address::ZERO, nonce: 0 };
        let signature = sign(key, inner.signature_hash().0);
        inner.into_signed(signature)
    }

    #[test]
    fn authorities_recovered_in_a_batch_equal_those_recovered_one_by_one() {
        let valid = authorization(1, CHAIN);
        let order = U256::from_be_bytes(secp256k1::constants::CURVE_ORDER);
        let malleable = SignedAuthorization::new_unchecked(
            valid.inner().clone(),
            1 - valid.y_parity(),
            valid.r(),
            order - valid.s(),
        );
        let invalid_parity =
            SignedAuthorization::new_unchecked(valid.inner().clone(), 2, valid.r(), valid.s());
        let unrecoverable =
            SignedAuthorization::new_unchecked(valid.inner().clone(), 0, U256::ZERO, valid.s());
        let mut list =
            vec![valid, malleable, invalid_parity, unrecoverable, authorization(2, CHAIN + 1)];
        list.extend((3..20).map(|key| authorization(key, u64::from(key % 2) * CHAIN)));
        let raw = |list: &[SignedAuthorization]| {
            let authorization_list = list.to_vec();
            let tx = TxEip7702 { chain_id: CHAIN, authorization_list, ..TxEip7702::default() };
            let signature = sign(7, tx.signature_hash().0);
            Transaction::from(tx.into_signed(signature)).encoded_2718().into()
        };
        // The second transaction has no authorization, and the fourth has more than are recovered together.
        let long: Vec<_> = list.iter().cycle().take(AUTHORITIES_AT_ONCE + 50).cloned().collect();
        let raw = [&list[..], &[], &list[..1], &long, &list[1..5], &list[4..]].map(raw);
        let mut senders = Senders::of_chain(Recoverer::new(Backend::detect().unwrap()), CHAIN);
        let mut recover = || senders.recover(&raw).map(Result::unwrap).collect::<Vec<_>>();
        let (batch, alone) = (recover(), recover());
        senders.recover_authorities(batch.iter().map(|tx| &**tx));
        assert_eq!(alone[0].authorities(CHAIN).len(), 18);
        for (index, (batch, alone)) in batch.iter().zip(&alone).enumerate() {
            let found = batch.authorities.get().map(|found| &**found);
            assert_eq!(found.unwrap_or_default(), alone.authorities(CHAIN), "{index}");
            assert_eq!(found.is_some(), index != 1);
        }
    }
}
