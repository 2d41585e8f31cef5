//! Reads and writes the settings: the file `config.toml` in the home folder, which command-line flags override.
//!
//! An unknown key is an error, because a misspelt one would have no effect.

mod bounds;
mod cosmos;
mod endpoints;
mod engine;
mod file;
mod listen;
mod minimum_gas_prices;
mod network;
mod node;
mod p2p;
mod pages;
mod replication;
mod server;
mod snapshot;

pub use bounds::{NOT_TOML, with_setting};
pub use cosmos::{Comet, Grpc, Rest};
pub use endpoints::{Endpoints, PortTooHigh};
pub use engine::Engine;
pub use file::with_value;
pub use listen::{InvalidListen, Listen};
pub use minimum_gas_prices::{ForeignToken, MinimumGasPrices, MinimumGasPricesError};
pub use network::{InvalidNetwork, Network};
pub use node::Node;
pub use p2p::{InvalidValidatorAddress, P2p, ValidatorAddress};
pub use pages::Pages;
pub use replication::{HalfOfPair, InvalidVerification, Replication, Verification};
pub use server::Server;
pub use snapshot::Snapshot;

use keys::keyring::Backend;
use mempool::Limits;
use platform::memory::{self, derived};
use platform::whole_file;
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use storage::trie::{MIN_TRIE_CACHE_BYTES, TRIE_CACHE_BYTES_DEFAULT};

/// Name of the settings file in the home folder.
pub const CONFIG_FILE: &str = "config.toml";

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The node itself.
    pub node: Node,
    /// Settings of all servers.
    pub server: Server,
    /// Ethereum JSON-RPC.
    pub json_rpc: JsonRpc,
    /// Cosmos queries over REST.
    pub rest: Rest,
    /// Cosmos queries over gRPC.
    pub grpc: Grpc,
    /// CometBFT's RPC.
    pub comet: Comet,
    /// Raw transactions over TCP.
    pub ingest: Ingest,
    /// Metrics, health and status.
    pub metrics: Metrics,
    /// Web pages.
    pub pages: Pages,
    /// Replicas.
    pub replication: Replication,
    /// Connections between validators.
    pub p2p: P2p,
    /// Block production.
    pub engine: Engine,
    /// Pending and queued transactions.
    pub mempool: Mempool,
    /// The threads of the pipeline.
    pub pipeline: Pipeline,
    /// The two LMDB environments.
    pub storage: Storage,
    /// Snapshots that the node makes itself.
    pub snapshot: Snapshot,
}

