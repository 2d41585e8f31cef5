//! The next block of a chain: its header before execution, the execution of candidates, and the fields that execution
//! adds to the header. The execute stage uses this to produce blocks, and JSON-RPC to build the pending block.

use super::development::HeaderSettings;
use super::modules_block::{ModulesBlock, ModulesOutcome};
use alloy_consensus::{Header, Transaction as _};
use alloy_primitives::{Address, B256, Bytes, map::HashSet};
use chain::{Attributes, ChainSpec, Parent, next_header, next_prev_randao};
use evm::{BlockBuilder, Executed, ExecutionError, StateError, StateRoot, TxError};
use modules::{Modules, decorator::Reject};
use std::{error::Error, sync::Arc};
use storage::{StateChanges, StateRead};
use transactions::RecoveredTx;

/// A block before its execution.
#[derive(Debug)]
pub struct NextBlock {
    /// The header, without the results of execution.
    pub header: Header,
    modules_block: Option<ModulesBlock>,
}

impl NextBlock {
    /// Creates the block after `parent`; `modules` are those of a native chain after `parent`.
    pub fn after(
        spec: &ChainSpec,
        parent: &Parent<'_>,
        modules: Option<&Modules>,
        timestamp: u64,
    ) -> Self {
        let attributes = Attributes {
            timestamp,
            beneficiary: parent.header.beneficiary,
            gas_limit: parent.header.gas_limit,
            prev_randao: next_prev_randao(parent.header),
            extra_data: Bytes::new(),
            // There is no beacon chain.
            parent_beacon_block_root: B256::ZERO,
        };
        let mut header = next_header(spec, parent, &attributes);
        let modules_block = ModulesBlock::of(spec, modules, header.number);
        if let Some(modules_block) = &modules_block {
            header.base_fee_per_gas = Some(modules_block.modules().market.base_fee_wei());
        }
        Self { header, modules_block }
    }

    /// Sets the header fields that clients of a development chain have chosen.
    pub fn set_header(&mut self, settings: &HeaderSettings) {
        if let Some(beneficiary) = settings.coinbase {
            self.header.beneficiary = beneficiary;
        }
        if let Some(value) = settings.prev_randao {
            self.header.mix_hash = value;
        }
        if let Some(wei) = settings.base_fee {
            self.header.base_fee_per_gas = Some(wei);
            if let Some(modules_block) = &mut self.modules_block {
                modules_block.set_base_fee(wei);
            }
        }
    }

    /// Returns the modules that the block's transactions use; `None` on an Ethereum chain.
    pub fn modules(&self) -> Option<&Modules> {
        self.modules_block.as_ref().map(ModulesBlock::modules)
    }

    /// Ends the block for the modules and completes the header, except for roots and bloom.
    pub fn end(
        self,
        spec: &ChainSpec,
        senders: impl Iterator<Item = Address>,
        executed: &mut Executed,
    ) -> (Header, Option<ModulesOutcome>) {
        let Self { mut header, modules_block } = self;
        let modules_outcome = spec
            .native()
            .zip(modules_block)
            .map(|(native, modules_block)| modules_block.end(native, senders, executed));
        if let Some(modules_outcome) = &modules_outcome {
            header.extra_data = modules_outcome.record.root().0.into();
        }
        header.gas_used = executed.gas_used;
        header.blob_gas_used = header.blob_gas_used.map(|_| executed.blob_gas_used);
        (header, modules_outcome)
    }
}

/// The result of trying candidates.
#[derive(Debug, Default)]
pub struct Tried {
    /// Transactions in the block.
    pub txs: Vec<Arc<RecoveredTx>>,
    /// Invalid transactions, each with the reason.
    pub skipped: Vec<(B256, String)>,
}

/// Limits on the execution, in addition to the rules of the block.
#[derive(Clone, Copy)]
pub struct TryBounds<'a> {
    /// Maximum gas of all transactions. The first transaction whose gas limit exceeds the remaining gas ends the block.
    pub gas: u64,
    /// Returns whether the block must end with the transactions executed so far.
    pub is_over: &'a dyn Fn() -> bool,
    /// Computes the state root in receipts before Byzantium.
    pub state_root: &'a StateRoot<'a>,
}

impl std::fmt::Debug for TryBounds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TryBounds").field("gas", &self.gas).finish_non_exhaustive()
    }
}

impl TryBounds<'_> {
    /// No limits, for blocks from Byzantium on.
    pub const NONE: TryBounds<'static> =
        TryBounds { gas: u64::MAX, is_over: &|| false, state_root: &no_root };
}

/// A placeholder for receipts that have no state root.
fn no_root(_: &StateChanges) -> Result<B256, StateError> {
    Ok(B256::ZERO)
}

