//! Prints the lines about the transactions of a development chain. Their blocks are executed again under a tracer,
//! because the chain stores neither the reason of a failure nor the messages of contracts.

use super::{Printed, SUCCESS, TX, calls::callee, console, reason};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256};
use chain::ChainSpec;
use evm::{ConsoleTrace, ConsoleTracer, ExecutionCaches, StateError, TracedBlock};
use pages::text::{count, hex};
use rpc_eth::{eth::CallHost, module_state::modules_within_view};
use server::interrupt::Interrupt;
use state::{
    View,
    stored::{self, MinedTx, StoredBlock},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use storage::{ReceiptOutcome, StateChanges, StoredReceipt};

/// Maximum number of transactions of a block that have lines of their own and are executed again. Tools send one
/// transaction per block; a block with more than this is a load test.
pub(super) const MAX_TX_LINES: usize = 100;
/// Maximum time to execute the transactions of a block again. Lines of the others have neither reasons nor messages.
const MAX_REPLAY_TIME: Duration = Duration::from_secs(2);
/// Gas of a transaction that executes no code, which has neither messages nor a reason.
const TRANSFER_GAS: u64 = 21_000;

/// Prints the transactions of blocks.
#[derive(Debug)]
pub(super) struct TxPrinter {
    pub(super) spec: Arc<ChainSpec>,
    pub(super) caches: Option<Arc<ExecutionCaches>>,
    pub(super) printed: Printed,
    pub(super) shown: Arc<AtomicBool>,
}

/// A transaction with its result.
struct TxLine<'a> {
    tx: MinedTx<'a>,
    succeeded: bool,
    gas_used: u64,
    trace: Option<ConsoleTrace>,
}

impl TxPrinter {
    /// Returns whether the lines are shown now; clients can change this.
    pub(super) fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    /// Prints the transactions of a block of the view, each after its messages.
    pub(super) fn print(&self, view: &View, number: u64) -> anyhow::Result<()> {
        let blocks = view.blocks()?;
        let stored = StoredBlock::read(&self.spec, &blocks, number)?;
        let receipts = stored::receipts(&blocks, number)?;
        let mut traces = self.traces(view, &stored, &receipts).into_iter();
        let mut gas_before = 0;
        for (tx, receipt) in stored.txs().zip(&receipts).take(MAX_TX_LINES) {
            let gas_used = receipt.cumulative_gas_used - gas_before;
            gas_before = receipt.cumulative_gas_used;
            let succeeded = receipt.outcome != ReceiptOutcome::Status(false);
            let line = TxLine { tx: tx?, succeeded, gas_used, trace: traces.next() };
            line.print(self.printed);
        }
        let left_out = receipts.len().saturating_sub(MAX_TX_LINES);
        if left_out > 0 && self.printed.txs {
            tracing::info!(target: TX, "{} more in block {number}", count(left_out as u64, "tx"));
        }
        Ok(())
    }

    /// Returns the traces of the transactions with lines, up to the first one that cannot be executed again in time.
    fn traces(
        &self,
        view: &View,
        stored: &StoredBlock,
        receipts: &[StoredReceipt],
    ) -> Vec<ConsoleTrace> {
        let gas_used = receipts.last().map_or(0, |receipt| receipt.cumulative_gas_used);
        if gas_used == TRANSFER_GAS * receipts.len() as u64 {
            return Vec::new();
        }
        let mut traces = Vec::new();
        if let Err(error) = self.replay(view, stored, &mut traces) {
            let number = stored.block.header.number;
            tracing::debug!(%error, number, "transactions are printed without messages and reasons");
        }
        traces
    }

    fn replay(
        &self,
        view: &View,
        stored: &StoredBlock,
        traces: &mut Vec<ConsoleTrace>,
    ) -> anyhow::Result<()> {
        let header = &stored.block.header;
        let state = view.state.reader_at(header.number.saturating_sub(1))?;
        let modules = modules_within_view(&self.spec, view, header.number)?;
        let deadline = Interrupt::default().within(MAX_REPLAY_TIME);
        let host = CallHost { view, deadline: &deadline, caches: self.caches.as_deref() };
        let (hash, modules) = (stored.block.hash, modules.as_deref());
        // The receipts are discarded, so the state roots in them may be wrong.
        let no_root = |_: &StateChanges| Ok::<_, StateError>(B256::ZERO);
        let block =
            TracedBlock::start(&self.spec, &state, &host, header, hash, modules, ConsoleTracer);
        let mut block = block?;
        for tx in stored.txs().take(MAX_TX_LINES) {
            traces.push(block.trace(&tx?.recovered(), &no_root)?);
        }
        Ok(())
    }
}

impl TxLine<'_> {
    fn print(&self, printed: Printed) {
        if let Some(trace) = self.trace.as_ref().filter(|_| printed.console) {
            console::print(trace);
        }
        if !printed.txs {
            return;
        }
        let Self { tx, gas_used, .. } = self;
        let reason = self.reason();
        let status = if self.succeeded { SUCCESS } else { "failed" };
        tracing::info!(
            target: TX,
            hash = %tx.hash,
            from = %tx.sender,
            to = tx.to().map(tracing::field::display),
            contract = self.created().map(tracing::field::display),
            status,
            gas_used,
            reason,
            "{}",
            self.text(reason.as_deref())
        );
    }

    /// Returns why the transaction failed; `None` if it succeeded.
    fn reason(&self) -> Option<String> {
        if self.succeeded {
            return None;
        }
        let decoded = self.trace.as_ref().and_then(|trace| reason::failure(&trace.outcome));
        Some(decoded.unwrap_or_else(|| "failed".to_owned()))
    }

    /// Returns the contract that the transaction created.
    fn created(&self) -> Option<Address> {
        self.tx.created().filter(|_| self.succeeded && self.tx.cosmos.is_none())
    }

    fn text(&self, reason: Option<&str>) -> String {
        let Self { tx, gas_used, .. } = self;
        let action = match (&tx.cosmos, self.created()) {
            (Some(_), _) => "Cosmos transaction".to_owned(),
            (None, Some(contract)) => format!("created {contract}"),
            (None, None) => callee(tx.to()) + &self.function(),
        };
        let failure = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        format!("{} {} {action}{failure}, gas {gas_used}", tx.hash, tx.sender)
    }

    /// Returns the selector of the called function, with a space before it.
    fn function(&self) -> String {
        let selector = self.tx.tx.input().first_chunk::<4>().filter(|_| self.tx.to().is_some());
        selector.map(|selector| format!(" {}", hex(selector))).unwrap_or_default()
    }
}
