//! JSON-RPC for what is not measured: preparing a load, and following the chain.

use crate::http::Url;
use alloy_primitives::{Address, U64, U256};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Calls in one batch: below every node's limit.
const BATCH: usize = 100;
/// What JSON-RPC answers for a method that is not served.
const METHOD_NOT_FOUND: i64 = -32601;
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 512 * 1024 * 1024;

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

    /// Calls a method.
    pub(crate) fn call(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer = self.post(&request)?;
        match answer.get("error") {
            Some(error) if !error.is_null() => bail!("{}: {method}: {error}", self.url),
            _ => Ok(answer["result"].take()),
        }
    }

    /// Whether a method that needs parameters is served: asked without any, it is refused at once, in
    /// another way where it is not.
    pub(crate) fn has_method(&self, method: &str) -> anyhow::Result<bool> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": [] });
        Ok(self.post(&request)?["error"]["code"] != METHOD_NOT_FOUND)
    }

    /// Calls a method for each of `params`, in batches; the first error ends it.
    pub(crate) fn call_all(&self, method: &str, params: &[Value]) -> anyhow::Result<Vec<Value>> {
        let mut results = Vec::with_capacity(params.len());
        for params in params.chunks(BATCH) {
            let calls = params.iter().enumerate().map(|(id, params)| {
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
            });
            let mut answer = self.post(&Value::Array(calls.collect()))?;
            let Some(answers) = answer.as_array_mut() else {
                bail!("{}: {method} in a batch: {answer}", self.url);
            };
            // Answers of a batch may come in any order.
            answers.sort_by_key(|answer| answer["id"].as_u64());
            if answers.len() != params.len() {
                bail!("{}: {} answers to a batch of {}", self.url, answers.len(), params.len());
            }
            for answer in answers {
                match answer.get("error") {
                    Some(error) if !error.is_null() => bail!("{}: {method}: {error}", self.url),
                    _ => results.push(answer["result"].take()),
                }
            }
        }
        Ok(results)
    }

    fn post(&self, request: &Value) -> anyhow::Result<Value> {
        let mut response = self
            .agent
            .post(&self.url)
            .send_json(request)
            .with_context(|| format!("no node answers at {}", self.url))?;
        let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string();
        let body = body.with_context(|| format!("reading the answer of {}", self.url))?;
        serde_json::from_str(&body)
            .with_context(|| format!("{} does not answer JSON: {body:.100}", self.url))
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

    /// Transactions of a block.
    pub(crate) fn tx_count(&self, block: u64) -> anyhow::Result<u64> {
        self.quantity("eth_getBlockTransactionCountByNumber", json!([hex(block)]))
    }

    /// Mined transactions of accounts.
    pub(crate) fn nonces(&self, accounts: &[Address]) -> anyhow::Result<Vec<u64>> {
        let params: Vec<_> = accounts.iter().map(|at| json!([at, "latest"])).collect();
        let nonces = self.call_all("eth_getTransactionCount", &params)?;
        nonces.iter().map(quantity).collect()
    }

    /// Balances of accounts, in wei.
    pub(crate) fn balances(&self, accounts: &[Address]) -> anyhow::Result<Vec<U256>> {
        let params: Vec<_> = accounts.iter().map(|at| json!([at, "latest"])).collect();
        let balances = self.call_all("eth_getBalance", &params)?;
        let balances = balances.into_iter().map(serde_json::from_value);
        balances.map(|balance| balance.context("a balance is no quantity")).collect()
    }

    /// Who answers, in its own words.
    pub(crate) fn client_version(&self) -> String {
        let version = self.call("web3_clientVersion", json!([]));
        version.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// A quantity of JSON-RPC.
pub(crate) fn quantity(value: &Value) -> anyhow::Result<u64> {
    let quantity: U64 =
        serde_json::from_value(value.clone()).with_context(|| format!("{value} is no quantity"))?;
    Ok(quantity.to())
}

/// A number as JSON-RPC has it.
pub(crate) fn hex(number: u64) -> String {
    format!("{number:#x}")
}
