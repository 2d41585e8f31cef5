//! `debug_intermediateRoots`: the state root after each transaction of a block.

use super::{
    Options, block_number,
    rerun::{Rerun, no_root},
};
use crate::replay::Replay;
use alloy_primitives::B256;
use evm::changes_since;
use rpc_eth::{
    eth::CallHost,
    method::{Answer, Call, json},
};
use rpc_types::{block_id::BlockId, error::Error};
use state::stored::MinedTx;
use storage::StateChanges;

pub(super) fn intermediate_roots(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    // The options are checked, but none of them affects the result.
    let Options(_) = arguments.optional()?.unwrap_or_default();
    let number = block_number(call, BlockId::Hash(hash))?;
    if number == 0 {
        return Err(Error::server("genesis is not traceable"));
    }
    let (replay, rerun) = (Replay::new(call), Rerun::new(call, number)?);
    let deadline = call.interrupt.within(call.services.limits.trace_timeout);
    let host = CallHost::new(call, &deadline);
    let (state, mut trie) = (rerun.state()?, rerun.trie()?);
    let mut block = rerun.begin(&state, &host).map_err(Error::internal)?;
    let mut before = StateChanges::default();
    let mut roots = Vec::new();
    for tx in rerun.stored.txs().map(|tx| tx.map(MinedTx::recovered)) {
        replay.in_time()?;
        let pushed = block.push(&tx?, &no_root);
        replay.in_time()?;
        pushed.map_err(Error::internal)?.map_err(Error::internal)?;
        let after = block.changes_so_far();
        let step = changes_since(&state, &before, &after).map_err(Error::internal)?;
        roots.push(trie.update(&step).map_err(Error::internal)?);
        before = after;
    }
    json(&roots)
}
