//! Runs contract calls and gas estimates, as the module `vm` does. They behave like those of JSON-RPC, with the same
//! gas cap and time limit.

use super::{
    QueryError, Snapshot,
    proto::cosmos::evm::vm::v1::{
        EstimateGasResponse, EthCallRequest, Log as LogMessage, MsgEthereumTxResponse,
        QueryGlobalMinGasPriceResponse,
    },
};
use crate::EthCall;
use alloy_primitives::{Address, B256, Log};
use evm::{CallOutcome, halt_text};
use server::interrupt::Interrupt;

/// The gas of the cheapest transaction. A lower cap is refused.
const MIN_GAS_CAP: u64 = 21_000;
/// The error text of cosmos/evm for a call that reverted.
const REVERTED: &str = "execution reverted";

impl Snapshot {
    /// Executes a call on the state of this block. A call that reverts or halts also returns a result.
    ///
    /// # Errors
    /// If the request or the call is invalid, or the call takes too long.
    pub fn eth_call(
        &self,
        request: &EthCallRequest,
        interrupt: &Interrupt,
    ) -> Result<MsgEthereumTxResponse, QueryError> {
        let result = self.facts.calls.call(&self.call_of(request, interrupt)?)?;
        let (ret, vm_error) = ended(result.outcome);
        let (block, _) = self.header(self.number)?;
        let logs = (0..).zip(&result.logs).map(|(index, log)| self.call_log(block, index, log));
        Ok(MsgEthereumTxResponse {
            hash: B256::ZERO.to_string(),
            logs: logs.collect(),
            ret,
            vm_error,
            gas_used: result.gas_used,
        })
    }

    /// Returns the gas that a call needs on the state of this block, or the reason if it reverts.
    ///
    /// # Errors
    /// Same as [`Self::eth_call`], and if the call runs out of gas or fails for another reason.
    pub fn estimate_gas(
        &self,
        request: &EthCallRequest,
        interrupt: &Interrupt,
    ) -> Result<EstimateGasResponse, QueryError> {
        if request.gas_cap != 0 && request.gas_cap < MIN_GAS_CAP {
            return Err(QueryError::invalid(format!(
                "gas_cap must be at least {MIN_GAS_CAP}, got {}: omit it to use the cap of the node",
                request.gas_cap
            )));
        }
        let estimate = self.facts.calls.estimate_gas(&self.call_of(request, interrupt)?)?;
        Ok(match estimate {
            Ok(gas) => EstimateGasResponse { gas, ..EstimateGasResponse::default() },
            Err(reverted) => {
                let (ret, vm_error) = ended(reverted);
                EstimateGasResponse { gas: 0, ret, vm_error }
            }
        })
    }

    /// Returns the minimum gas price of the chain in wei, rounded down.
    ///
    /// # Errors
    /// If the chain has no fee market.
    pub fn min_gas_price(&self) -> Result<QueryGlobalMinGasPriceResponse, QueryError> {
        let min_gas_price = self.market()?.min_gas_price_wei().truncate().to_string();
        Ok(QueryGlobalMinGasPriceResponse { min_gas_price })
    }

    fn call_of<'a>(
        &'a self,
        request: &'a EthCallRequest,
        interrupt: &'a Interrupt,
    ) -> Result<EthCall<'a>, QueryError> {
        let have = self.spec.chain_id;
        if request.chain_id != 0 && u64::try_from(request.chain_id) != Ok(have) {
            return Err(QueryError::invalid(format!(
                "chain_id must be {have} or omitted, got {}",
                request.chain_id
            )));
        }
        let proposer = match request.proposer_address.as_slice() {
            [] => None,
            bytes => Some(Address::try_from(bytes).map(|at| self.operator(at)).map_err(|_| {
                QueryError::invalid(format!(
                    "proposer_address must have 20 bytes, got {}",
                    bytes.len()
                ))
            })?),
        };
        Ok(EthCall {
            spec: &self.spec,
            view: &self.view,
            number: self.number,
            proposer,
            gas_cap: Some(request.gas_cap).filter(|cap| *cap != 0),
            interrupt,
            arguments: arguments(request)?,
        })
    }

    fn call_log(&self, block_hash: B256, index: u64, log: &Log) -> LogMessage {
        LogMessage {
            address: log.address.to_checksum(None),
            topics: log.topics().iter().map(B256::to_string).collect(),
            data: log.data.data.to_vec(),
            block_number: self.number,
            tx_hash: B256::ZERO.to_string(),
            tx_index: 0,
            block_hash: block_hash.to_string(),
            index,
            removed: false,
        }
    }
}

/// Returns the requested call, as JSON.
fn arguments(request: &EthCallRequest) -> Result<&str, QueryError> {
    let text = std::str::from_utf8(&request.args).map(str::trim);
    text.ok()
        .filter(|text| !text.is_empty())
        .ok_or_else(|| QueryError::invalid("args must be a transaction as JSON, as in eth_call"))
}

/// Returns the data that a call returned, and the error text, which is empty if the call succeeded.
fn ended(outcome: CallOutcome) -> (Vec<u8>, String) {
    match outcome {
        CallOutcome::Success(output) => (output.to_vec(), String::new()),
        CallOutcome::Revert(output) => (output.to_vec(), REVERTED.to_owned()),
        CallOutcome::Halt(reason) => (Vec::new(), halt_text(&reason)),
    }
}
