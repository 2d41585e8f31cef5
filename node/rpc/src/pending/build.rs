//! Builds a pending block, and computes its roots.

use super::{MAX_BUILD_TIME, MAX_PENDING, MAX_PUBLISH_WAIT, PendingBlock, PendingDetail};
use crate::queues::CallQueues;
use alloy_consensus::{Header, Transaction as _};
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{
    Address, B256, U256,
    map::{Entry, HashMap},
};
use chain::{
    ChainSpec, Fork, Parent,
    block::{Block, join},
};
use evm::{
    BlockBuilder, Executed, ExecutionCaches, ExecutionError, ExecutionHost, StateError,
    complete_header,
};
use feehistory::fee_row;
use pipeline::{NextBlock, NextBlockSettings, Tried, TryBounds, try_all};
use rpc_eth::{Context, method::QueueClass};
use rpc_types::error::Error;
use server::interrupt::Deadline;
use state::stored::StoredBlock;
use state::{Head, View};
use std::{
    cell::Cell,
    mem,
    sync::Arc,
    time::{Instant, SystemTime},
};
use storage::{StateChanges, StateRead, update_state_root};
use transactions::RecoveredTx;

/// Builds a pending block on the newest block.
pub(super) async fn build(
    context: &Arc<Context>,
    queues: &CallQueues,
) -> Result<PendingBlock, Error> {
    let started = Instant::now();
    let candidates = context.pool.candidates(MAX_PENDING).await?.unwrap_or_default();
    // The pool no longer contains the transactions of the last executed block, so the view must contain their effects.
    let mut heads = context.published.heads();
    let published = heads.wait_for(|head| *head >= candidates.after);
    // This times out only if the disk is slow or the node stops.
    let _ = tokio::time::timeout(MAX_PUBLISH_WAIT, published).await;
    let view = context.published.load();
    if view.number() < candidates.after {
        let message = format!(
            "block {} is not durable after {MAX_PUBLISH_WAIT:?}, so there is no pending block: try again",
            candidates.after
        );
        return Err(Error::server(message));
    }
    let context = Arc::clone(context);
    queues
        .run_shared(QueueClass::Short, move |interrupt| {
            let txs = match view.number() > candidates.after {
                true => not_mined(&view, candidates.txs)?,
                false => candidates.txs,
            };
            let limits =
                BuildLimits { gas: MAX_PENDING.gas, deadline: interrupt.within(MAX_BUILD_TIME) };
            build_on(&context, view, &txs, started, &limits)
        })
        .await
}

/// Removes the transactions whose nonces were used by a newer block.
fn not_mined(view: &View, txs: Vec<Arc<RecoveredTx>>) -> Result<Vec<Arc<RecoveredTx>>, Error> {
    let state = view.state.reader()?;
    let mut nonces: HashMap<Address, u64> = HashMap::default();
    for tx in &txs {
        if let Entry::Vacant(unknown) = nonces.entry(tx.sender) {
            unknown.insert(state.account(tx.sender)?.unwrap_or_default().nonce);
        }
    }
    Ok(txs.into_iter().filter(|tx| tx.tx.nonce() >= nonces[&tx.sender]).collect())
}

/// The limits of executing a pending block, in addition to the gas limit of the block.
#[derive(Debug)]
struct BuildLimits {
    gas: u64,
    deadline: Deadline,
}

/// The host of the execution: it returns block hashes, and ends the execution of transactions at the deadline.
struct BuildHost<'a> {
    view: &'a View,
    deadline: &'a Deadline,
    /// Set after the last transaction, because the end of the block must not be interrupted.
    ending: Cell<bool>,
    caches: Option<&'a ExecutionCaches>,
}

impl ExecutionHost for BuildHost<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        self.view.blocks().and_then(|blocks| blocks.hash(number)).map_err(StateError::new)
    }

    fn is_cancellable(&self) -> bool {
        true
    }

    fn is_cancelled(&self) -> bool {
        !self.ending.get() && self.deadline.passed()
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        self.caches
    }
}

fn failed(error: ExecutionError) -> Error {
    Error::internal(error)
}

/// Builds a pending block on the head of a view, in the same way as the execute stage.
fn build_on(
    context: &Context,
    view: Arc<View>,
    txs: &[Arc<RecoveredTx>],
    started: Instant,
    limits: &BuildLimits,
) -> Result<PendingBlock, Error> {
    let spec = &context.spec;
    let next = next_block(spec, &view.head, &context.pool.next_block_settings());
    let (txs, mut executed) = execute(context, &view, &next, txs, limits)?;
    let (header, outcome) = next.end(spec, txs.iter().map(|tx| tx.sender), &mut executed);
    let modules = outcome.map(|outcome| outcome.modules);
    let market = modules.as_deref().map(|modules| &modules.market);
    let gas = executed.tx_gas.iter().copied();
    let row = fee_row(spec, &header, market, txs.iter().map(|tx| &tx.tx).zip(gas));
    let changes = mem::take(&mut executed.changes);
    let layer = view.state.next_layer(changes, txs.iter().map(|tx| tx.hash).collect());
    let state = view.state.with_pending(Arc::new(layer));
    let stored = stored(spec, &header, &txs, &executed);
    let (header, next_base_fee) = (Arc::new(header), row.next_base_fee);
    let head = Head { hash: B256::ZERO, header, next_base_fee, modules };
    Ok(PendingBlock {
        view: Arc::new(View { head, state, ..View::clone(&view) }),
        parent: view,
        stored,
        executed,
        fee_row: row.to_bytes().into(),
        detail: PendingDetail::State,
        started,
    })
}

