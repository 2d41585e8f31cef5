//! Executes blocks faster on a host with caches, with the same result. On a host without caches, the plain executor in
//! `block` executes blocks without this module. Tests compare the results of both.
//!
//! Before the first transaction, the accounts and the predicted slots of all transactions are read together
//! ([`predictor`]). While a transaction is executed, the data of the following ones is prefetched. Plain transfers
//! are computed without the interpreter ([`transfer`]).

mod predictor;
mod transfer;

use std::{borrow::Borrow, error::Error};

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U256};
use storage::{StateRead, prefetch};
use transactions::RecoveredTx;

use super::{
    caches::{CalldataWords, ExecutionCaches},
    environment::Environment,
    error::StateError,
    machine::Machine,
    overlay::Overlay,
};
use predictor::AccessPredictor;

/// Number of transactions from the current one to the one whose memory is prefetched.
const PREFETCH_DISTANCE: usize = 8;

/// The fast paths of one block; see the module documentation.
#[derive(Debug)]
pub(super) struct FastPaths<'a> {
    caches: &'a ExecutionCaches,
    /// Positions of sender and recipient of each preloaded transaction.
    participants: Vec<[u32; 2]>,
    /// Predicts the slots that the preloaded transactions will access.
    predictor: AccessPredictor,
}

impl<'a> FastPaths<'a> {
    pub(super) fn new(caches: &'a ExecutionCaches) -> Self {
        Self { caches, participants: Vec::new(), predictor: AccessPredictor::default() }
    }

    /// Reads the senders, the recipients and the predicted slots of these transactions.
    pub(super) fn preload<S, I, T: Borrow<RecoveredTx>>(
        &mut self,
        machine: &mut Machine<'_, S, I>,
        txs: &[T],
    ) -> Result<(), StateError>
    where
        S: StateRead<Error: Error + Send + Sync + 'static>,
    {
        let mut participants = Vec::with_capacity(2 * txs.len());
        let mut calls = Vec::new();
        for (at, tx) in txs.iter().map(Borrow::borrow).enumerate() {
            prefetch_tx(txs, at + PREFETCH_DISTANCE);
            participants.extend(sender_and_recipient(tx));
            if tx.tx.to().is_some() && !tx.tx.input().is_empty() {
                prefetch(tx.tx.input().as_ref());
                calls.push(at as u32);
            }
        }
        let positions = machine.overlay_mut().preload(&participants)?;
        self.participants = positions.as_chunks().0.to_vec();
        self.preload_predicted_slots(machine, txs, &calls)
    }

    /// Reads the slots that these transactions, which are calls, will probably access.
    fn preload_predicted_slots<S, I, T: Borrow<RecoveredTx>>(
        &mut self,
        machine: &mut Machine<'_, S, I>,
        txs: &[T],
        calls: &[u32],
    ) -> Result<(), StateError>
    where
        S: StateRead<Error: Error + Send + Sync + 'static>,
    {
        let call = |at: u32| {
            let tx: &RecoveredTx = txs[at as usize].borrow();
            let [_, position] = self.participants[at as usize];
            (position, tx.tx.to().unwrap_or_default(), calldata_words(tx))
        };
        for predicted in self.predictor.predict(self.caches, calls, call) {
            machine.use_known_hashes();
            let (address, position) = predicted.contract;
            let positions =
                machine.overlay_mut().preload_slots(address, position, &predicted.slots)?;
            self.predictor.record(txs.len(), &predicted, &positions);
        }
        Ok(())
    }

    /// Prepares for the preloaded transaction at index `at`, and prefetches the data of following ones.
    pub(super) fn prepare_tx<S, T: Borrow<RecoveredTx>>(
        &self,
        overlay: &mut Overlay<'_, S>,
        txs: &[T],
        at: usize,
    ) where
        S: StateRead<Error: Error + Send + Sync + 'static>,
    {
        self.prefetch_following(overlay, txs, at);
        let Some([sender, recipient]) = self.participants.get(at) else { return };
        let tx = txs[at].borrow();
        let [from, to] = sender_and_recipient(tx);
        overlay.touched_accounts().prepare_tx([(from, *sender), (to, *recipient)]);
        let (hints, slots) = overlay.prepare_tx_slots(*recipient, self.predictor.positions(at));
        if let Some(slots) = slots {
            let preimages = self.predictor.preimages(at, calldata_words(tx));
            hints.add_hashes(
                preimages.filter_map(|(slot, preimage)| Some((preimage, slots.key_at(slot)?))),
            );
        }
    }

    fn prefetch_following<S, T: Borrow<RecoveredTx>>(
        &self,
        overlay: &mut Overlay<'_, S>,
        txs: &[T],
        at: usize,
    ) where
        S: StateRead<Error: Error + Send + Sync + 'static>,
    {
        let following = at + PREFETCH_DISTANCE;
        if let Some(participants) = self.participants.get(following) {
            prefetch_tx(txs, following);
            let accounts = overlay.touched_accounts();
            participants.iter().for_each(|position| accounts.prefetch(*position));
            let predicted = self.predictor.positions(following);
            if !predicted.is_empty()
                && let Some(slots) = accounts.at(participants[1]).touched_slots_mut()
            {
                predicted.iter().for_each(|position| slots.prefetch(*position));
            }
        }
        if let Some(tx) = txs.get(at + PREFETCH_DISTANCE / 2) {
            prefetch(tx.borrow().tx.input().as_ref());
        }
    }

    /// Executes a plain transfer and returns its gas; `None` if the interpreter must execute the transaction.
    pub(super) fn transfer<S>(
        overlay: &mut Overlay<'_, S>,
        environment: &Environment,
        tx: &RecoveredTx,
    ) -> Result<Option<u64>, StateError>
    where
        S: StateRead<Error: Error + Send + Sync + 'static>,
    {
        transfer::transfer(overlay, environment, tx)
    }

    /// Extends the access pattern of the called function if the call read slots that were not predicted.
    pub(super) fn learn(&mut self, read: &[(Address, U256)], tx: &RecoveredTx) {
        if let Some(contract) = tx.tx.to().filter(|_| !read.is_empty()) {
            self.predictor.learn(self.caches, contract, calldata_words(tx), read);
        }
    }
}

/// Returns the sender and the recipient. For a creation, which has no recipient, returns the sender twice.
fn sender_and_recipient(tx: &RecoveredTx) -> [Address; 2] {
    [tx.sender, tx.tx.to().unwrap_or(tx.sender)]
}

/// Returns the words of a transaction's call, for access prediction.
fn calldata_words(tx: &RecoveredTx) -> CalldataWords<'_> {
    CalldataWords { sender: tx.sender, input: tx.tx.input() }
}

/// Prefetches the transaction at index `at`, if there is one.
fn prefetch_tx<T: Borrow<RecoveredTx>>(txs: &[T], at: usize) {
    if let Some(tx) = txs.get(at) {
        prefetch(tx.borrow());
    }
}