/// `[json-rpc]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct JsonRpc {
    /// The address of HTTP, which also accepts WebSockets.
    pub address: Listen,
    /// The address of the server that only accepts WebSockets.
    pub ws_address: Listen,
    /// Namespaces served at `address`. `debug`, `trace` and `testing` must be named to be served.
    pub api: Vec<String>,
    /// Namespaces served at `ws-address`.
    pub ws_api: Vec<String>,
    /// Host names that requests may use, as a protection against DNS rebinding. IP addresses are always
    /// accepted. `*` accepts every name.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read responses and open WebSockets. `:*` matches any port, `*` any origin.
    pub cors_origins: Vec<String>,
    /// Maximum calls per second of one connection. An expensive call counts as several calls. 0 means no limit.
    pub rate_per_connection: u32,
    /// Maximum calls per second of one address (for IPv6, of one /64). 0 means no limit.
    pub rate_per_ip: u32,
    /// Maximum number of filters of all clients.
    pub filter_cap: usize,
    /// Seconds after which a filter that is not polled is removed.
    #[serde(deserialize_with = "bounds::wait_s")]
    pub filter_lifetime_s: u64,
    /// Maximum number of subscriptions of a connection.
    pub max_subscriptions: u32,
    /// Number of threads that serve sockets; 0 starts one for each core. Half of them, rounded down, serve
    /// connections with large responses.
    pub threads: usize,
    /// Maximum number of connections, of both addresses together.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Maximum number of connections of one client address. 0 means that only `max_connections` applies.
    pub max_connections_per_ip: u32,
    /// Seconds after which a connection without a complete request is closed.
    #[serde(deserialize_with = "bounds::wait_s")]
    pub idle_timeout_s: u64,
    /// Seconds within which a client must read 64 KiB, or the rest of its responses.
    #[serde(deserialize_with = "bounds::wait_s")]
    pub slow_client_s: u64,
    /// Maximum size of a request body in bytes.
    pub max_request_bytes: u32,
    /// Maximum size of a response body in bytes.
    pub max_response_bytes: u32,
    /// Maximum number of calls in a batch.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_batch: u32,
    /// Maximum gas of an `eth_call` or `eth_estimateGas`.
    pub gas_cap: u64,
    /// Milliseconds after which an `eth_call`, an estimate or a simulation is aborted.
    #[serde(deserialize_with = "bounds::wait_ms")]
    pub call_timeout_ms: u64,
    /// Milliseconds after which a trace is aborted.
    #[serde(deserialize_with = "bounds::wait_ms")]
    pub trace_timeout_ms: u64,
    /// Maximum number of logs in a response.
    pub logs_cap: usize,
    /// Milliseconds after which a log search returns what it has found.
    #[serde(deserialize_with = "bounds::wait_ms")]
    pub logs_timeout_ms: u64,
    /// Bytes of memory to cache responses about blocks. 0 derives the number from the memory of the machine.
    pub answer_cache_bytes: u64,
    /// Maximum number of blocks in an `eth_feeHistory`.
    pub feehistory_cap: u64,
    /// Keyring of the home folder whose keys sign for clients: `off`, `file`, `os` or `test`. The namespace
    /// `personal` is served only if `api` also names it.
    pub keyring: KeyringChoice,
    /// Sign with the keyring even if other machines can reach the address of JSON-RPC.
    pub allow_remote_signing: bool,
}

/// Maximum number of threads that serve sockets, far more than a network card needs.
const MAX_SERVE_THREADS: usize = 64;

/// Size of the response cache on a machine with enough memory, in bytes.
const FULL_ANSWER_CACHE_BYTES: u64 = 128 << 20;
/// Minimum size of the response cache in bytes.
const MIN_ANSWER_CACHE_BYTES: u64 = 8 << 20;

impl JsonRpc {
    /// Returns the size of the response cache in bytes.
    pub fn answer_cache_bytes(&self) -> u64 {
        match self.answer_cache_bytes {
            0 => derived(FULL_ANSWER_CACHE_BYTES, MIN_ANSWER_CACHE_BYTES),
            set => set,
        }
    }