/// Returns the block that would be produced now.
fn next_block(spec: &ChainSpec, head: &Head, settings: &NextBlockSettings) -> NextBlock {
    let step = spec.rules.timestamp_step();
    let timestamp = settings.clock.timestamp(SystemTime::now(), head.header.timestamp, step);
    // The total difficulty decides only whether the child of a proof-of-work block is the first block after the merge.
    // Adding up the difficulties would require reading all headers. This uses the difficulty of the head instead, so
    // the pending block on the last proof-of-work block follows the rules from before the merge.
    let merged = head.header.difficulty.is_zero();
    let total_difficulty = if merged { U256::MAX } else { head.header.difficulty };
    let parent = Parent { header: &head.header, hash: head.hash, total_difficulty };
    let mut next = NextBlock::after(spec, &parent, head.modules.as_deref(), timestamp);
    next.set_header(&settings.header);
    next
}

/// Executes transactions, and returns those that the block contains with the result of the block.
fn execute(
    context: &Context,
    view: &View,
    next: &NextBlock,
    txs: &[Arc<RecoveredTx>],
    limits: &BuildLimits,
) -> Result<(Vec<Arc<RecoveredTx>>, Executed), Error> {
    let (spec, caches) = (&context.spec, context.caches.as_deref());
    let state = view.state.reader()?;
    let carries_roots = spec.fork_of(&next.header) < Fork::Byzantium;
    let trie = carries_roots.then(|| view.trie_at(view.number())).transpose()?;
    let state_root = |changes: &StateChanges| match &trie {
        Some(trie) => update_state_root(trie, changes, view.head.header.state_root)
            .map(|(root, _)| root)
            .map_err(StateError::new),
        None => Ok(B256::ZERO),
    };
    let ending = Cell::new(false);
    let host = BuildHost { view, deadline: &limits.deadline, ending, caches };
    let is_over = || host.is_cancelled();
    let bounds = TryBounds { gas: limits.gas, is_over: &is_over, state_root: &state_root };
    let modules = next.modules();
    let mut builder =
        BlockBuilder::start(spec, &state, &host, modules, &next.header).map_err(failed)?;
    let Tried { txs, .. } = try_all(&mut builder, txs, &bounds).map_err(failed)?;
    host.ending.set(true);
    Ok((txs, builder.finish(&[], None).map_err(failed)?))
}

fn stored(
    spec: &ChainSpec,
    header: &Header,
    txs: &[Arc<RecoveredTx>],
    executed: &Executed,
) -> StoredBlock {
    let block = Block {
        transactions: txs.iter().map(|tx| tx.raw.clone()).collect(),
        withdrawals: header.withdrawals_root.map(|_| Withdrawals::default()),
        header: header.clone(),
        ..Block::default()
    };
    StoredBlock::new(spec, block, executed.senders.clone())
}

/// Returns the block with its roots and its hash.
pub(super) async fn add_roots(
    pending: Arc<PendingBlock>,
    queues: &CallQueues,
) -> Result<PendingBlock, Error> {
    queues.run_shared(QueueClass::Long, move |_| with_roots(&pending)).await
}

fn with_roots(pending: &PendingBlock) -> Result<PendingBlock, Error> {
    let PendingBlock { view, parent, stored, executed, fee_row, started, .. } = pending;
    let trie = parent.trie_at(parent.number())?;
    let layer = view.state.layers().last();
    let layer = layer.ok_or_else(|| Error::internal("a pending block has no layer"))?;
    let (root, _) = update_state_root(&trie, layer.changes(), parent.head.header.state_root)
        .map_err(Error::internal)?;
    let mut stored = stored.clone();
    let mut header = stored.block.header.clone();
    complete_header(&mut header, executed, root, &stored.block.body());
    stored.block.hash = header.hash_slow();
    stored.block.rlp_bytes = join(&alloy_rlp::encode(&header), &stored.block.encode_body()).len();
    stored.block.header = header.clone();
    let head = Head { hash: stored.block.hash, header: Arc::new(header), ..view.head.clone() };
    Ok(PendingBlock {
        view: Arc::new(View { head, ..View::clone(view) }),
        parent: Arc::clone(parent),
        stored,
        executed: executed.clone(),
        fee_row: fee_row.clone(),
        detail: PendingDetail::Roots,
        started: *started,
    })
}
