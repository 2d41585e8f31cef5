//! `eth_call` and `eth_estimateGas`: what would happen. Execution is `execution`'s; here are the
//! request's form and geth's words for failures.

use crate::{
    account::parse_address,
    chain::ChainSpec,
    execution::{BlockHashes, Call as Execution, CallError, CallOutcome, CallSite, StateError},
    rpc::{
        block_id::BlockId,
        error::Error,
        method::{Answer, Call, json},
        params::{Param, bytes, object, quantity, wide_quantity},
        stored,
    },
    view::StateReader,
};
use alloy_eips::{eip2930::AccessList, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, TxKind, U64, U256};
use revm::context_interface::result::{HaltReason, InvalidTransaction};
use serde::Deserialize;
use storage::ChainReader;

/// Gas of a call where the settings set no cap, as geth.
const GAS_UNCAPPED: u64 = u64::MAX / 2;

/// A transaction to be tried, as given.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    from: Option<String>,
    to: Option<String>,
    gas: Option<String>,
    gas_price: Option<String>,
    max_fee_per_gas: Option<String>,
    max_priority_fee_per_gas: Option<String>,
    max_fee_per_blob_gas: Option<String>,
    value: Option<String>,
    nonce: Option<String>,
    chain_id: Option<String>,
    data: Option<String>,
    input: Option<String>,
    access_list: Option<AccessList>,
    blob_versioned_hashes: Option<Vec<B256>>,
    authorization_list: Option<Vec<SignedAuthorization>>,
}

/// A transaction to be tried: its fields are well-formed, not yet sensible together.
struct Request {
    execution: Execution,
    chain_id: Option<u64>,
    conflict: Option<&'static str>,
}

impl Param for Request {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: Object = object(json)?;
        let address = |text: &Option<String>| -> Result<Option<Address>, String> {
            let read = |text: &String| parse_address(text, &spec.bech32_prefix);
            text.as_ref().map(read).transpose().map_err(|error| error.to_string())
        };
        let wei = |text: &Option<String>| -> Result<Option<u128>, String> {
            let wide = text.as_deref().map(wide_quantity).transpose()?;
            let narrow = |wide: U256| u128::try_from(wide).map_err(|_| "price above 128 bits");
            Ok(wide.map(narrow).transpose()?)
        };
        let number = |text: &Option<String>| text.as_deref().map(quantity).transpose();
        let data = |text: &Option<String>| text.as_deref().map(bytes).transpose();
        let (data, input) = (data(&object.data)?, data(&object.input)?);
        let (price, cap) = (wei(&object.gas_price)?, wei(&object.max_fee_per_gas)?);
        let tip = wei(&object.max_priority_fee_per_gas)?;
        number(&object.nonce)?;
        let conflict = if price.is_some() && (cap.is_some() || tip.is_some()) {
            Some("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
        } else if data.is_some() && input.is_some() && data != input {
            Some(
                "both \"data\" and \"input\" are set and not equal. \
                  Please use \"input\" to pass transaction call data",
            )
        } else {
            None
        };
        let execution = Execution {
            from: address(&object.from)?.unwrap_or_default(),
            to: address(&object.to)?.map_or(TxKind::Create, TxKind::Call),
            gas: number(&object.gas)?,
            max_fee_per_gas: price.or(cap).unwrap_or_default(),
            max_priority_fee_per_gas: tip.or_else(|| cap.map(|_| 0)),
            value: object.value.as_deref().map(wide_quantity).transpose()?.unwrap_or_default(),
            input: Bytes::from(input.or(data).unwrap_or_default()),
            access_list: object.access_list,
            blob_hashes: object.blob_versioned_hashes.unwrap_or_default(),
            max_fee_per_blob_gas: wei(&object.max_fee_per_blob_gas)?.unwrap_or_default(),
            authorizations: object.authorization_list.unwrap_or_default(),
        };
        Ok(Self { execution, chain_id: number(&object.chain_id)?, conflict })
    }
}

/// Hashes for the BLOCKHASH instruction.
struct Hashes<'a>(&'a ChainReader);

impl BlockHashes for Hashes<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        self.0.hash(number).map_err(StateError::new)
    }
}

pub(super) fn call(call: &Call) -> Answer {
    let cap = gas_cap(call);
    let result = on_block(call, |site, execution| {
        site.call(execution, cap).map_err(|error| match error {
            CallError::Invalid(reason) => {
                let gas = execution.gas.unwrap_or(cap).min(cap);
                let reason = invalid_text(&reason, execution.from);
                Error::server(format!("err: {reason} (supplied gas {gas})"))
            }
            error => call_error(error, execution.from),
        })
    })?;
    match result.outcome {
        CallOutcome::Success(output) => json(&output),
        failed => Err(failure(failed)),
    }
}

pub(super) fn estimate_gas(call: &Call) -> Answer {
    let gas = on_block(call, |site, execution| {
        let gas = site.estimate_gas(execution, gas_cap(call));
        gas.map_err(|error| call_error(error, execution.from))
    })?;
    json(&U64::from(gas))
}