    /// Returns the number of threads that serve sockets.
    pub fn threads(&self) -> usize {
        self.threads_on(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Does the same as [`Self::threads()`] for a machine with this number of cores.
    pub fn threads_on(&self, cores: usize) -> usize {
        let wanted = match self.threads {
            0 => cores,
            set => set,
        };
        wanted.clamp(1, MAX_SERVE_THREADS)
    }
}

/// The keyring that signs for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum KeyringChoice {
    /// No keyring: the node does not sign.
    #[default]
    Off,
    /// Encrypted with a passphrase, which `evmd start` asks for.
    File,
    /// Encrypted with a secret of the desktop's secret service.
    Os,
    /// Not encrypted.
    Test,
}

impl KeyringChoice {
    /// Returns the backend of the keyring, if there is one.
    pub const fn backend(self) -> Option<Backend> {
        match self {
            Self::Off => None,
            Self::File => Some(Backend::File),
            Self::Os => Some(Backend::Os),
            Self::Test => Some(Backend::Test),
        }
    }
}

impl Default for JsonRpc {
    fn default() -> Self {
        Self {
            address: local(8545),
            // The address of HTTP also accepts WebSockets.
            ws_address: Listen::Off,
            api: ["eth", "net", "web3", "rpc", "txpool", "evmd"].map(str::to_owned).into(),
            ws_api: ["eth", "net", "web3", "rpc", "txpool", "evmd"].map(str::to_owned).into(),
            allowed_hosts: local_hosts(),
            cors_origins: local_origins(),
            rate_per_connection: 0,
            rate_per_ip: 0,
            filter_cap: 10_000,
            filter_lifetime_s: 300,
            max_subscriptions: 256,
            threads: 0,
            max_connections: 1000,
            max_connections_per_ip: 0,
            idle_timeout_s: 120,
            slow_client_s: 20,
            max_request_bytes: 5 * 1024 * 1024,
            max_response_bytes: 64 * 1024 * 1024,
            max_batch: 1000,
            gas_cap: 50_000_000,
            call_timeout_ms: 5_000,
            trace_timeout_ms: 30_000,
            logs_cap: 10_000,
            logs_timeout_ms: 5_000,
            answer_cache_bytes: 0,
            feehistory_cap: 1024,
            keyring: KeyringChoice::Off,
            allow_remote_signing: false,
        }
    }
}

/// `[ingest]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ingest {
    /// The address to listen on for raw transaction frames.
    pub address: Listen,
    /// Maximum number of connections.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
}

/// Default of `max-connections` for ingest. Each of them has a read buffer of 64 KiB.
const MAX_INGEST_CONNECTIONS: u32 = 1024;

impl Default for Ingest {
    fn default() -> Self {
        // Only load tests use the ingest server.
        Self { address: Listen::Off, max_connections: MAX_INGEST_CONNECTIONS }
    }
}

/// `[metrics]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metrics {
    /// The address of `/metrics`, `/health`, `/ready` and `/status`.
    pub address: Listen,
    /// Host names that requests may use, as in `json-rpc.allowed-hosts`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read responses, as in `json-rpc.cors-origins`.
    pub cors_origins: Vec<String>,
}

impl Default for Metrics {
    fn default() -> Self {
        let (allowed_hosts, cors_origins) = (local_hosts(), local_origins());
        Self { address: local(26660), allowed_hosts, cors_origins }
    }
}

/// `[mempool]`, with geth's names for the settings that geth also has. A transaction takes one slot per started 32 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mempool {
    /// Minimum fee cap, in wei per gas.
    pub price_limit: u64,
    /// Minimum priority fee cap, in wei per gas.
    pub min_tip: u64,
    /// Minimum gas price of transactions that enter the pool, in the syntax of the SDK's setting with this
    /// name, such as `0.5atest`. It applies to Cosmos transactions, and to Ethereum transactions before London.
    /// An empty value means no minimum.
    pub minimum_gas_prices: MinimumGasPrices,
    /// Minimum increase of both fee fields by a replacement, in percent.
    pub price_bump: u32,
    /// Executable slots that are guaranteed to an account as long as other accounts use more.
    pub account_slots: usize,
    /// Maximum number of executable slots of all accounts. 0 derives it from the memory of the machine.
    pub global_slots: usize,
    /// Maximum number of slots of transactions behind a nonce gap, for one account.
    pub account_queue: usize,
    /// Maximum number of slots of transactions behind nonce gaps, for all accounts. 0 derives it from the memory of the
    /// machine.
    pub global_queue: usize,
    /// Seconds after which transactions behind a nonce gap are removed.
    pub lifetime_s: u64,
    /// Store accepted transactions in a file until they are in a durable block, so that they survive a kill of
    /// the process.
    pub journal: bool,
    /// Sync that file before each response, so that accepted transactions also survive a power failure. This
    /// costs the latency of the disk for each batch.
    pub journal_sync: bool,
    /// Accept transactions although this node does not produce blocks. They wait until the node is started with
    /// block production.
    pub accept_without_production: bool,
}

