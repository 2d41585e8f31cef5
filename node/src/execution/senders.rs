//! Senders of raw transactions, a batch at a time.
//!
//! Both hashes of a transaction (its own, and the one that was signed) and its signature are left
//! to `verify`, which works on many at once; only decoding goes one by one. Holds no state between
//! batches but its scratch space, which grows to the largest batch seen.

use super::tx::{DecodeError, DecodedTx, RecoverError, RecoveredTx};
use alloy_primitives::Bytes;
use std::ops::Range;
use verify::{Job, Outcome, Reason, Recoverer, keccak256_batch, keccak256_spans};

/// A recoverer with the scratch space to feed it.
#[derive(Debug)]
pub struct Senders {
    recoverer: Recoverer,
    scratch: Scratch,
}

impl Senders {
    /// Works with the given recoverer.
    pub fn new(recoverer: Recoverer) -> Self {
        Self { recoverer, scratch: Scratch::default() }
    }

    /// Decodes and recovers EIP-2718 transactions, each with its own result, in order. Any number;
    /// a few hundred are the most efficient.
    pub fn recover(
        &mut self,
        raw: &[Bytes],
    ) -> impl ExactSizeIterator<Item = Result<RecoveredTx, RecoverError>> {
        self.scratch.recover(&mut self.recoverer, raw)
    }
}

/// [`Senders::recover`] for a caller that has a recoverer and one batch.
pub fn recover_senders(
    recoverer: &mut Recoverer,
    raw: &[Bytes],
) -> Vec<Result<RecoveredTx, RecoverError>> {
    Scratch::default().recover(recoverer, raw).collect()
}

#[derive(Debug, Default)]
struct Scratch {
    hashes: Vec<[u8; 32]>,
    /// What the decoded transactions of the batch signed, back to back.
    payloads: Vec<u8>,
    payload_spans: Vec<Range<usize>>,
    jobs: Vec<Job>,
    outcomes: Vec<Outcome>,
}

impl Scratch {
    fn recover(
        &mut self,
        recoverer: &mut Recoverer,
        raw: &[Bytes],
    ) -> impl ExactSizeIterator<Item = Result<RecoveredTx, RecoverError>> + use<'_> {
        let decoded = self.decode(raw);
        self.hash_payloads(&decoded);
        self.jobs.clear();
        let digests = decoded.iter().flatten().zip(&self.hashes);
        self.jobs.extend(digests.map(|(tx, digest)| tx.job_hashed(*digest)));
        self.outcomes.clear();
        self.outcomes.resize(self.jobs.len(), Err(Reason::NoPublicKey));
        recoverer.recover_batch(&self.jobs, &mut self.outcomes);
        let mut outcomes = self.outcomes.iter();
        decoded.into_iter().map(move |decoded| {
            let decoded = decoded?;
            decoded.finish(outcomes.next().expect("one outcome a decoded transaction"))
        })
    }

    fn decode(&mut self, raw: &[Bytes]) -> Vec<Result<DecodedTx, DecodeError>> {
        let messages: Vec<&[u8]> = raw.iter().map(AsRef::as_ref).collect();
        self.hashes.resize(raw.len(), [0; 32]);
        keccak256_batch(&messages, &mut self.hashes);
        let hashed = raw.iter().zip(&self.hashes);
        hashed.map(|(raw, hash)| DecodedTx::decode_hashed(raw.clone(), hash.into())).collect()
    }

    /// Leaves in `hashes` what each transaction that decoded has signed.
    fn hash_payloads(&mut self, decoded: &[Result<DecodedTx, DecodeError>]) {
        self.payloads.clear();
        self.payload_spans.clear();
        for tx in decoded.iter().flatten() {
            let start = self.payloads.len();
            tx.encode_for_signing(&mut self.payloads);
            self.payload_spans.push(start..self.payloads.len());
        }
        self.hashes.truncate(self.payload_spans.len());
        keccak256_spans(&self.payloads, &self.payload_spans, &mut self.hashes);
    }
}
