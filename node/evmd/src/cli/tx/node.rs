//! The REST client of `evmd tx`: queries the node, and sends transactions to it.

use super::flags::BroadcastMode;
use crate::cli::{
    Output,
    query::{
        NodeArg,
        client::Client,
        rest::escape,
        server::{Server, is_rest},
        yaml,
    },
};
use alloy_primitives::Address;
use anyhow::{Context, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::{Token, TokenUnit};
use feemarket::TokenDecimals;
use serde_json::{Value, json};
use std::io::Write;
use transactions::cosmos::GasPrice;

/// The HTTP status of fee market queries on a chain that follows Ethereum's rules (a failed precondition in gRPC).
const NO_FEE_MARKET: u16 = 400;

/// The token of a node's chain.
pub(super) struct NodeToken {
    denom: String,
    unit: TokenUnit,
}

impl NodeToken {
    pub(super) fn token(&self) -> Token<'_> {
        Token { denom: &self.denom, unit: self.unit }
    }

    /// Returns the unit with this name: the base unit, or wei if the name is the extended one.
    pub(super) fn unit_named(&self, denom: &str) -> anyhow::Result<TokenUnit> {
        let (token, extended) = (self.token(), self.token().extended_denom());
        if denom == token.denom {
            return Ok(token.unit);
        }
        if denom == extended {
            return Ok(TokenUnit::WEI);
        }
        let names = if token.denom == extended {
            extended
        } else {
            format!("{} and, for wei, {extended}", token.denom)
        };
        bail!("unknown denomination {denom}: this chain has {names}")
    }

    /// Converts a price to whole wei, rounded up; `None` if it exceeds 128 bits.
    pub(super) fn price_in_wei(&self, price: &GasPrice) -> anyhow::Result<Option<u128>> {
        let wei = self.unit_named(&price.denom)?.price_to_wei(price.amount);
        Ok(wei.ok().and_then(|wei| u128::try_from(wei.ceil()).ok()))
    }
}

pub(super) struct Node {
    /// A client of the REST server.
    client: Client,
}

impl Node {
    pub(super) fn new(node: &NodeArg) -> anyhow::Result<Self> {
        Ok(Self { client: node.client(Server::Rest)? })
    }

    fn get(&self, path: &str) -> anyhow::Result<Value> {
        read(self.client.get(path, "")?)
    }

    fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        read(self.client.post(path, &body.to_string())?)
    }

    /// Queries the chain's EIP-155 id, which is also its Cosmos id.
    pub(super) fn chain_id(&self) -> anyhow::Result<u64> {
        let info = self.get("/cosmos/base/tendermint/v1beta1/node_info")?;
        let network = info["default_node_info"]["network"].as_str().unwrap_or_default();
        network.parse().with_context(|| format!("the node's chain id is {network:?}"))
    }

    pub(super) fn prefix(&self) -> anyhow::Result<String> {
        let response = self.get("/cosmos/auth/v1beta1/bech32")?;
        let prefix = response["bech32_prefix"].as_str();
        Ok(prefix.context("the node returned no Bech32 prefix")?.to_owned())
    }

    /// Queries the token of the chain. The decimals are read from its metadata, because with rules version 0 the base
    /// unit is one wei regardless of the decimals in the genesis.
    pub(super) fn token(&self) -> anyhow::Result<NodeToken> {
        let response = self.get("/cosmos/evm/vm/v1/params")?;
        let denom = response["params"]["evm_denom"].as_str();
        let denom = denom.context("the node returned no token")?.to_owned();
        let path = "/cosmos/bank/v1beta1/denoms_metadata_by_query_string";
        let response = self.get(&format!("{path}?denom={}", escape(&denom)))?;
        let units = response["metadata"]["denom_units"].as_array();
        let units = units.context("the node returned no metadata of its token")?;
        let whole = units.iter().filter_map(|unit| unit["exponent"].as_u64()).max();
        let unit = match whole.unwrap_or_default() {
            0 => TokenUnit::WEI,
            decimals => {
                let decimals = u8::try_from(decimals).context("decimals of the token")?;
                TokenUnit::of(TokenDecimals::new(decimals)?)
            }
        };
        Ok(NodeToken { denom, unit })
    }

    /// Queries the base fee of the newest block, in wei.
    pub(super) fn base_fee(&self) -> anyhow::Result<u128> {
        let response = self.get("/cosmos/evm/vm/v1/base_fee")?;
        response["base_fee"]
            .as_str()
            .and_then(|fee| fee.parse().ok())
            .context("the node returned no base fee")
    }

    /// Returns the lowest gas price in whole wei that certainly reaches the chain's minimum: 1 more than
    /// `min_gas_price`, because the node does not report its fraction, or 1 on a chain without a fee market.
    pub(super) fn min_price(&self) -> anyhow::Result<u128> {
        let (status, body) = self.client.get("/cosmos/evm/vm/v1/min_gas_price", "")?;
        if status == NO_FEE_MARKET {
            return Ok(1);
        }
        let response = read((status, body))?;
        let price = response["min_gas_price"].as_str().and_then(|price| price.parse::<u128>().ok());
        Ok(price.context("the node returned no minimum price")?.saturating_add(1))
    }

    /// Queries the minimum gas price for Cosmos transactions in the node's mempool, in wei, rounded up.
    pub(super) fn mempool_price(&self, token: &NodeToken) -> anyhow::Result<u128> {
        let response = self.get("/cosmos/base/node/v1beta1/config")?;
        let price = response["minimum_gas_price"].as_str().unwrap_or_default();
        let price: GasPrice = price.parse().context("the node's minimum_gas_price")?;
        token.price_in_wei(&price)?.context("the node's minimum_gas_price is out of range")
    }

    /// Queries the sequence of the account's next transaction. It follows those in the mempool, because a Cosmos
    /// transaction cannot replace them.
    pub(super) fn sequence(&self, account: Address) -> anyhow::Result<u64> {
        let path = format!("/evmd/mempool/v1/pending_sequence/{}", escape(&account.to_string()));
        let response = self.get(&path)?;
        response["sequence"].as_str().and_then(|next| next.parse().ok()).context("no sequence")
    }

    /// Simulates a transaction and returns the gas that it uses.
    pub(super) fn simulate(&self, tx: &[u8]) -> anyhow::Result<u64> {
        let response = self.simulated(tx)?;
        let gas = response["gas_info"]["gas_used"].as_str();
        gas.and_then(|gas| gas.parse().ok()).context("the node returned no gas")
    }

    /// Simulates a transaction and returns the whole response.
    pub(super) fn simulated(&self, tx: &[u8]) -> anyhow::Result<Value> {
        let body = json!({ "tx_bytes": BASE64.encode(tx) });
        self.post("/cosmos/tx/v1beta1/simulate", &body)
    }

    /// Sends a transaction and prints the result. If the node refuses the transaction, also returns an error.
    pub(super) fn broadcast(
        &self,
        tx: &[u8],
        mode: BroadcastMode,
        output: Output,
    ) -> anyhow::Result<()> {
        let mode = match mode {
            BroadcastMode::Sync => "BROADCAST_MODE_SYNC",
            BroadcastMode::Async => "BROADCAST_MODE_ASYNC",
        };
        let body = json!({ "tx_bytes": BASE64.encode(tx), "mode": mode });
        let response = self.post("/cosmos/tx/v1beta1/txs", &body)?;
        let result = &response["tx_response"];
        print(result, output)?;
        if result["code"] != 0 {
            let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
            bail!("{} ({} {})", text("raw_log"), text("codespace"), result["code"]);
        }
        Ok(())
    }
}

/// Parses a REST response. A status other than 200 is an error.
fn read(response: (u16, String)) -> anyhow::Result<Value> {
    let (status, body) = &response;
    ensure!(is_rest(&response), "the response is not one of REST: it has status {status}");
    let response: Value = serde_json::from_str(body).context("the response is not JSON")?;
    if *status != 200 {
        bail!("{}", response["message"].as_str().unwrap_or("the node returned no reason"));
    }
    Ok(response)
}

/// Prints a value as YAML, or as JSON on one line.
pub(super) fn print(value: &Value, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Text => yaml::text(value),
        Output::Json => format!("{value}\n"),
    };
    let mut out = crate::cli::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