impl Default for Mempool {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            price_limit: 1,
            min_tip: 0,
            minimum_gas_prices: MinimumGasPrices::default(),
            price_bump: 10,
            account_slots: limits.account_slots,
            global_slots: 0,
            account_queue: limits.account_queue,
            global_queue: 0,
            lifetime_s: limits.lifetime.as_secs(),
            journal: true,
            journal_sync: false,
            accept_without_production: false,
        }
    }
}

/// Minimum for the number of executable slots derived from the memory: three full blocks of transfers at the default
/// gas limit, or 512 MiB if each transaction fills its slot.
const MIN_GLOBAL_SLOTS: usize = 16_384;
/// Minimum for the derived number of slots behind nonce gaps.
const MIN_GLOBAL_QUEUE: usize = 4_096;

impl Mempool {
    /// Returns the limits of the mempool.
    pub fn limits(&self) -> Limits {
        self.limits_on(memory::available_memory())
    }

    /// Does the same as [`Self::limits`] for a machine with `memory` bytes.
    pub fn limits_on(&self, memory: u64) -> Limits {
        let default = Limits::default();
        let slots = |set, full: usize, minimum: usize| match set {
            0 => memory::derived_on(memory, full as u64, minimum as u64) as usize,
            set => set,
        };
        Limits {
            price_limit: self.price_limit.into(),
            min_tip: self.min_tip.into(),
            price_bump: self.price_bump.into(),
            account_slots: self.account_slots,
            global_slots: slots(self.global_slots, default.global_slots, MIN_GLOBAL_SLOTS),
            account_queue: self.account_queue,
            global_queue: slots(self.global_queue, default.global_queue, MIN_GLOBAL_QUEUE),
            lifetime: Duration::from_secs(self.lifetime_s),
        }
    }
}

/// `[pipeline]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pipeline {
    /// Number of threads that recover senders. 0 starts one for each core except three, which the other stages need,
    /// but at least two if the machine has two cores.
    pub recover_workers: usize,
}

/// Maximum number of recovery threads, because their rings are polled one by one.
const MAX_RECOVER_WORKERS: usize = 64;
/// Number of cores that the ordered stages use.
const ORDERED_CORES: usize = 3;

impl Pipeline {
    /// Returns the number of recovery threads.
    pub fn recover_workers(&self) -> usize {
        self.recover_workers_on(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Does the same as [`Self::recover_workers()`] for a machine with this number of cores.
    pub fn recover_workers_on(&self, cores: usize) -> usize {
        let wanted = match self.recover_workers {
            0 => cores.saturating_sub(ORDERED_CORES).max(cores.min(2)),
            set => set,
        };
        wanted.clamp(1, MAX_RECOVER_WORKERS)
    }
}

/// `[storage]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Storage {
    /// Maximum size of the chain environment in bytes. It only reserves address space.
    #[serde(deserialize_with = "bounds::map_bytes")]
    pub chain_map_bytes: u64,
    /// Maximum size of the index environment in bytes. It only reserves address space.
    #[serde(deserialize_with = "bounds::map_bytes")]
    pub index_map_bytes: u64,
    /// Maximum number of accounts of the newest state that execution caches. The mempool's checks cache as many
    /// again, and execution caches a quarter as many slots. An account takes 85 bytes and a slot 171, allocated
    /// on first use. 0 derives the number from the memory of the machine.
    pub recent_accounts: usize,
    /// Maximum size of the state trie in memory in bytes, without changes that are not in the index yet. 0
    /// derives the number from the memory of the machine.
    pub trie_cache_bytes: u64,
    /// Number of newest blocks that can be undone while the node runs. They are kept out of the index, and a restart
    /// reads them again. 0 for a producer whose blocks are final; on a development chain, 0 means 64.
    #[serde(deserialize_with = "bounds::undo_blocks")]
    pub undo_blocks: usize,
}

/// Two maps with 2^23 entries, three quarters full: 1.07 GB when all are used, the same for the mempool's
/// checks, and 540 MB for slots. With a quarter of this, transfers between ten million accounts took a seventh
/// longer, because execution and the mempool look up missing entries in the index.
const FULL_RECENT_ACCOUNTS: usize = (1 << 24) / 4 * 3;
/// Minimum for the number derived from the memory: the accounts of a few large blocks, 42 MB with the slots.
const MIN_RECENT_ACCOUNTS: usize = (1 << 18) / 4 * 3;

impl Storage {
    /// Returns the number of accounts that execution caches.
    pub fn recent_accounts(&self) -> usize {
        match self.recent_accounts {
            0 => derived(FULL_RECENT_ACCOUNTS as u64, MIN_RECENT_ACCOUNTS as u64) as usize,
            set => set,
        }
    }

