//! Batch recovery over vectors: eight signatures per vector, up to [`CHUNK`] per pass.
//!
//! Q = u2 R - u1 G with u2 = s / r and u1 = z / r is computed for all signatures alike, with the same instructions for
//! all lanes. Jobs that are out of range, and x that are not on the curve, are rejected before the expensive stages.
//! Lanes to which a formula does not apply (a denominator or Z is zero) are recovered again by libsecp256k1. The result
//! does not depend on the other jobs in the batch. `docs/verify-math.md` contains the derivations.

mod base;
mod invert;
mod kernels;
mod point;
mod stages;
#[cfg(test)]
mod tests;
mod workspace;

use crate::{
    Job, Key, Outcome, Reason,
    field::Field,
    keccak::hash_all,
    lanes::LANES,
    limbs::{self, ORDER_WORDS},
    scalar,
};
use base::BaseTable;
use kernels::Kernels;
use workspace::{BLOCK, CHUNK, Workspace};

/// p - n. If bit 1 of the recovery id is set, r must be below this, so that R's x, r + n, is below p.
const P_MINUS_N: [u64; 4] = [0x402d_a172_2fc9_baee, 0x4551_2319_50b7_5fc4, 1, 0];

/// A recoverer over one instruction set.
#[derive(Debug)]
pub(crate) struct Engine<F: Kernels> {
    /// The proof that this processor can run the stages.
    processor: F::Processor,
    workspace: Box<Workspace<F>>,
    /// Indices of the jobs of the chunk that have no result yet.
    pending: Vec<u16>,
    keys: Vec<[u8; 64]>,
    /// Hashes of the keys.
    hashes: Vec<[u8; 32]>,
}

impl<F: Kernels> Engine<F> {
    /// Creates an engine over this instruction set.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "tests call `over` with their own table")
    )]
    pub(crate) fn new(processor: F::Processor) -> Self {
        Self::over(processor, BaseTable::shared())
    }

    fn over(processor: F::Processor, base: std::sync::Arc<BaseTable>) -> Self {
        Self {
            processor,
            workspace: Box::new(Workspace::new(base)),
            pending: Vec::with_capacity(CHUNK),
            keys: Vec::with_capacity(CHUNK),
            hashes: Vec::with_capacity(CHUNK),
        }
    }

    /// Recovers `jobs[i]` into `outcomes[i]`. Both have the same length.
    pub(crate) fn recover_batch(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        let length = equal_part(jobs.len(), CHUNK).next_multiple_of(LANES);
        for (jobs, outcomes) in jobs.chunks(length).zip(outcomes.chunks_mut(length)) {
            self.recover_chunk(jobs, outcomes);
        }
    }

    fn recover_chunk(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        self.admit(jobs, outcomes);
        if self.pending.len() < F::MIN_BATCH {
            return self.one_by_one(jobs, outcomes);
        }
        let processor = self.processor;
        F::decompress(processor, &mut self.workspace);
        self.pack(jobs, outcomes);
        if self.pending.len() < F::MIN_BATCH {
            return self.one_by_one(jobs, outcomes);
        }
        let ws = &mut *self.workspace;
        ws.zeros.fill(0);
        F::scalars(processor, ws);
        F::tables(processor, ws);
        let length = equal_part(ws.used, BLOCK);
        for first in (0..ws.used).step_by(length) {
            ws.block = first..ws.used.min(first + length);
            F::pairs(processor, ws);
            F::base(processor, ws);
            F::ladder(processor, ws);
        }
        F::finish(processor, ws);
        self.deliver(jobs, outcomes);
    }

    fn one_by_one(&self, jobs: &[Job], outcomes: &mut [Outcome]) {
        for &i in &self.pending {
            outcomes[usize::from(i)] = scalar::recover(&jobs[usize::from(i)]);
        }
    }

    /// Rejects jobs that are out of range, and passes the x of the others to decompression.
    fn admit(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        self.pending.clear();
        for (i, (job, outcome)) in jobs.iter().zip(outcomes).enumerate() {
            match abscissa(job) {
                Ok(x) => {
                    let (group, lane) = group_and_lane(self.pending.len());
                    let exchange = &mut self.workspace.exchange[group];
                    exchange.x.set(lane, &x);
                    let bit = 1 << lane;
                    exchange.odd = if job.recovery_id & 1 == 1 {
                        exchange.odd | bit
                    } else {
                        exchange.odd & !bit
                    };
                    self.pending.push(i as u16);
                }
                Err(reason) => *outcome = Err(reason),
            }
        }
        self.workspace.used = self.pending.len().div_ceil(LANES);
    }

    /// Compacts the chunk after decompression: rejects the x that are not on the curve, and passes
    /// the numbers of the other jobs to the next stages. Unused lanes repeat the last job.
    fn pack(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        let ws = &mut *self.workspace;
        let mut kept = 0;
        for from in 0..self.pending.len() {
            let i = self.pending[from];
            let (group, lane) = group_and_lane(from);
            let source = &ws.exchange[group];
            if source.on_curve >> lane & 1 == 0 {
                outcomes[usize::from(i)] = Err(Reason::NoPublicKey);
                continue;
            }
            let (x, y) = (source.x.get(lane), source.y.get(lane));
            self.pending[kept] = i;
            fill(ws, kept, &x, &y, &jobs[usize::from(i)]);
            kept += 1;
        }
        self.pending.truncate(kept);
        ws.used = kept.div_ceil(LANES);
        if let Some(&last) = self.pending.last() {
            let (group, lane) = group_and_lane(kept - 1);
            let (x, y) = (ws.exchange[group].x.get(lane), ws.exchange[group].y.get(lane));
            for lane in kept..ws.used * LANES {
                fill(ws, lane, &x, &y, &jobs[usize::from(last)]);
            }
        }
    }

    fn deliver(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        self.keys.clear();
        for position in 0..self.pending.len() {
            let (group, lane) = group_and_lane(position);
            let exchange = &self.workspace.exchange[group];
            let mut key = [0; 64];
            key[..32].copy_from_slice(&limbs::to_be_bytes(&exchange.x.get(lane)));
            key[32..].copy_from_slice(&limbs::to_be_bytes(&exchange.y.get(lane)));
            self.keys.push(key);
        }
        self.hashes.resize(self.keys.len(), [0; 32]);
        hash_all(F::backend(self.processor), self.keys.len(), |i| &self.keys[i], &mut self.hashes);
        for (position, (key, hash)) in self.keys.iter().zip(&self.hashes).enumerate() {
            let (group, lane) = group_and_lane(position);
            let exchange = &self.workspace.exchange[group];
            let i = usize::from(self.pending[position]);
            outcomes[i] = if exchange.redo >> lane & 1 == 1 {
                scalar::recover(&jobs[i])
            } else if exchange.infinite >> lane & 1 == 1 {
                Err(Reason::NoPublicKey)
            } else {
                let mut address = [0; 20];
                address.copy_from_slice(&hash[12..]);
                Ok(Key { public_key: *key, address })
            };
        }
    }
}

