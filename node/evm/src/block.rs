//! Executes one block, transaction by transaction.
//!
//! [`execute_block`] executes an imported block and refuses it at the first invalid transaction.
//! [`BlockBuilder`] executes transactions and includes the valid ones. Both use the same engine, so a produced block
//! has the same result when it is imported.

mod begin;
mod end;
mod fees;

use std::{borrow::Borrow, error::Error};

use alloy_consensus::{Header, Transaction as _, Typed2718};
use alloy_eips::{eip4895::Withdrawal, eip7685::Requests};
use alloy_evm::FromRecoveredTx;
use alloy_primitives::{Address, B256, Log, U256};
use revm::{
    Database,
    context::TxEnv,
    context_interface::result::{EVMError, ExecutionResult},
};
use storage::{GovernanceRow, ReceiptOutcome, StateChanges, StateRead, StoredReceipt};

use super::{
    ExecutionError, ExecutionHost, StateError, TxError,
    environment::Environment,
    fast::FastPaths,
    machine::{Machine, MachineError, fatal},
    overlay::Overlay,
};
use chain::{ChainSpec, Fork, Rules};
use feemarket::store::StoredEvent;
use modules::{
    Modules,
    decorator::{self, Admitted, CheckContext, Mode, Reject, Sender, has_code},
    gov::{Governance, Session},
};
use transactions::{RecoveredTx, participants};
use transactions::{
    Update,
    cosmos::{CosmosTx, Refusal, TX_TYPE},
};

/// The input of the executor: a decoded block with known senders and a checked header.
#[derive(Clone, Copy, Debug)]
pub struct BlockInput<'a, T> {
    /// The complete header.
    pub header: &'a Header,
    /// The transactions in order.
    pub transactions: &'a [T],
    /// Headers of the ommers, for their rewards.
    pub ommers: &'a [Header],
    /// Withdrawals; absent before Shanghai.
    pub withdrawals: Option<&'a [Withdrawal]>,
}

/// The result of executing a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// One receipt per transaction, in order.
    pub receipts: Vec<StoredReceipt>,
    /// Gas used by each transaction.
    pub tx_gas: Vec<u64>,
    /// Sender of each transaction.
    pub senders: Vec<Address>,
    /// The participants of the transactions; see [`participants`].
    pub named: Vec<Address>,
    /// Gas used by all transactions.
    pub gas_used: u64,
    /// Sum of the gas limits of all transactions, for the fee market. 0 on an Ethereum chain.
    pub gas_wanted: u64,
    /// Blob gas used by all transactions.
    pub blob_gas_used: u64,
    /// Requests to the consensus layer (EIP-7685); empty before Prague.
    pub requests: Requests,
    /// The differences from the parent's state.
    pub changes: StateChanges,
    /// New parameters of modules that governance decided in the block, in order. [`Modules::update`] accepts
    /// each of them.
    pub updates: Vec<Update>,
    /// Governance after the block, and its rows to store, if the block changed it.
    pub gov: Option<(Governance, Vec<GovernanceRow>)>,
    /// Events of Cosmos transactions, of governance and of the payment to the proposer, in order.
    pub events: Vec<StoredEvent>,
}

/// Computes the state root after changes to the parent's state.
pub type StateRoot<'a> = dyn Fn(&StateChanges) -> Result<B256, StateError> + 'a;

/// Executes a whole block on its parent's state.
///
/// Before Byzantium, receipts contain state roots, and `state_root` is called after each transaction. From
/// Byzantium on, it is never called. For `modules` see [`BlockBuilder::start`]. The result is not compared with the
/// header; see [`super::validate_executed`].
///
/// # Errors
/// If a transaction is not valid, a system contract fails, or state cannot be read.
pub fn execute_block<S, T: Borrow<RecoveredTx>>(
    spec: &ChainSpec,
    state: &S,
    host: &dyn ExecutionHost,
    state_root: &StateRoot<'_>,
    modules: Option<&Modules>,
    input: &BlockInput<'_, T>,
) -> Result<Executed, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut block = BlockBuilder::start(spec, state, host, modules, input.header)?;
    block.preload(input.transactions)?;
    for (index, tx) in input.transactions.iter().map(Borrow::borrow).enumerate() {
        block.prepare_next(input.transactions, index);
        block.push(tx, state_root)?.map_err(|reason| ExecutionError::Transaction {
            number: input.header.number,
            index,
            hash: tx.hash,
            reason,
        })?;
    }
    block.finish(input.ommers, input.withdrawals)
}