/// Runs what the parameters say on the state after the block they name.
fn on_block<T>(
    call: &Call,
    run: impl FnOnce(&CallSite<'_, StateReader>, &Execution) -> Result<T, Error>,
) -> Result<T, Error> {
    let (execution, number) = request(call)?;
    let blocks = call.view.blocks()?;
    let (_, header) = stored::header(&blocks, number)?;
    let state = call.view.state.reader_at(number)?;
    let (spec, hashes) = (&call.context.spec, Hashes(&blocks));
    run(&CallSite { spec, state: &state, hashes: &hashes, header: &header }, &execution)
}

/// What to run, and the block after which.
fn request(call: &Call) -> Result<(Execution, u64), Error> {
    let mut arguments = call.arguments()?;
    let Request { execution, chain_id, conflict } = arguments.required()?;
    let id: BlockId = arguments.optional()?.unwrap_or(BlockId::LATEST);
    if let Some(conflict) = conflict {
        return Err(Error::server(conflict));
    }
    let want = call.context.spec.chain_id;
    if let Some(have) = chain_id.filter(|have| *have != want) {
        let message = format!("chainId does not match node's (have={have}, want={want})");
        return Err(Error::server(message));
    }
    Ok((execution, id.require(&call.view)?))
}

fn gas_cap(call: &Call) -> u64 {
    match call.context.gas_cap {
        0 => GAS_UNCAPPED,
        cap => cap,
    }
}

fn call_error(error: CallError, from: Address) -> Error {
    match error {
        CallError::Invalid(reason) => Error::server(invalid_text(&reason, from)),
        CallError::Failed(outcome) => failure(outcome),
        CallError::State(_) | CallError::Interpreter(_) => Error::internal(error),
        refused => Error::server(refused.to_string()),
    }
}

/// How a call that ran has failed.
fn failure(outcome: CallOutcome) -> Error {
    match outcome {
        CallOutcome::Revert(data) if data.is_empty() => Error::server("execution reverted"),
        CallOutcome::Revert(data) => Error::reverted(&data),
        CallOutcome::Halt(reason) => Error::server(halt_text(&reason)),
        CallOutcome::Success(_) => Error::internal("a successful call was taken for a failure"),
    }
}

/// geth's words for what tools match on; the interpreter's for the rest.
fn halt_text(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        HaltReason::OpcodeNotFound | HaltReason::InvalidFEOpcode => "invalid opcode".to_owned(),
        HaltReason::InvalidJump => "invalid jump destination".to_owned(),
        HaltReason::StackUnderflow => "stack underflow".to_owned(),
        HaltReason::StackOverflow => "stack limit reached 1024 (1023)".to_owned(),
        HaltReason::CreateCollision => "contract address collision".to_owned(),
        HaltReason::CreateContractSizeLimit => "max code size exceeded".to_owned(),
        HaltReason::CreateContractStartingWithEF => {
            "invalid code: must not begin with 0xef".to_owned()
        }
        HaltReason::OutOfFunds => "insufficient balance for transfer".to_owned(),
        HaltReason::CallTooDeep => "max call depth exceeded".to_owned(),
        HaltReason::StateChangeDuringStaticCall => "write protection".to_owned(),
        other => format!("execution failed: {other:?}"),
    }
}

fn invalid_text(reason: &InvalidTransaction, from: Address) -> String {
    match reason {
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => format!(
            "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
        ),
        InvalidTransaction::GasPriceLessThanBasefee => {
            "max fee per gas less than block base fee".to_owned()
        }
        InvalidTransaction::PriorityFeeGreaterThanMaxFee => {
            "max priority fee per gas higher than max fee per gas".to_owned()
        }
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        InvalidTransaction::CreateInitCodeSizeLimit => "max initcode size exceeded".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Genesis;

    fn read(json: &str) -> Result<Request, String> {
        Request::read(json, &Genesis::native_dev(0).spec)
    }

    #[test]
    fn requests_are_read() {
        let request = read(
            "{\"to\":\"0x0101010101010101010101010101010101010101\",\"gas\":\"0x10\",\
             \"data\":\"0x1234\",\"maxFeePerGas\":\"0x7\",\"type\":\"0x2\",\"unknown\":[1]}",
        )
        .expect("valid");
        assert_eq!(request.execution.to, TxKind::Call(Address::repeat_byte(1)));
        assert_eq!(request.execution.gas, Some(16));
        assert_eq!(request.execution.input.as_ref(), [0x12, 0x34]);
        assert_eq!(request.execution.max_priority_fee_per_gas, Some(0));
        assert!(request.conflict.is_none());
        assert_eq!(read("{}").expect("a creation").execution.to, TxKind::Create);
    }

    #[test]
    fn conflicts_and_bad_fields_are_refused() {
        for json in [
            "{\"gasPrice\":\"0x1\",\"maxFeePerGas\":\"0x1\"}",
            "{\"data\":\"0x\",\"input\":\"0x00\"}",
        ] {
            assert!(read(json).expect("well-formed").conflict.is_some(), "{json}");
        }
        let bad = [
            "[]",
            "{\"gas\":16}",
            "{\"gas\":\"16\"}",
            "{\"value\":\"0x01\"}",
            "{\"to\":\"0x01\"}",
            "{\"data\":\"0x1\"}",
            "{\"nonce\":\"0xg\"}",
            "{\"accessList\":7}",
            "{\"gasPrice\":\"0x100000000000000000000000000000000\"}",
        ];
        for json in bad {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
