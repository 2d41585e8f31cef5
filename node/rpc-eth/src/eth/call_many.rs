//! `eth_callMany`, in the format of reth and Erigon, which executes bundles of calls, each call on the state after the
//! previous one.

use super::{
    call::{CallHost, call_error, check_overrides, gas_cap, in_time},
    request::{AccountOverrides, Request},
};
use crate::{
    method::{Answer, Call, json},
    module_state::{modules_after, modules_within},
};
use alloy_primitives::Bytes;
use chain::ChainSpec;
use evm::{
    AccountOverride, BlockOverrides, Call as Execution, CallOutcome, CallSite, Overlay, halt_text,
};
use rpc_types::{
    block_id::BlockId,
    error::Error,
    fields,
    params::{Number, Param},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use state::StateReader;
use state::stored::{MinedTx, StoredBlock, StoredError};
use std::borrow::Cow;

/// Maximum number of calls in one request. No known tool sends more, and each call creates an environment.
pub const MAX_CALLS: usize = 1_000;

/// Calls in the same block.
struct Bundle {
    block: BlockOverrides,
    calls: Vec<Request>,
}

struct Bundles(Vec<Bundle>);

/// A bundle as JSON.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BundleObject<'a> {
    #[serde(borrow)]
    transactions: Vec<&'a RawValue>,
    #[serde(borrow)]
    block_override: Option<&'a RawValue>,
}

impl Param for Bundles {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let objects: Vec<BundleObject<'_>> = fields::read(json)?;
        // Empty bundles count as well. They have no result, but parsing them takes time.
        let calls: usize = objects.iter().map(|bundle| bundle.transactions.len().max(1)).sum();
        if calls > MAX_CALLS {
            return Err(format!("must have at most {MAX_CALLS} transactions, got {calls}"));
        }
        let bundle = |(index, bundle): (usize, &BundleObject<'_>)| {
            let with_index = |reason| format!("{index}: {reason}");
            let block =
                bundle.block_override.map(|raw| super::read_block_overrides(raw.get(), spec));
            let calls = bundle.transactions.iter().map(|raw| Request::read(raw.get(), spec));
            let block = block.transpose().map_err(with_index)?.unwrap_or_default();
            Ok::<_, String>(Bundle {
                block,
                calls: calls.collect::<Result<_, _>>().map_err(with_index)?,
            })
        };
        objects.iter().enumerate().map(bundle).collect::<Result<_, String>>().map(Self)
    }
}

/// The state on which the first call is executed.
struct StateContext {
    block: BlockId,
    /// Number of transactions of the block that are executed before the first call; `None` for all of them.
    transactions: Option<usize>,
}

impl Default for StateContext {
    fn default() -> Self {
        Self { block: BlockId::LATEST, transactions: None }
    }
}

impl Param for StateContext {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Object<'a> {
            #[serde(borrow)]
            block_number: Option<&'a RawValue>,
            #[serde(borrow)]
            transaction_index: Option<&'a RawValue>,
        }
        let object: Object<'_> = fields::read(json)?;
        let block = object.block_number.map(|raw| BlockId::read(raw.get(), spec));
        let transactions = match object.transaction_index.map(RawValue::get) {
            None | Some("-1") => None,
            Some(index) => {
                let Number(index) = Number::read(index, spec)
                    .map_err(|reason| format!("transactionIndex: {reason}"))?;
                Some(usize::try_from(index).unwrap_or(usize::MAX))
            }
        };
        Ok(Self { block: block.transpose()?.unwrap_or(BlockId::LATEST), transactions })
    }
}

/// The return data of a call, or its error.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum CallAnswer {
    Value(Bytes),
    Error(String),
}

