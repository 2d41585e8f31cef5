//! Recover: recovers the senders of transactions. It has no state between batches, so any number of workers
//! run it in parallel.
//!
//! Input: batches of raw transactions, and imported blocks.
//! Output: the same batches and blocks, decoded, with each transaction's hash and sender, or the reason why it was
//! refused.
//! State: a recovery workspace with scratch space.
//! Limits: one batch or block at a time.
//! Back-pressure: stops taking batches if the ring for batches is full, and blocks if the ring for blocks is. One
//! finished batch and one finished block wait in each worker's outboxes.

use super::{
    ante::KnownTransactions,
    batch::{CheckBatch, ImportedBlock, RawBatch, RawTx, Recovered, RecoveredBlock},
    branch::RecoveredTxs,
    fault::Fault,
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use alloy_primitives::Bytes;
use chain::block::Block;
use mempool::Reject;
use std::sync::Arc;
use transactions::{DecodeError, RecoverError, Senders};

/// The stage; see the module documentation.
#[derive(Debug)]
pub(super) struct Recover {
    raw: Inbox<RawBatch>,
    blocks: Inbox<ImportedBlock>,
    checks: Option<Outbox<CheckBatch>>,
    recovered: Option<Outbox<RecoveredBlock>>,
    senders: Senders,
    meter: Arc<Meter>,
}

/// The ring ends of the stage, shared by its workers.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    pub(super) raw: Inbox<RawBatch>,
    pub(super) blocks: Inbox<ImportedBlock>,
    pub(super) checks: Outbox<CheckBatch>,
    pub(super) recovered: Outbox<RecoveredBlock>,
}

impl Recover {
    pub(super) fn new(senders: Senders, ports: Ports, meter: Arc<Meter>) -> Self {
        let Ports { raw, blocks, checks, recovered } = ports;
        Self { raw, blocks, checks: Some(checks), recovered: Some(recovered), senders, meter }
    }

    fn recover_raw(&mut self, RawBatch { seq, txs }: RawBatch) -> CheckBatch {
        CheckBatch { seq, txs: recover_txs(&mut self.senders, txs, &self.meter) }
    }

    fn recover_block(&mut self, ImportedBlock { seq, block }: ImportedBlock) -> RecoveredBlock {
        self.meter.count_received(block.transactions.len());
        let txs = recover_body(&mut self.senders, &block);
        self.meter.count_sent(block.transactions.len());
        RecoveredBlock { seq, block, txs, received: None }
    }
}

/// Decodes the transactions of a block and recovers their senders.
pub fn recover_body(senders: &mut Senders, block: &Block) -> RecoveredTxs {
    let found = senders.recover(&block.transactions).enumerate();
    found.map(|(index, tx)| tx.map_err(|reason| (index, reason.to_string()))).collect()
}

/// Does the same as [`recover_body`], but only for the transactions that are `None` in `known`, which has one entry per
/// transaction of the block.
pub(super) fn recover_unknown(
    senders: &mut Senders,
    block: &Block,
    known: KnownTransactions,
) -> RecoveredTxs {
    let unknown = || known.iter().enumerate().filter(|(_, known)| known.is_none());
    let raw: Vec<_> = unknown().map(|(at, _)| block.transactions[at].clone()).collect();
    let mut recovered = Vec::with_capacity(raw.len());
    for ((at, _), tx) in unknown().zip(senders.recover(&raw)) {
        recovered.push(tx.map_err(|reason| (at, reason.to_string()))?);
    }
    let mut recovered = recovered.into_iter();
    let all = known.into_iter();
    let all =
        all.map(|known| known.or_else(|| recovered.next()).expect("the others are recovered"));
    Ok(all.collect())
}

