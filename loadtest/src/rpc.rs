//! JSON-RPC over HTTP, as far as the scenarios need it.

use alloy_primitives::{Address, U64};
use anyhow::{Context, bail};
use serde_json::{Value, json};

/// A node's JSON-RPC endpoint.
#[derive(Debug)]
pub(crate) struct Rpc {
    url: String,
}

impl Rpc {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned() }
    }

    /// Calls a method.
    pub(crate) fn call(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer: Value = ureq::post(&self.url)
            .send_json(&request)
            .with_context(|| format!("no node answers at {}", self.url))?
            .body_mut()
            .read_json()
            .with_context(|| format!("{} does not answer JSON", self.url))?;
        match answer.get("error") {
            Some(error) => bail!("{method}: {error}"),
            None => Ok(answer["result"].take()),
        }
    }

    fn quantity(&self, method: &str, params: Value) -> anyhow::Result<u64> {
        let value: U64 = serde_json::from_value(self.call(method, params)?)?;
        Ok(value.to())
    }

    pub(crate) fn chain_id(&self) -> anyhow::Result<u64> {
        self.quantity("eth_chainId", json!([]))
    }

    pub(crate) fn block_number(&self) -> anyhow::Result<u64> {
        self.quantity("eth_blockNumber", json!([]))
    }

    /// Mined transactions of an account.
    pub(crate) fn nonce(&self, address: Address) -> anyhow::Result<u64> {
        self.quantity("eth_getTransactionCount", json!([address, "latest"]))
    }
}