pub(super) fn call_many(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let Bundles(bundles) = arguments.required()?;
    let context: StateContext = arguments.optional()?.unwrap_or_default();
    let AccountOverrides(accounts) = arguments.optional()?.unwrap_or_default();
    if bundles.is_empty() {
        return Err(Error::invalid_params("bundles are empty"));
    }
    let number = call.require(context.block)?;
    let spec = &call.context.spec;
    let stored = match &call.pending {
        Some(pending) => Cow::Borrowed(pending.stored()),
        None => Cow::Owned(StoredBlock::read(spec, &call.view.blocks()?, number)?),
    };
    let (header, hash) = (&stored.block.header, stored.block.hash);
    let count = stored.block.transactions.len();
    // For a position inside the block, its first transactions are executed again. At its end, its state is used.
    let inside = context.transactions.filter(|executed| *executed < count);
    let at = if inside.is_some() { number.saturating_sub(1) } else { number };
    let before = stored.txs().take(inside.unwrap_or_default());
    let before =
        before.map(|tx| tx.map(MinedTx::recovered)).collect::<Result<Vec<_>, StoredError>>()?;
    let deadline = call.call_deadline();
    let host = CallHost::new(call, &deadline);
    let (state, modules) = (
        call.view.state.reader_at(at)?,
        match inside {
            Some(_) => modules_within(call, number)?,
            None => modules_after(call, number)?,
        },
    );
    let modules = modules.as_deref();
    let site = CallSite { spec, modules, state: &state, host: &host, header };
    let overlay = match inside {
        Some(_) => site
            .overlay_after(header, hash, &before)
            .map_err(|error| in_time(call, &deadline, Error::internal(error)))?,
        None => site.overlay(),
    };
    let answers = run(call, &site, overlay, bundles, accounts);
    json(&answers.map_err(|error| in_time(call, &deadline, error))?)
}

fn run(
    call: &Call,
    site: &CallSite<'_, StateReader>,
    mut overlay: Overlay<'_, StateReader>,
    bundles: Vec<Bundle>,
    accounts: Vec<AccountOverride>,
) -> Result<Vec<Vec<CallAnswer>>, Error> {
    let mut overrides = Some(accounts);
    let mut size = 0;
    let mut answers = Vec::new();
    for (at, Bundle { block, calls }) in bundles.into_iter().enumerate() {
        if calls.is_empty() {
            continue;
        }
        check_overrides(&block)?;
        let mut header = site.header.clone();
        block.apply(&mut header);
        let site = CallSite { header: &header, ..*site };
        let mut answered = Vec::with_capacity(calls.len());
        for (index, request) in calls.into_iter().enumerate() {
            let execution = Execution {
                overrides: overrides.take().unwrap_or_default(),
                blob_base_fee: block.blob_base_fee,
                ..request.check(site.spec)?
            };
            let (result, after) =
                site.call_on(overlay, &execution, gas_cap(call)).map_err(|error| {
                    call_error(error, execution.from)
                        .at(&format!("bundle {at}, transaction {index}"))
                })?;
            overlay = after;
            let answer = match result.outcome {
                CallOutcome::Success(output) => CallAnswer::Value(output),
                CallOutcome::Revert(data) => {
                    CallAnswer::Error(Error::reverted(&data).message().to_owned())
                }
                CallOutcome::Halt(reason) => CallAnswer::Error(halt_text(&reason)),
            };
            // Each call may return megabytes, so the sum is limited before it reaches gigabytes.
            size += match &answer {
                CallAnswer::Value(output) => 2 * output.len(),
                CallAnswer::Error(text) => text.len(),
            };
            if size > call.services.limits.max_response_bytes {
                return Err(Error::too_large("response", call.services.limits.max_response_bytes));
            }
            answered.push(answer);
        }
        answers.push(answered);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    fn bundles(json: &str) -> Result<usize, String> {
        let spec = &Genesis::native_dev(0).spec;
        Bundles::read(json, spec).map(|Bundles(bundles)| bundles.len())
    }

    #[test]
    fn the_number_of_calls_is_limited() {
        let bundle = |n: usize| format!("[{{\"transactions\":[{}]}}]", vec!["{}"; n].join(","));
        for count in [MAX_CALLS - 1, MAX_CALLS] {
            assert_eq!(bundles(&bundle(count)), Ok(1));
        }
        let error = bundles(&bundle(MAX_CALLS + 1)).expect_err("one too many");
        assert_eq!(error, "must have at most 1000 transactions, got 1001");
        let empty = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        assert_eq!(bundles(&empty(MAX_CALLS)), Ok(MAX_CALLS));
        assert!(bundles(&empty(MAX_CALLS + 1)).is_err(), "empty bundles count");
    }

    #[test]
    fn errors_contain_the_bundle_and_the_field() {
        let error = bundles("[{},{\"Transactions\":[{\"Gas\":\"10\"}]}]").expect_err("no prefix");
        assert_eq!(error, "1: gas: hex string without 0x prefix");
        let error = bundles("[{\"BLOCKOVERRIDE\":{\"Time\":7}}]").expect_err("a number");
        assert_eq!(error, "0: time: must be a string, got integer `7`");
        assert!(bundles("{}").expect_err("an object").contains("must be a list"));
    }
}