/// Decodes raw transactions and recovers their senders, in order. Transactions refused earlier keep their reason.
///
/// The bytes of each transaction are copied, because the pool outlives the read buffer. The copy is made here
/// because this stage runs on several cores and the pool on only one.
pub(super) fn recover_txs(senders: &mut Senders, txs: Vec<RawTx>, meter: &Meter) -> Vec<Recovered> {
    meter.count_received(txs.len());
    let bytes = txs.iter().filter_map(|tx| tx.bytes.as_ref().ok());
    let raw: Vec<_> = bytes.map(|bytes| Bytes::copy_from_slice(bytes)).collect();
    let mut found = senders.recover(&raw);
    let mut sent = 0;
    let recover = |tx: RawTx| {
        let recovered = tx.bytes.and_then(|_| {
            let recovered = found.next().expect("there is one result per transaction");
            recovered.map_err(|error| {
                Box::new(match error {
                    RecoverError::Decode(DecodeError::Cosmos(refusal))
                    | RecoverError::Cosmos(refusal) => Reject::Cosmos(*refusal),
                    RecoverError::Decode(DecodeError::UnknownType(_)) => Reject::TypeNotSupported,
                    RecoverError::Decode(error) => Reject::Malformed(error.to_string()),
                    RecoverError::Signature(_) => Reject::InvalidSender,
                })
            })
        });
        match &recovered {
            Ok(_) => sent += 1,
            Err(reject) => meter.reject(reject.label()),
        }
        (recovered, tx.reply)
    };
    let recovered: Vec<_> = txs.into_iter().map(recover).collect();
    drop(found);
    // Recover authorizations here rather than in ante, which runs on one thread.
    let valid = recovered.iter().filter_map(|(tx, _)| tx.as_ref().ok());
    senders.recover_authorities(valid.map(|tx| &**tx));
    meter.count_sent(sent);
    recovered
}

