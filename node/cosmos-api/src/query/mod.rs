//! Answers the queries of the Cosmos interfaces, with one function for each query. gRPC, REST and CometBFT's RPC share
//! these functions, whose results are the messages in [`proto`].
//!
//! Queries only read the published view. None of them waits for a pipeline stage, except to submit a transaction or
//! to query the pool.

mod auth;
mod bank;
mod block_search;
mod block_txs;
mod call;
mod comet_block;
mod commit;
mod consensus;
mod envelope;
mod error;
mod events;
mod evm;
mod feemarket;
mod gov;
mod gov_v1beta1;
mod mempool;
mod node;
mod page;
mod public_keys;
mod status;
mod supply;
mod token;
mod tx;
mod tx_codec;
mod tx_search;
mod validators;
mod watch;

pub use block_search::{BlockPage, FoundBlocks};
pub use error::{Code, QueryError};
pub use page::MAX_PAGE_ITEMS;
pub use proto;
pub use tx_codec::{tx_bytes, tx_encode};
pub use watch::{Attributes, BlockEventKind, Watch};

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
use server::concurrency_limit::{ConcurrencyLimit, ConcurrencyPermit};
use state::{Published, StateReader, View};
use std::{net::SocketAddr, sync::Arc};
use supply::Supply;
pub use tx::MinedTxResponse;
pub use validators::{ConsensusValidator, VOTING_POWER};

/// Maximum number of waiting calls, and of waiting searches: an eighth of the requests that REST serves at once by
/// default.
const MAX_WAITING_CALLS: usize = 8;
/// Maximum number of waiting reads of a whole block or the governance state: as many requests as REST, gRPC, the
/// CometBFT RPC and its WebSockets together serve at once by default.
const MAX_WAITING_READS: usize = 256;

/// The state that queries share.
#[derive(Clone, Debug)]
pub struct Queries {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The published view.
    pub published: Published,
    /// Submits transactions and queries the pool.
    pub pool: PoolClient,
    facts: Arc<Facts>,
}

/// Settings of the node, caches and concurrency limits.
#[derive(Debug)]
struct Facts {
    /// The name of the node.
    moniker: String,
    /// The address of JSON-RPC, if it is served.
    json_rpc: Option<SocketAddr>,
    /// The address of the web pages, if they are served.
    pages: Option<SocketAddr>,
    /// Minimum gas price of the pool, in wei.
    price_limit: u64,
    /// Minimum gas price of Cosmos transactions in the pool, in the base unit of the token.
    minimum_gas_price: LegacyDec,
    supply: Supply,
    public_keys: PublicKeys,
    calls: Arc<dyn EthCalls>,
    /// Limits concurrent calls to half of the cores.
    call_limit: ConcurrencyLimit,
    /// Limits concurrent searches to half of the cores.
    search_limit: ConcurrencyLimit,
    /// Limits concurrent queries that read a whole block or the governance state to half of the cores.
    read_limit: ConcurrencyLimit,
}

impl Queries {
    /// Creates the queries of a chain, for a node with these settings. `calls` runs contract calls.
    pub fn new(
        spec: Arc<ChainSpec>,
        published: Published,
        pool: PoolClient,
        config: &Config,
        calls: Arc<dyn EthCalls>,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // This cannot fail, because a node does not start if the price is in another token.
        let minimum = config.mempool.minimum_gas_prices.in_token(spec.token(0).denom);
        let minimum = minimum.ok().flatten().map(|price| price.amount);
        let facts = Facts {
            moniker: config.node.moniker.clone(),
            json_rpc: config.json_rpc.address.address(),
            pages: config.pages.address.address(),
            price_limit: config.mempool.price_limit,
            minimum_gas_price: minimum.unwrap_or_default(),
            supply: Supply::default(),
            public_keys: PublicKeys::default(),
            calls,
            call_limit: ConcurrencyLimit::new(cores.div_ceil(2), MAX_WAITING_CALLS),
            search_limit: ConcurrencyLimit::new(cores.div_ceil(2), MAX_WAITING_CALLS),
            read_limit: ConcurrencyLimit::new(cores.div_ceil(2), MAX_WAITING_READS),
        };
        Self { spec, published, pool, facts: Arc::new(facts) }
    }

    /// Returns the address of the web pages, if they are served.
    pub(crate) fn pages(&self) -> Option<SocketAddr> {
        self.facts.pages
    }

    /// Waits for a permit to run a call.
    ///
    /// # Errors
    /// If too many calls are waiting.
    pub async fn call_permit(&self) -> Result<ConcurrencyPermit, QueryError> {
        Ok(self.facts.call_limit.acquire().await?)
    }

    /// Waits for a permit to run a search.
    ///
    /// # Errors
    /// Same as [`Self::call_permit`].
    pub async fn search_permit(&self) -> Result<ConcurrencyPermit, QueryError> {
        Ok(self.facts.search_limit.acquire().await?)
    }

    /// Waits for a permit to read a whole block or the governance state.
    ///
    /// # Errors
    /// Same as [`Self::call_permit`].
    pub async fn read_permit(&self) -> Result<ConcurrencyPermit, QueryError> {
        Ok(self.facts.read_limit.acquire().await?)
    }

    /// Returns the chain at block `height`, or at the newest block if `height` is 0.
    ///
    /// # Errors
    /// If the block does not exist yet.
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
        let is_behind = self.published.following().is_some_and(|following| following.is_behind);
        Ok(Snapshot { spec, view, number, is_behind, facts })
    }
}

/// The chain at one block.
#[derive(Clone, Debug)]
pub struct Snapshot {
    spec: Arc<ChainSpec>,
    view: Arc<View>,
    number: u64,
    /// Whether the node follows others and is behind them.
    is_behind: bool,
    facts: Arc<Facts>,
}

impl Snapshot {
    /// Returns the number of the block.
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

    /// Returns the modules of a native chain.
    fn modules(&self) -> Result<Option<Arc<Modules>>, QueryError> {
        let Some(native) = self.spec.native() else { return Ok(None) };
        self.view.modules_after(native, self.number).map(Some).map_err(QueryError::internal)
    }

    /// Returns the modules of a native chain without the governance state.
    fn parameters(&self) -> Result<Option<Arc<Modules>>, QueryError> {
        let Some(native) = self.spec.native() else { return Ok(None) };
        self.view.parameters_after(native, self.number).map(Some).map_err(QueryError::internal)
    }

    /// Returns the token at this snapshot's block.
    fn token(&self) -> Token<'_> {
        self.spec.token(self.number)
    }

    /// Returns the name of the token's base unit, which never changes.
    fn denom(&self) -> String {
        self.token().denom.to_owned()
    }

    /// Returns the name of the wei in envelopes of Ethereum transactions of block `number`.
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
