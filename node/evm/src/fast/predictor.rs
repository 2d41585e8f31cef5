//! Predicts the slots that the transactions of a block will access, from the patterns of the called functions.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, Selector, U256, map::DefaultHashBuilder};

use crate::caches::{AccessPattern, CalldataWords, ExecutionCaches, Function, Pair};

/// Minimum number of calls of a function in a block for which its slots are predicted.
const MIN_CALLS: usize = 8;
/// Maximum number of functions whose patterns one block extends, which takes half a millisecond.
const MAX_LEARNED: usize = 8;

/// For each contract position and selector, the indices of the transactions in the block that call the function.
type Calls = HashMap<(u32, Selector), Vec<u32>, DefaultHashBuilder>;

/// The predictions for one block.
#[derive(Debug, Default)]
pub(super) struct AccessPredictor {
    /// Functions whose patterns this block may extend.
    open: Vec<Function>,
    /// Patterns on which the predictions are based.
    patterns: Vec<Arc<AccessPattern>>,
    /// Predictions by index of the transaction; empty if there are none.
    by_tx: Vec<TxPrediction>,
    /// Positions of the predicted slots in their contracts, call by call.
    positions: Vec<u32>,
}

/// The prediction for one transaction.
#[derive(Clone, Copy, Debug, Default)]
struct TxPrediction {
    /// Index of the first predicted slot in the list of positions.
    start: u32,
    /// Number of predicted slots.
    slots: u32,
    /// Index of the pattern.
    pattern: u32,
}

/// The predicted slots of one contract in a block.
#[derive(Debug, Default)]
pub(super) struct PredictedSlots {
    /// Address and position of the contract.
    pub(super) contract: (Address, u32),
    /// The slots, call by call.
    pub(super) slots: Vec<U256>,
    /// The calls: index of the transaction, number of its slots, and index of the pattern.
    calls: Vec<(u32, u32, u32)>,
}

impl AccessPredictor {
    /// Predicts the slots that these transactions will access; `call` returns the position and address of the
    /// contract that a transaction calls, and the words of the call.
    pub(super) fn predict<'a>(
        &mut self,
        caches: &ExecutionCaches,
        txs: &[u32],
        call: impl Fn(u32) -> (u32, Address, CalldataWords<'a>),
    ) -> Vec<PredictedSlots> {
        let mut calls = Calls::default();
        for at in txs {
            let (position, _, words) = call(*at);
            if let Some(selector) = words.selector() {
                calls.entry((position, selector)).or_default().push(*at);
            }
        }
        calls.retain(|_, calls| calls.len() >= MIN_CALLS);
        let mut predicted: HashMap<u32, PredictedSlots, DefaultHashBuilder> = HashMap::default();
        for ((position, selector), calls) in calls {
            let address = call(calls[0]).1;
            let pattern = caches.patterns.get(&(address, selector)).unwrap_or_default();
            if pattern.is_open() && self.open.len() < MAX_LEARNED {
                self.open.push((address, selector));
            }
            if pattern.len() == 0 {
                continue;
            }
            let of_contract = predicted.entry(position).or_default();
            of_contract.contract = (address, position);
            let words: Vec<_> = calls.iter().map(|at| call(*at).2).collect();
            pattern.slots(&words, &mut of_contract.slots);
            let (slots, number) = (pattern.len() as u32, self.patterns.len() as u32);
            of_contract.calls.extend(calls.iter().map(|at| (*at, slots, number)));
            self.patterns.push(pattern);
        }
        predicted.into_values().collect()
    }

    /// Stores the positions at which the predicted slots of a contract were preloaded.
    pub(super) fn record(&mut self, count: usize, predicted: &PredictedSlots, positions: &[u32]) {
        self.by_tx.resize(count, TxPrediction::default());
        let mut start = self.positions.len() as u32;
        self.positions.extend_from_slice(positions);
        for (at, slots, pattern) in &predicted.calls {
            self.by_tx[*at as usize] = TxPrediction { start, slots: *slots, pattern: *pattern };
            start += slots;
        }
    }

    /// Returns the positions of the predicted slots in the contract that the transaction at index `at` calls.
    #[inline]
    pub(super) fn positions(&self, at: usize) -> &[u32] {
        let by_tx = self.by_tx.get(at).copied().unwrap_or_default();
        &self.positions[by_tx.start as usize..][..by_tx.slots as usize]
    }

    /// Returns the predicted slots whose preimages are known from the call alone: position of the slot, and preimage.
    pub(super) fn preimages(
        &self,
        at: usize,
        call: CalldataWords<'_>,
    ) -> impl Iterator<Item = (u32, Pair)> {
        let pattern =
            self.by_tx.get(at).and_then(|by_tx| self.patterns.get(by_tx.pattern as usize));
        let preimages = pattern.map(|pattern| pattern.preimages(call)).into_iter().flatten();
        let positions = self.positions(at);
        preimages.filter_map(|(slot, preimage)| Some((*positions.get(slot)?, preimage)))
    }

    /// Extends the pattern of a function with the slots that a call read without a prediction. A block extends each
    /// pattern at most once.
    pub(super) fn learn(
        &mut self,
        caches: &ExecutionCaches,
        contract: Address,
        call: CalldataWords<'_>,
        read: &[(Address, U256)],
    ) {
        let Some(selector) = call.selector() else { return };
        let Some(at) = self.open.iter().position(|function| *function == (contract, selector))
        else {
            return;
        };
        let read = read.iter().filter(|(address, _)| *address == contract);
        let read: Vec<U256> = read.map(|(_, slot)| *slot).collect();
        if read.is_empty() {
            return;
        }
        let function = self.open.swap_remove(at);
        let mut pattern = caches
            .patterns
            .get(&function)
            .map_or_else(AccessPattern::default, |pattern| (*pattern).clone());
        pattern.learn(call, &read);
        caches.patterns.insert(function, Arc::new(pattern));
    }
}