/// Splits `count` items into parts of nearly equal length, at most `limit`. Returns that length, which is at
/// least 1. A short last part would cost nearly as much as a full one.
const fn equal_part(count: usize, limit: usize) -> usize {
    let parts = count.div_ceil(limit);
    if parts == 0 { 1 } else { count.div_ceil(parts) }
}

/// Returns the group and the lane of a position.
const fn group_and_lane(position: usize) -> (usize, usize) {
    (position / LANES, position % LANES)
}

/// Writes one job into its lane.
fn fill<F: Field>(ws: &mut Workspace<F>, position: usize, x: &[u64; 4], y: &[u64; 4], job: &Job) {
    let (group, lane) = group_and_lane(position);
    let exchange = &mut ws.exchange[group];
    exchange.x.set(lane, x);
    exchange.y.set(lane, y);
    exchange.r.set(lane, &limbs::from_be_bytes(&job.r));
    exchange.s.set(lane, &limbs::from_be_bytes(&job.s));
    exchange.z.set(lane, &limbs::from_be_bytes(&job.digest));
}

/// Returns the x of R, if all numbers of the job are in range.
fn abscissa(job: &Job) -> Result<[u64; 4], Reason> {
    if job.recovery_id > 3 {
        return Err(Reason::RecoveryId);
    }
    let r = limbs::from_be_bytes(&job.r);
    let s = limbs::from_be_bytes(&job.s);
    let in_range = |x: &[u64; 4]| *x != [0; 4] && limbs::subtract(x, &ORDER_WORDS).1;
    if !in_range(&r) || !in_range(&s) {
        return Err(Reason::ScalarOutOfRange);
    }
    if job.recovery_id & 2 == 0 {
        return Ok(r);
    }
    if !limbs::subtract(&r, &P_MINUS_N).1 {
        return Err(Reason::NoPublicKey);
    }
    Ok(limbs::add(&r, &ORDER_WORDS))
}
