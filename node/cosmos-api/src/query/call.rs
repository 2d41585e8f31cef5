//! Calls of contracts and estimates of their gas, as the module `vm` shows them. They run as JSON-RPC's
//! do, with its cap of gas and its time.

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

/// Gas of the cheapest transaction: no cap may be lower.
const GAS_CAP_MIN: u64 = 21_000;
/// What the reference calls a call that reverted.
const REVERTED: &str = "execution reverted";

impl Snapshot {
    /// What a call would give on this block's state. One that fails is an answer too.
    ///
    /// # Errors
    /// If the request makes no sense, the call is not valid, or it takes too long.
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

    /// The gas that a call needs on this block's state; why it has none, if it reverts.
    ///
    /// # Errors
    /// As [`Self::eth_call`], and if the call fails for lack of gas or otherwise.
    pub fn estimate_gas(
        &self,
        request: &EthCallRequest,
        interrupt: &Interrupt,
    ) -> Result<EstimateGasResponse, QueryError> {
        if request.gas_cap != 0 && request.gas_cap < GAS_CAP_MIN {
            return Err(QueryError::invalid(format!(
                "gas cap {} cannot be lower than {GAS_CAP_MIN}; leave it out for the node's own",
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

    /// The least price of gas that the chain takes, in whole wei.
    ///
    /// # Errors
    /// On a chain without a fee market.
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
                "chain_id {}: this chain's is {have}; leave it out, or say that",
                request.chain_id
            )));
        }
        let proposer = match request.proposer_address.as_slice() {
            [] => None,
            bytes => Some(Address::try_from(bytes).map_err(|_| {
                QueryError::invalid(format!("proposer_address: {} bytes, want 20", bytes.len()))
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

/// The call that is asked for, in JSON.
fn arguments(request: &EthCallRequest) -> Result<&str, QueryError> {
    let text = std::str::from_utf8(&request.args).map(str::trim);
    text.ok().filter(|text| !text.is_empty()).ok_or_else(|| {
        QueryError::invalid("args: want the JSON of a transaction, as eth_call takes it")
    })
}

/// What a call returned, and why it failed if it did.
fn ended(outcome: CallOutcome) -> (Vec<u8>, String) {
    match outcome {
        CallOutcome::Success(output) => (output.to_vec(), String::new()),
        CallOutcome::Revert(output) => (output.to_vec(), REVERTED.to_owned()),
        CallOutcome::Halt(reason) => (Vec::new(), halt_text(&reason)),
    }
}
