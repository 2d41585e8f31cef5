//! JSON-RPC calls that are not measured: they prepare a load and follow the chain.

use crate::http::Url;
use alloy_primitives::{Address, U64, U256};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::time::Duration;

/// Prefix of the code of an account that delegates (EIP-7702).
const DELEGATION_PREFIX: &str = "0xef0100";

/// Timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum calls per batch, which is below the limit of every node.
const MAX_BATCH_CALLS: usize = 100;
/// JSON-RPC error code of a method that is not served.
const METHOD_NOT_FOUND: i64 = -32601;
/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: u64 = 512 * 1024 * 1024;

/// A node's JSON-RPC endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Rpc {
    url: String,
    agent: ureq::Agent,
}

impl Rpc {
    pub(crate) fn new(url: &Url) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .build();
        Self { url: url.http(), agent: config.into() }
    }

    pub(crate) fn call(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut response = self.post(&request)?;
        match response.get("error") {
            Some(error) if !error.is_null() => bail!("{}: {method}: {error}", self.url),
            _ => Ok(response["result"].take()),
        }
    }

    /// Returns whether a method with required parameters is served. A call without parameters fails,
    /// and its error code shows whether the method exists.
    pub(crate) fn has_method(&self, method: &str) -> anyhow::Result<bool> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": [] });
        Ok(self.post(&request)?["error"]["code"] != METHOD_NOT_FOUND)
    }

    /// Calls a method for each of `params`, in batches. Fails at the first error.
    pub(crate) fn call_all(&self, method: &str, params: &[Value]) -> anyhow::Result<Vec<Value>> {
        let results = self.call_each(method, params)?.into_iter();
        let failed = |error| anyhow::anyhow!("{}: {method}: {error}", self.url);
        results.map(|result| result.map_err(failed)).collect()
    }

    /// Calls a method for each of `params`, in batches. Returns the result or the error of each.
    pub(crate) fn call_each(
        &self,
        method: &str,
        params: &[Value],
    ) -> anyhow::Result<Vec<Result<Value, Value>>> {
        let mut results = Vec::with_capacity(params.len());
        for params in params.chunks(MAX_BATCH_CALLS) {
            let calls = params.iter().enumerate().map(|(id, params)| {
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
            });
            let mut response = self.post(&Value::Array(calls.collect()))?;
            let Some(responses) = response.as_array_mut() else {
                bail!("{}: {method} in a batch: {response}", self.url);
            };
            // The responses of a batch may be in any order.
            responses.sort_by_key(|response| response["id"].as_u64());
            if responses.len() != params.len() {
                bail!(
                    "{}: a batch of {} calls received {} responses",
                    self.url,
                    params.len(),
                    responses.len()
                );
            }
            for response in responses {
                results.push(match response.get("error") {
                    Some(error) if !error.is_null() => Err(error.clone()),
                    _ => Ok(response["result"].take()),
                });
            }
        }
        Ok(results)
    }

    fn post(&self, request: &Value) -> anyhow::Result<Value> {
        let mut response = self.agent.post(&self.url).send_json(request).with_context(|| {
            format!("the request to {} failed (is a node running there?)", self.url)
        })?;
        let body = response.body_mut().with_config().limit(MAX_RESPONSE_BYTES).read_to_string();
        let body = body.with_context(|| format!("reading the response of {}", self.url))?;
        serde_json::from_str(&body)
            .with_context(|| format!("{} did not return JSON: {body:.100}", self.url))
    }

    fn quantity(&self, method: &str, params: Value) -> anyhow::Result<u64> {
        quantity(&self.call(method, params)?).with_context(|| format!("{}: {method}", self.url))
    }

    pub(crate) fn chain_id(&self) -> anyhow::Result<u64> {
        self.quantity("eth_chainId", json!([]))
    }

    pub(crate) fn block_number(&self) -> anyhow::Result<u64> {
        self.quantity("eth_blockNumber", json!([]))
    }

    /// Returns the number of transactions in a block.
    pub(crate) fn tx_count(&self, block: u64) -> anyhow::Result<u64> {
        self.quantity("eth_getBlockTransactionCountByNumber", json!([hex(block)]))
    }

    /// Returns the nonces of accounts at the latest block.
    pub(crate) fn nonces(&self, accounts: &[Address]) -> anyhow::Result<Vec<u64>> {
        let params: Vec<_> = accounts.iter().map(|at| json!([at, "latest"])).collect();
        let nonces = self.call_all("eth_getTransactionCount", &params)?;
        nonces.iter().map(quantity).collect()
    }

    /// Returns whether accounts delegate to code (EIP-7702).
    pub(crate) fn are_delegated(&self, accounts: &[Address]) -> anyhow::Result<Vec<bool>> {
        let params: Vec<_> = accounts.iter().map(|at| json!([at, "latest"])).collect();
        let codes = self.call_all("eth_getCode", &params)?;
        let is_delegation =
            |code: &Value| code.as_str().is_some_and(|code| code.starts_with(DELEGATION_PREFIX));
        Ok(codes.iter().map(is_delegation).collect())
    }

    /// Returns the balances of accounts, in wei.
    pub(crate) fn balances(&self, accounts: &[Address]) -> anyhow::Result<Vec<U256>> {
        let params: Vec<_> = accounts.iter().map(|at| json!([at, "latest"])).collect();
        let balances = self.call_all("eth_getBalance", &params)?;
        let balances = balances.into_iter().map(serde_json::from_value);
        balances.map(|balance| balance.context("a balance is not a quantity")).collect()
    }

    /// Returns the node's response to `web3_clientVersion`, or an empty string if the call fails.
    pub(crate) fn client_version(&self) -> String {
        let version = self.call("web3_clientVersion", json!([]));
        version.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Parses a JSON-RPC quantity.
pub(crate) fn quantity(value: &Value) -> anyhow::Result<u64> {
    let quantity: U64 = serde_json::from_value(value.clone())
        .with_context(|| format!("{value} is not a quantity"))?;
    Ok(quantity.to())
}

/// Formats a number as a JSON-RPC quantity.
pub(crate) fn hex(number: u64) -> String {
    format!("{number:#x}")
}
