//! Collects the logs of a transaction and, if requested, ether transfers in the form of ERC-20 transfer logs
//! from an address without a contract (execution-apis, `eth_simulateV1`).
//!
//! Logs of reverted frames are discarded, as on the chain.

use alloy_primitives::{Address, B256, Log, U256, address, b256};
use revm::{
    Inspector,
    context_interface::{ContextTr, CreateScheme, JournalTr},
    interpreter::{CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome},
};

/// The address that emits the logs of ether transfers.
const ETHER: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
/// First topic of `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// The inspector; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct TransferLogs {
    /// Whether ether transfers are collected.
    transfers: bool,
    /// Logs of the current transaction, with their positions in the block.
    logs: Vec<(usize, Log)>,
    /// Number of logs of the block so far, including discarded ones, as in geth.
    count: usize,
    /// Number of logs at the beginning of each open frame.
    frames: Vec<usize>,
}

impl TransferLogs {
    pub(super) fn new(transfers: bool) -> Self {
        Self { transfers, ..Self::default() }
    }

    /// Removes and returns the logs of the finished transaction, with their positions in the block.
    pub(super) fn take(&mut self) -> Vec<(usize, Log)> {
        self.frames.clear();
        std::mem::take(&mut self.logs)
    }

    fn push_transfer(&mut self, from: Address, to: Address, wei: U256) {
        if self.transfers && !wei.is_zero() {
            let topics = vec![TRANSFER, from.into_word(), to.into_word()];
            let data = wei.to_be_bytes::<32>().into();
            self.push(Log::new_unchecked(ETHER, topics, data));
        }
    }

    fn push(&mut self, log: Log) {
        self.logs.push((self.count, log));
        self.count += 1;
    }

    fn end(&mut self, succeeded: bool) {
        let logs_before = self.frames.pop().unwrap_or_default();
        if !succeeded {
            self.logs.truncate(logs_before);
        }
    }
}

impl<C: ContextTr> Inspector<C> for TransferLogs {
    fn log(&mut self, _: &mut C, log: Log) {
        self.push(log);
    }

    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.frames.push(self.logs.len());
        if inputs.scheme != CallScheme::DelegateCall
            && let Some(wei) = inputs.transfer_value()
        {
            self.push_transfer(inputs.transfer_from(), inputs.transfer_to(), wei);
        }
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result.is_ok());
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.frames.push(self.logs.len());
        let from = inputs.caller();
        let to = match inputs.scheme() {
            CreateScheme::Create => {
                // `revm` increments the creator's nonce after this call.
                let account = context.journal_mut().load_account(from);
                let nonce = account.map_or(0, |account| account.data.info.nonce);
                inputs.created_address(nonce)
            }
            _ => inputs.created_address(0),
        };
        self.push_transfer(from, to, inputs.value());
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(outcome.result.result.is_ok());
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, wei: U256) {
        self.push_transfer(contract, target, wei);
    }
}