/// Executes one transaction on `state`, without the steps that precede and follow the transactions of a block. Before
/// Byzantium, the state root in the receipt is zero.
///
/// # Errors
/// The outer error means that a read or the interpreter failed; the inner one means that the transaction is not valid.
pub fn execute_transaction<S>(
    spec: &ChainSpec,
    state: &S,
    host: &dyn ExecutionHost,
    header: &Header,
    tx: &RecoveredTx,
) -> Result<Result<Executed, TxError>, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut block = BlockBuilder::new(spec, state, host, None, header);
    Ok(block.push(tx, &|_| Ok(B256::ZERO))?.map(|_| block.into_executed()))
}

/// A block under construction.
#[derive(Debug)]
pub struct BlockBuilder<'a, S, I = ()>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    pub(super) spec: &'a ChainSpec,
    pub(super) number: u64,
    pub(super) environment: Environment,
    pub(super) machine: Machine<'a, S, I>,
    /// On a native chain: the context in which transactions are checked.
    checks: Option<CheckContext<'a>>,
    /// On a native chain: governance in this block.
    pub(super) gov: Option<Session<'a>>,
    /// The balance of `fee_collector` before the first transaction, in wei, if the proposer receives the fees.
    fees_before: U256,
    pub(super) executed: Executed,
    /// Prefetching, prediction and fast paths; `None` in the plain executor.
    fast: Option<FastPaths<'a>>,
}

/// The outcome of a transaction, from which its receipt is made.
pub(super) struct Outcome {
    pub(super) tx_type: u8,
    pub(super) blob_gas: u64,
    pub(super) gas: u64,
    pub(super) success: bool,
    pub(super) logs: Vec<Log>,
}

impl Outcome {
    /// Returns the outcome of a transaction that the interpreter executed.
    pub(super) fn interpreted(tx_type: u8, blob_gas: u64, result: ExecutionResult) -> Self {
        let (gas, success) = (result.tx_gas_used(), result.is_success());
        Self { tx_type, blob_gas, gas, success, logs: result.into_logs() }
    }

    /// Returns the outcome of a transaction without logs.
    const fn without_logs(tx_type: u8, gas: u64, success: bool) -> Self {
        Self { tx_type, blob_gas: 0, gas, success, logs: Vec::new() }
    }
}

