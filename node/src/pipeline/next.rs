//! The next block of a chain: its header before execution, the transactions tried for it, and what its
//! execution adds. Execute makes blocks of this, and the RPC its pending block.

use super::turn::{Turn, Turned};
use crate::{
    chain::{Attributes, ChainSpec, Parent, next_header},
    decorator::Reject,
    execution::{
        BlockBuilder, Executed, ExecutionError, RecoveredTx, StateError, StateRoot, TxError,
    },
    modules::Modules,
};
use alloy_consensus::{Header, Transaction as _};
use alloy_primitives::{Address, B256, Bytes, keccak256, map::HashSet};
use std::{error::Error, sync::Arc};
use storage::{StateChanges, StateRead};

/// A block before its execution.
#[derive(Debug)]
pub(crate) struct NextBlock {
    /// The header, without what execution gives.
    pub(crate) header: Header,
    turn: Option<Turn>,
}

impl NextBlock {
    /// The block after `parent`, which left these modules behind if the chain is a native one.
    pub(crate) fn after(
        spec: &ChainSpec,
        parent: &Parent<'_>,
        modules: Option<&Modules>,
        timestamp: u64,
    ) -> Self {
        let attributes = Attributes {
            timestamp,
            beneficiary: parent.header.beneficiary,
            gas_limit: parent.header.gas_limit,
            // Not random on a chain of one maker, but another in each block.
            prev_randao: keccak256(parent.header.mix_hash),
            extra_data: Bytes::new(),
            // There is no beacon chain.
            parent_beacon_block_root: B256::ZERO,
        };
        let mut header = next_header(spec, parent, &attributes);
        let turn = Turn::of(spec, modules, header.number);
        if let Some(turn) = &turn {
            header.base_fee_per_gas = Some(turn.modules().market.base_fee_wei());
        }
        Self { header, turn }
    }

    /// The modules that its transactions meet; `None` on an Ethereum chain.
    pub(crate) fn modules(&self) -> Option<&Modules> {
        self.turn.as_ref().map(Turn::modules)
    }

    /// Ends the modules' turn, and adds to the header what they and the execution leave in it. Roots and bloom
    /// are missing still.
    pub(crate) fn end(self, spec: &ChainSpec, executed: &mut Executed) -> (Header, Option<Turned>) {
        let Self { mut header, turn } = self;
        let turned = spec.native().zip(turn).map(|(native, turn)| turn.end(native, executed));
        if let Some(turned) = &turned {
            header.extra_data = turned.record.root().0.into();
        }
        header.gas_used = executed.gas_used;
        header.blob_gas_used = header.blob_gas_used.map(|_| executed.blob_gas_used);
        (header, turned)
    }
}

/// What became of the transactions tried.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// Those in the block.
    pub(crate) txs: Vec<Arc<RecoveredTx>>,
    /// Those left out that cannot be in a later block, with the reason.
    pub(crate) skipped: Vec<(B256, String)>,
}

/// When to try no more transactions, apart from the rules of the block.
#[derive(Clone, Copy)]
pub(crate) struct TryBounds<'a> {
    /// Gas that the transactions may use together: the first that has a higher limit than what is left of it
    /// is not tried, and none after it.
    pub(crate) gas: u64,
    /// Whether the block is to end with what is in it.
    pub(crate) is_over: &'a dyn Fn() -> bool,
    /// The root in receipts before Byzantium.
    pub(crate) state_root: &'a StateRoot<'a>,
}

impl TryBounds<'_> {
    /// None, for blocks since Byzantium.
    pub(crate) const NONE: TryBounds<'static> =
        TryBounds { gas: u64::MAX, is_over: &|| false, state_root: &no_root };
}

/// The root of receipts that carry none.
fn no_root(_: &StateChanges) -> Result<B256, StateError> {
    Ok(B256::ZERO)
}

/// Tries transactions in order. One that is left out keeps the later ones of its sender out.
pub(crate) fn try_all<S>(
    builder: &mut BlockBuilder<'_, S>,
    candidates: &[Arc<RecoveredTx>],
    bounds: &TryBounds<'_>,
) -> Result<Tried, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut tried = Tried { txs: Vec::with_capacity(candidates.len()), skipped: Vec::new() };
    // Later nonces of a sender cannot follow a transaction that was left out; they stay pooled.
    let mut stalled: HashSet<Address> = HashSet::default();
    builder.expect(candidates)?;
    for (at, tx) in candidates.iter().enumerate() {
        if !stalled.is_empty() && stalled.contains(&tx.sender) {
            continue;
        }
        let gas_left = bounds.gas.saturating_sub(builder.gas_used());
        if tx.tx.gas_limit() > gas_left || (bounds.is_over)() {
            break;
        }
        builder.approach(candidates, at);
        let pushed = match builder.push(tx, bounds.state_root) {
            // It was given up, and the block is as before.
            Err(ExecutionError::Interpreter { .. }) if (bounds.is_over)() => break,
            pushed => pushed?,
        };
        match pushed {
            Ok(_) => tried.txs.push(Arc::clone(tx)),
            // Its turn may come in a later block.
            Err(TxError::BlockGas { .. } | TxError::Rejected(Reject::NonceTooHigh { .. })) => {
                stalled.insert(tx.sender);
            }
            Err(reason) => {
                stalled.insert(tx.sender);
                tried.skipped.push((tx.hash, reason.to_string()));
            }
        }
    }
    Ok(tried)
}