impl Stage for Recover {
    fn name(&self) -> &'static str {
        "recover"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let mut worked = false;
        let mut blocked = false;
        if let Some(mut out) = self.checks.take() {
            if !out.ready() {
                blocked = true;
                self.checks = Some(out);
            } else if let Some(batch) = self.raw.take() {
                worked = true;
                out.send(self.recover_raw(batch));
                self.checks = Some(out);
            } else if !self.raw.is_finished() {
                self.checks = Some(out);
            }
        }
        if let Some(mut out) = self.recovered.take() {
            if !out.ready() {
                blocked = true;
                self.recovered = Some(out);
            } else if let Some(block) = self.blocks.take() {
                worked = true;
                out.send(self.recover_block(block));
                self.recovered = Some(out);
            } else if !self.blocks.is_finished() {
                self.recovered = Some(out);
            }
        }
        Ok(match (worked, blocked) {
            (true, _) => Progress::Worked,
            (false, true) => Progress::Blocked,
            _ if self.checks.is_none() && self.recovered.is_none() => Progress::Finished,
            _ => Progress::Idle,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{batch::Reply, fault::FaultCell, reorder::Reorder, ring::ring, stage::Worker};
    use alloy_primitives::{Address, address, bytes};
    use transactions::RecoveredTx;
    use verify::{Backend, Recoverer};

    /// Recovers raw transactions with `workers` workers; returns the senders in order.
    fn recover_all(raw: &[Bytes], workers: usize) -> Vec<Result<Address, Reject>> {
        let workers: Vec<_> = (0..workers).map(|n| Worker::new(format!("recover-{n}"))).collect();
        let wakers: Vec<_> = workers.iter().map(Worker::waker).collect();
        let (mut out, raw_in) = ring("raw", 4, &[], &wakers);
        let (blocks, blocks_in) = ring("blocks", 1, &[], &wakers);
        let (checks, checks_in) = ring("checks", raw.len() / 256 + 1, &wakers, &[]);
        let (recovered, _recovered_in) = ring("recovered", 1, &wakers, &[]);
        drop(blocks);
        let ports = Ports { raw: raw_in, blocks: blocks_in, checks, recovered };
        let meter = Arc::new(Meter::new("recover"));
        let faults = FaultCell::new(Arc::default());
        let mut threads = Vec::new();
        for worker in workers {
            let senders = Senders::new(Recoverer::new(Backend::detect().unwrap()));
            let stage = Recover::new(senders, ports.clone(), Arc::clone(&meter));
            threads.push(worker.runs(stage).spawn(faults.clone()).unwrap());
        }
        drop(ports);
        for (seq, raw) in (0..).zip(raw.chunks(256)) {
            let tx = |bytes: &Bytes| RawTx { bytes: Ok(bytes.clone()), reply: Reply::Silent };
            while !out.ready() {
                std::thread::yield_now();
            }
            out.send(RawBatch { seq, txs: raw.iter().map(tx).collect() });
        }
        while !out.ready() {
            std::thread::yield_now();
        }
        drop(out);
        for thread in threads {
            thread.join().unwrap();
        }
        let mut reorder = Reorder::new();
        while let Some(batch) = checks_in.take() {
            reorder.put(batch.seq, batch);
        }
        let batches = std::iter::from_fn(|| reorder.take());
        let senders = batches.flat_map(|b| b.txs).map(|(tx, _)| tx.map(|tx| tx.sender));
        senders.map(|sender| sender.map_err(|reject| *reject)).collect()
    }

    /// Returns the example of EIP-155, signed with the key 0x46 repeated.
    fn example() -> Bytes {
        bytes!(
            "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a7640000"
            "8025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
            "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
        )
    }

    /// The test also checks that an error contains the position of the transaction in the block.
    #[test]
    fn senders_of_known_transactions_are_not_recovered() {
        let mut senders = Senders::new(Recoverer::new(Backend::detect().unwrap()));
        let block = |transactions: Vec<Bytes>| Block { transactions, ..Block::default() };
        let two = block(vec![example(); 2]);
        let recovered = recover_body(&mut senders, &two).unwrap();
        let marked =
            RecoveredTx { sender: Address::repeat_byte(7), ..RecoveredTx::clone(&recovered[0]) };
        let known = vec![Some(Arc::new(marked)), None];
        let txs = recover_unknown(&mut senders, &two, known.clone()).unwrap();
        assert_eq!(txs[0].sender, Address::repeat_byte(7));
        assert_eq!(txs[1].sender, recovered[1].sender);
        let bad = block(vec![example(), Bytes::from_static(b"\x02")]);
        assert_eq!(recover_unknown(&mut senders, &bad, known).unwrap_err().0, 1);
        assert!(recover_unknown(&mut senders, &block(Vec::new()), Vec::new()).unwrap().is_empty());
    }

    #[test]
    fn undecodable_transaction_keeps_its_position() {
        let signer = address!("9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F");
        let raw = vec![Bytes::from_static(b"\x02"), example(), Bytes::new()];
        let senders = recover_all(&raw, 2);
        assert!(matches!(senders[0], Err(Reject::Malformed(_))));
        assert_eq!(senders[1], Ok(signer));
        assert!(matches!(senders[2], Err(Reject::Malformed(_))));
    }

    #[test]
    #[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
    fn mainnet_transactions_have_their_known_senders() {
        let fixtures = std::env::var_os("EVMD_FIXTURES").expect("EVMD_FIXTURES is set");
        let folder = std::path::Path::new(&fixtures).join("mainnet-blocks-A");
        let (mut raw, mut known) = (Vec::new(), Vec::new());
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read_to_string(file).unwrap();
            let block: serde_json::Value = serde_json::from_str(&text).unwrap();
            for tx in block["txs"].as_array().unwrap() {
                raw.push(tx["raw"].as_str().unwrap().parse::<Bytes>().unwrap());
                known.push(Ok(tx["from"].as_str().unwrap().parse::<Address>().unwrap()));
            }
        }
        assert!(!raw.is_empty());
        assert_eq!(recover_all(&raw, 2), known);
    }
}