impl<'a, S, I> BlockBuilder<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Creates a block on an existing overlay, with an inspector.
    pub(super) fn over(
        spec: &'a ChainSpec,
        overlay: Overlay<'a, S>,
        environment: Environment,
        number: u64,
        inspector: I,
    ) -> Self {
        let fast = overlay.caches().map(FastPaths::new);
        let machine = Machine::new(
            overlay,
            environment.cfg.clone(),
            environment.block.clone(),
            environment.fork,
            environment.native.clone(),
            inspector,
        );
        Self {
            spec,
            number,
            environment,
            machine,
            checks: None,
            gov: None,
            fees_before: U256::ZERO,
            executed: Executed::default(),
            fast,
        }
    }

    /// Prepares for transactions that will probably be pushed: reserves memory and, if the host has caches, reads the
    /// state that they will probably access.
    ///
    /// # Errors
    /// If state cannot be read.
    pub fn preload<T: Borrow<RecoveredTx>>(&mut self, txs: &[T]) -> Result<(), ExecutionError> {
        self.executed.receipts.reserve(txs.len());
        self.executed.tx_gas.reserve(txs.len());
        self.executed.senders.reserve(txs.len());
        self.executed.named.reserve(txs.len());
        let Some(fast) = &mut self.fast else { return Ok(()) };
        fast.preload(&mut self.machine, txs).map_err(|source| self.state_error(source))
    }

    /// Prepares for the preloaded transaction at index `at`, which will be pushed next.
    pub fn prepare_next<T: Borrow<RecoveredTx>>(&mut self, txs: &[T], at: usize) {
        if let Some(fast) = &self.fast {
            fast.prepare_tx(self.machine.overlay_mut(), txs, at);
        }
    }

    /// Returns the gas left in the block.
    pub const fn gas_left(&self) -> u64 {
        self.environment.block.gas_limit.saturating_sub(self.executed.gas_used)
    }

    /// Returns the gas used by the transactions so far.
    pub const fn gas_used(&self) -> u64 {
        self.executed.gas_used
    }

    /// Returns the number of transactions so far.
    pub const fn len(&self) -> usize {
        self.executed.receipts.len()
    }

    /// Returns whether the block has no transaction yet.
    pub const fn is_empty(&self) -> bool {
        self.executed.receipts.is_empty()
    }

    /// Executes a transaction and returns its gas. If the transaction is not valid here, returns the reason and
    /// leaves the block unchanged.
    ///
    /// For `state_root` see [`execute_block`].
    ///
    /// # Errors
    /// The outer error is fatal: a read or the interpreter failed, and the block cannot continue.
    pub fn push(
        &mut self,
        tx: &RecoveredTx,
        state_root: &StateRoot<'_>,
    ) -> Result<Result<u64, TxError>, ExecutionError> {
        if let Err(reason) = self.admit(tx) {
            return Ok(Err(reason));
        }
        let admitted = match self.deliver(tx).map_err(|source| self.state_error(source))? {
            Ok(admitted) => admitted,
            Err(reject) => return Ok(Err(reject.into())),
        };
        let outcome = match &tx.cosmos {
            Some(cosmos) => self.deliver_cosmos(cosmos)?,
            None => self.transact(tx)?,
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(reason) => return Ok(Err(reason)),
        };
        let gas = self.record(outcome, state_root)?;
        self.count_wanted(admitted);
        self.record_participants(tx);
        Ok(Ok(gas))
    }

    /// Executes an admitted Ethereum transaction.
    fn transact(&mut self, tx: &RecoveredTx) -> Result<Result<Outcome, TxError>, ExecutionError> {
        if let Some(gas) = self.transfer(tx).map_err(|source| self.state_error(source))? {
            return Ok(Ok(Outcome::without_logs(tx.tx.ty(), gas, true)));
        }
        match self.machine.transact(TxEnv::from_recovered_tx(&tx.tx, tx.sender)) {
            Ok(result) => {
                if let Some(fast) = &mut self.fast {
                    fast.learn(self.machine.overlay().hints().unpredicted_reads(), tx);
                }
                Ok(Ok(Outcome::interpreted(tx.tx.ty(), tx.blob_gas(), result)))
            }
            Err(EVMError::Transaction(reason)) => Ok(Err(TxError::Invalid(reason))),
            Err(error) => Err(self.fatal(error)),
        }
    }

    /// Executes a plain transfer on the fast path; `None` if the interpreter must execute it.
    fn transfer(&mut self, tx: &RecoveredTx) -> Result<Option<u64>, StateError> {
        if self.fast.is_none() {
            return Ok(None);
        }
        FastPaths::transfer(self.machine.overlay_mut(), &self.environment, tx)
    }

    /// Executes an admitted Cosmos transaction.
    fn deliver_cosmos(
        &mut self,
        cosmos: &CosmosTx,
    ) -> Result<Result<Outcome, TxError>, ExecutionError> {
        let succeeded = self.run_cosmos(cosmos).map_err(|source| self.state_error(source))?;
        Ok(succeeded.map(|succeeded| Outcome::without_logs(TX_TYPE, cosmos.gas_used(), succeeded)))
    }

    /// Records the sender and the participants of a transaction now, while it is in the processor's caches.
    fn record_participants(&mut self, tx: &RecoveredTx) {
        self.executed.senders.push(tx.sender);
        self.executed.named.extend(participants(&tx.tx, tx.sender, tx.cosmos.as_deref()));
    }

    /// Executes the messages of a Cosmos transaction without checking signature, fee and sequence. Returns the
    /// gas that the transaction would use, and its events.
    ///
    /// # Errors
    /// The outer error is a failed read; the inner one is the refusal of a message.
    pub fn try_cosmos(
        &mut self,
        cosmos: &CosmosTx,
    ) -> Result<Result<(u64, Vec<StoredEvent>), Refusal>, ExecutionError> {
        let done =
            self.run_messages(&cosmos.messages).map_err(|source| self.state_error(source))?;
        Ok(done.map(|events| (cosmos.gas_used(), events)))
    }

    fn count_wanted(&mut self, admitted: Option<Admitted>) {
        if let (Some(checks), Some(admitted)) = (&mut self.checks, admitted) {
            checks.gas_wanted = admitted.gas_wanted;
            self.executed.gas_wanted = admitted.gas_wanted.get();
        }
    }

    /// Adds the outcome of a transaction to the block; returns its gas.
    pub(super) fn record(
        &mut self,
        outcome: Outcome,
        state_root: &StateRoot<'_>,
    ) -> Result<u64, ExecutionError> {
        let Outcome { tx_type, blob_gas, gas, success, logs } = outcome;
        self.executed.gas_used += gas;
        self.executed.blob_gas_used += blob_gas;
        self.executed.tx_gas.push(gas);
        let outcome = if self.environment.fork >= Fork::Byzantium {
            ReceiptOutcome::Status(success)
        } else {
            let root = state_root(&self.machine.overlay().changes());
            ReceiptOutcome::PostState(root.map_err(|source| self.state_error(source))?)
        };
        self.executed.receipts.push(StoredReceipt {
            tx_type,
            outcome,
            cumulative_gas_used: self.executed.gas_used,
            logs,
        });
        Ok(gas)
    }

    pub(super) const fn machine_mut(&mut self) -> &mut Machine<'a, S, I> {
        &mut self.machine
    }

    /// Checks rules that the interpreter does not check: signatures, blobs on a native chain, and the block's limits.
    fn admit(&self, tx: &RecoveredTx) -> Result<(), TxError> {
        if tx.high_s && self.environment.fork >= Fork::Homestead {
            return Err(TxError::HighS);
        }
        if tx.tx.is_legacy()
            && tx.tx.chain_id().is_some()
            && !self.spec.replay_protection(self.number)
        {
            return Err(TxError::ReplayProtected);
        }
        if tx.tx.is_eip4844() && self.spec.rules == Rules::Native {
            return Err(TxError::BlobsRefused);
        }
        let (limit, available) = (tx.tx.gas_limit(), self.gas_left());
        if limit > available {
            return Err(TxError::BlockGas { limit, available });
        }
        let wanted = tx.blob_gas();
        let available = self.environment.blob_gas_limit.saturating_sub(self.executed.blob_gas_used);
        if wanted > available && self.environment.fork >= Fork::Cancun {
            return Err(TxError::BlockBlobGas { wanted, available });
        }
        Ok(())
    }

    /// Runs the native chain's checks on the current state of the block. Returns `None` on an Ethereum chain.
    fn deliver(
        &mut self,
        tx: &RecoveredTx,
    ) -> Result<Result<Option<Admitted>, Reject>, StateError> {
        let Some(checks) = &self.checks else { return Ok(Ok(None)) };
        let overlay = self.machine.overlay_mut();
        let account = overlay.account(tx.sender)?.unwrap_or_default();
        let may_send = !has_code(&account) || overlay.code_by_hash(account.code_hash)?.is_eip7702();
        let sender = Sender { account, may_send };
        Ok(decorator::check_sender(tx, checks, &sender, Mode::Deliver).map(Some))
    }

    const fn state_error(&self, source: StateError) -> ExecutionError {
        ExecutionError::State { number: self.number, source }
    }

    fn fatal(&self, error: MachineError) -> ExecutionError {
        fatal(self.number, error)
    }
}