/// Executes the candidates in order. If one is left out, so are the later ones from the same sender.
pub fn try_all<S>(
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
    builder.preload(candidates)?;
    for (at, tx) in candidates.iter().enumerate() {
        if !stalled.is_empty() && stalled.contains(&tx.sender) {
            continue;
        }
        let gas_left = bounds.gas.saturating_sub(builder.gas_used());
        if tx.tx.gas_limit() > gas_left || (bounds.is_over)() {
            break;
        }
        builder.prepare_next(candidates, at);
        let pushed = match builder.push(tx, bounds.state_root) {
            // The transaction was interrupted, and has changed nothing.
            Err(ExecutionError::Interpreter { .. }) if (bounds.is_over)() => break,
            pushed => pushed?,
        };
        match pushed {
            Ok(_) => tried.txs.push(Arc::clone(tx)),
            // The transaction may be valid in a later block, so it stays in the pool.
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxEip1559};
    use alloy_primitives::{Bytes, Signature, TxKind, U256};
    use chain::{DEV_ACCOUNTS, Genesis};
    use evm::ExecutionHost;
    use home::Home;
    use std::{cell::Cell, sync::OnceLock};

    /// Interrupts the execution after this many checks.
    struct ChecksLeft(Cell<u32>);

    impl ChecksLeft {
        fn is_over(&self) -> bool {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            left == 0
        }
    }

    impl ExecutionHost for ChecksLeft {
        fn block_hash(&self, _: u64) -> Result<Option<B256>, StateError> {
            Ok(None)
        }

        fn is_cancellable(&self) -> bool {
            true
        }

        fn is_cancelled(&self) -> bool {
            self.is_over()
        }
    }

    fn tx(nonce: u64, gas_limit: u64, input: &[u8]) -> Arc<RecoveredTx> {
        let to = if input.is_empty() { TxKind::Call(Address::ZERO) } else { TxKind::Create };
        let tx = TxEip1559 {
            chain_id: Genesis::native_dev(0).spec.chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1,
            to,
            value: U256::ZERO,
            input: input.to_vec().into(),
            ..TxEip1559::default()
        };
        let tx = tx.into_signed(Signature::test_signature());
        let hash = *tx.hash();
        Arc::new(RecoveredTx {
            raw: Bytes::new(),
            tx: tx.into(),
            hash,
            sender: DEV_ACCOUNTS[0].address,
            high_s: false,
            authorities: OnceLock::new(),
            cosmos: None,
        })
    }

    /// Returns how many of the transactions are in a block with these limits.
    fn taken(txs: &[Arc<RecoveredTx>], gas: u64, checks: u32) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::init(folder.path(), &Genesis::native_dev(1_000)).unwrap();
        let view = home.view().unwrap();
        let head = &view.head;
        let parent = Parent { header: &head.header, hash: head.hash, total_difficulty: U256::MAX };
        let next = NextBlock::after(&home.spec, &parent, head.modules.as_deref(), 2_000);
        let checks_left = ChecksLeft(Cell::new(checks));
        let state = view.state.reader().unwrap();
        let mut builder =
            BlockBuilder::start(&home.spec, &state, &checks_left, next.modules(), &next.header)
                .unwrap();
        let is_over = || checks_left.0.get() == 0;
        let bounds = TryBounds { gas, is_over: &is_over, ..TryBounds::NONE };
        let tried = try_all(&mut builder, txs, &bounds).unwrap();
        let mut executed = builder.finish(&[], None).unwrap();
        assert_eq!(executed.receipts.len(), tried.txs.len());
        let (header, modules_outcome) =
            next.end(&home.spec, tried.txs.iter().map(|tx| tx.sender), &mut executed);
        assert_eq!(header.gas_used, executed.gas_used);
        assert_eq!(modules_outcome.is_some(), home.spec.native().is_some());
        tried.txs.len()
    }

    #[test]
    fn the_gas_bound_is_exact() {
        let txs: Vec<_> = (0..3).map(|nonce| tx(nonce, 21_000, &[])).collect();
        let counts = [0, 20_999, 21_000, 41_999, 42_000, 42_001, 63_000, u64::MAX];
        assert_eq!(counts.map(|gas| taken(&txs, gas, u32::MAX)), [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn an_interrupted_block_keeps_what_was_executed_before() {
        // JUMPDEST, PUSH1 0, JUMP: loops until the gas is used up.
        let endless = tx(1, 50_000_000, &alloy_primitives::hex!("5b600056"));
        let txs = [tx(0, 21_000, &[]), endless, tx(2, 21_000, &[])];
        assert_eq!(taken(&txs, u64::MAX, u32::MAX), 3, "a failed transaction is in the block");
        assert_eq!(taken(&txs, u64::MAX, 5), 1);
        assert_eq!(taken(&txs, u64::MAX, 0), 0);
    }
}
