//! Answers to the queries of the Cosmos interfaces: one function a query, the same for gRPC, REST
//! and the command line, made of the messages in [`proto`].
//!
//! Reads the published view only. Never waits for a stage but to submit a transaction.

mod auth;
mod bank;
mod block_txs;
mod call;
mod carried;
mod condition;
mod consensus;
mod envelope;
mod error;
mod events;
mod evm;
mod feemarket;
mod follow;
mod gov;
mod gov_v1beta1;
mod mempool;
mod msg_responses;
mod node;
mod page;
mod public_keys;
mod status;
mod supply;
mod token;
mod turns;
mod tx;
mod tx_codec;
mod tx_search;
mod validators;

pub use error::{Code, QueryError};
pub use follow::{Attributes, OfBlock, Watch};
pub use page::MAX_PAGE_ITEMS;
pub use proto;
pub use tx_codec::{tx_bytes, tx_encode};

use crate::EthCalls;
use ::feemarket::LegacyDec;
use alloy_consensus::Header;
use alloy_primitives::{Address, B256};
use alloy_rlp::Decodable;
use chain::{ChainSpec, Token};
use config::Config;
use keys::{bech32, parse_address};
use modules::Modules;
use pipeline::PoolClient;
use public_keys::PublicKeys;
use state::{Published, StateReader, View};
use std::{net::SocketAddr, sync::Arc};
use supply::Supply;
pub use turns::Turn;
use turns::{MAX_WAITING_CALLS, MAX_WAITING_READS, Turns};
pub use tx::ShownTx;
pub use validators::ALL_POWER;

/// What queries are answered from.
#[derive(Clone, Debug)]
pub struct Queries {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// Where the current view is published.
    pub published: Published,
    /// Submits transactions.
    pub pool: PoolClient,
    facts: Arc<Facts>,
}

/// What is told of the node itself, by its settings.
#[derive(Debug)]
struct Facts {
    /// Where JSON-RPC is served.
    json_rpc: SocketAddr,
    /// Least price that the pool takes, in wei per gas.
    price_limit: u64,
    /// The minimum price of gas of Cosmos transactions in the pool, in the token's base unit.
    minimum_gas_price: LegacyDec,
    /// How much of the token there is.
    supply: Supply,
    /// Public keys of accounts.
    public_keys: PublicKeys,
    /// Runs calls of contracts.
    calls: Arc<dyn EthCalls>,
    /// Turns of calls: half the cores' work at most.
    call_turns: Turns,
    /// Turns of searches, likewise.
    search_turns: Turns,
    /// Turns of queries that read a whole block or the governance state, likewise.
    read_turns: Turns,
}

impl Queries {
    /// Answers of a chain, by a node of these settings. `calls` runs calls of contracts.
    pub fn new(
        spec: Arc<ChainSpec>,
        published: Published,
        pool: PoolClient,
        config: &Config,
        calls: Arc<dyn EthCalls>,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // A node whose price is in another token does not start.
        let minimum = config.mempool.minimum_gas_prices.in_token(spec.token(0).denom);
        let minimum = minimum.ok().flatten().map(|price| price.amount);
        let facts = Facts {
            json_rpc: config.json_rpc.address,
            price_limit: config.mempool.price_limit,
            minimum_gas_price: minimum.unwrap_or_default(),
            supply: Supply::default(),
            public_keys: PublicKeys::default(),
            calls,
            call_turns: Turns::new(cores.div_ceil(2), MAX_WAITING_CALLS),
            search_turns: Turns::new(cores.div_ceil(2), MAX_WAITING_CALLS),
            read_turns: Turns::new(cores.div_ceil(2), MAX_WAITING_READS),
        };
        Self { spec, published, pool, facts: Arc::new(facts) }
    }

    /// Waits for the turn of a call.
    ///
    /// # Errors
    /// When enough wait already.
    pub async fn call_turn(&self) -> Result<Turn, QueryError> {
        self.facts.call_turns.next().await
    }

    /// Waits for the turn of a search.
    ///
    /// # Errors
    /// As [`Self::call_turn`].
    pub async fn search_turn(&self) -> Result<Turn, QueryError> {
        self.facts.search_turns.next().await
    }

    /// Waits for the turn of a query that reads a whole block or the governance state.
    ///
    /// # Errors
    /// As [`Self::call_turn`].
    pub async fn read_turn(&self) -> Result<Turn, QueryError> {
        self.facts.read_turns.next().await
    }

    /// The chain as of block `height`; 0 is the newest.
    ///
    /// # Errors
    /// If there is no such block yet.
    pub fn at(&self, height: u64) -> Result<Snapshot, QueryError> {
        let view = self.published.load();
        let head = view.number();
        if height > head {
            return Err(QueryError::invalid(format!(
                "cannot query with height in the future: {height}, the newest block is {head}"
            )));
        }
        let number = if height == 0 { head } else { height };
        let (spec, facts) = (Arc::clone(&self.spec), Arc::clone(&self.facts));
        Ok(Snapshot { spec, view, number, facts })
    }
}

/// The chain as of one block.
#[derive(Clone, Debug)]
pub struct Snapshot {
    spec: Arc<ChainSpec>,
    view: Arc<View>,
    number: u64,
    facts: Arc<Facts>,
}

impl Snapshot {
    /// The block it is of.
    pub const fn number(&self) -> u64 {
        self.number
    }

    fn state(&self) -> Result<StateReader, QueryError> {
        Ok(self.view.state.reader_at(self.number)?)
    }

    fn address(&self, text: &str) -> Result<Address, QueryError> {
        parse_address(text, &self.spec.bech32_prefix)
            .map_err(|error| QueryError::invalid(format!("invalid address: {error}")))
    }

    /// The modules of a native chain.
    fn modules(&self) -> Result<Option<Arc<Modules>>, QueryError> {
        let Some(native) = self.spec.native() else { return Ok(None) };
        self.view.modules_after(native, self.number).map(Some).map_err(QueryError::internal)
    }

    /// The modules of a native chain without the governance state.
    fn parameters(&self) -> Result<Option<Arc<Modules>>, QueryError> {
        let Some(native) = self.spec.native() else { return Ok(None) };
        self.view.parameters_after(native, self.number).map(Some).map_err(QueryError::internal)
    }

    /// The token at this snapshot's block.
    fn token(&self) -> Token<'_> {
        self.spec.token(self.number)
    }

    /// The name of the token's base unit, which never changes.
    fn denom(&self) -> String {
        self.token().denom.to_owned()
    }

    /// The name of the wei in envelopes of Ethereum transactions of block `number`.
    fn extended_denom(&self, number: u64) -> String {
        self.spec.token(number).extended_denom()
    }

    fn bech32(&self, address: Address) -> String {
        bech32(&self.spec.bech32_prefix, address)
    }

    fn header(&self, number: u64) -> Result<(B256, Header), QueryError> {
        if number == self.view.number() {
            return Ok((self.view.head.hash, self.view.head.header.as_ref().clone()));
        }
        let header = self.view.blocks()?.header(number)?;
        let (hash, rlp) = header
            .ok_or_else(|| QueryError::internal(format_args!("block {number} has no header")))?;
        let header = Header::decode(&mut rlp.as_ref()).map_err(QueryError::internal)?;
        Ok((hash, header))
    }
}