    /// Returns the maximum size of the state trie in memory in bytes.
    pub fn trie_cache_bytes(&self) -> u64 {
        match self.trie_cache_bytes {
            0 => derived(TRIE_CACHE_BYTES_DEFAULT, MIN_TRIE_CACHE_BYTES),
            set => set,
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            chain_map_bytes: 1 << 40,
            index_map_bytes: 1 << 40,
            recent_accounts: 0,
            trie_cache_bytes: 0,
            undo_blocks: 0,
        }
    }
}

/// Returns the host names by which a machine reaches itself.
fn local_hosts() -> Vec<String> {
    vec!["localhost".to_owned()]
}

/// Returns the origins of pages served by this machine, at any port.
fn local_origins() -> Vec<String> {
    ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned).into()
}

/// Returns a loopback address: by default, no server is reachable from other machines.
fn local(port: u16) -> Listen {
    Listen::At(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not valid TOML, or has an unknown key or an invalid value.
    #[error("{}, line {line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, starting at 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}

impl Config {
    /// Returns the memory that the process may use, and the effective values of the settings that are derived from it.
    pub fn derived(&self) -> Vec<(&'static str, u64)> {
        let limits = self.mempool.limits();
        vec![
            ("memory", memory::available_memory()),
            ("server.max-client-bytes", self.server.max_client_bytes()),
            ("json-rpc.answer-cache-bytes", self.json_rpc.answer_cache_bytes()),
            ("mempool.global-slots", limits.global_slots as u64),
            ("mempool.global-queue", limits.global_queue as u64),
            ("storage.recent-accounts", self.storage.recent_accounts() as u64),
            ("storage.trie-cache-bytes", self.storage.trie_cache_bytes()),
        ]
    }

    /// Reads `config.toml` of a home folder. If there is no file, returns the defaults.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join(CONFIG_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // A symbolic link without a target is an error, because the settings exist but cannot be read.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && !whole_file::is_present(&path) =>
            {
                return Ok(Self::default());
            }
            Err(source) => return Err(ConfigError::Io { path, source }),
        };
        toml::from_str(&text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let reason = error.message().replace('\n', ", ");
            let (line, message) =
                (bounds::line_of(&text, offset), bounds::with_setting_at(&text, offset, reason));
            ConfigError::Syntax { path, line, message }
        })
    }

    /// Returns the settings that differ from the defaults: name, value and default.
    pub fn differences(&self) -> Vec<(String, toml::Value, toml::Value)> {
        file::differences(self)
    }

    /// Writes the settings to a home folder that has no settings file yet. Settings that have their default are
    /// comments.
    pub fn write_new(&self, home: &Path) -> Result<(), ConfigError> {
        let path = home.join(CONFIG_FILE);
        if whole_file::is_present(&path) {
            return Ok(());
        }
        whole_file::write(&path, file::new_text(self).as_bytes())
            .map_err(|source| ConfigError::Io { path, source })
    }
}

#[cfg(test)]
mod tests;
