//! What the methods of all connections share beside the chain: which namespaces are served, and
//! the fee history of recent blocks with the answers everybody asks for.

use super::error::Error;
use crate::{
    config::JsonRpc,
    feehistory::{FeeColumns, FeeEntry, RECENT_BLOCKS, RowReader},
    view::View,
};
use alloy_primitives::map::HashMap;
use serde_json::value::RawValue;
use std::sync::{Mutex, PoisonError};

/// Answers kept for the newest block: the forms of the question that wallets and libraries have.
const READY_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Services {
    /// Namespaces served.
    pub(super) api: Vec<String>,
    /// Fee history.
    pub(super) fees: Fees,
}

impl Services {
    /// As the settings say.
    pub(super) fn new(config: &JsonRpc) -> Self {
        Self { api: config.api.clone(), fees: Fees::default() }
    }
}

/// What was asked of the fee history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FeeKey {
    newest: u64,
    count: u64,
    /// Bits of the percentiles.
    percentiles: Vec<u64>,
}

impl FeeKey {
    pub(super) fn new(newest: u64, count: u64, percentiles: &[f64]) -> Self {
        let percentiles = percentiles.iter().map(|percentile| percentile.to_bits()).collect();
        Self { newest, count, percentiles }
    }
}

/// The fee history of recent blocks, and answers about the newest.
#[derive(Debug, Default)]
pub(super) struct Fees {
    pub(super) columns: FeeColumns,
    /// One thread at a time fills the columns; the others read what there is.
    filling: Mutex<()>,
    ready: Mutex<HashMap<FeeKey, Box<RawValue>>>,
}

impl Fees {
    /// Brings the columns up to the head of a view, unless another thread is about it.
    pub(super) fn follow(&self, view: &View) -> Result<(), Error> {
        let head = view.number();
        if self.columns.next().is_some_and(|next| next > head) {
            return Ok(());
        }
        let Ok(_filling) = self.filling.try_lock() else { return Ok(()) };
        let first = head.saturating_sub(RECENT_BLOCKS as u64 - 1);
        let first = self.columns.next().map_or(first, |next| next.max(first));
        view.blocks()?.each_fee_row(first..=head, |number, bytes| {
            let row = RowReader::new(bytes).map_err(Error::internal)?;
            self.columns.push(number, FeeEntry::new(&row));
            Ok(())
        })
    }

    /// The answer to a question asked before about the same block.
    pub(super) fn ready(&self, key: &FeeKey) -> Option<Box<RawValue>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Keeps an answer. Those about older blocks make room.
    pub(super) fn keep(&self, key: FeeKey, answer: &RawValue) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= READY_MAX {
            ready.retain(|other, _| other.newest == key.newest);
        }
        if ready.len() < READY_MAX {
            ready.insert(key, answer.to_owned());
        }
    }
}
