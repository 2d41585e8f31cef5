//! Settings: the file `config.toml` in the home folder, overridden by flags of the same name.
//!
//! An unknown key is an error, so that a misspelt one cannot be silently without effect.

mod bounds;
mod cosmos;
mod engine;
mod minimum_gas_prices;
mod network;
mod server;

pub use bounds::with_setting;
pub use cosmos::{Comet, Grpc, Rest};
pub use engine::Engine;
pub use minimum_gas_prices::{ForeignToken, MinimumGasPrices, MinimumGasPricesError};
pub use network::{InvalidNetwork, Network};
pub use server::Server;

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
use storage::trie::{TRIE_CACHE_BYTES_DEFAULT, TRIE_CACHE_BYTES_MIN};

/// Name of the settings file in the home folder.
pub const CONFIG_FILE: &str = "config.toml";

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// What all servers share.
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
    /// Making blocks.
    pub engine: Engine,
    /// Transactions that wait for a block.
    pub mempool: Mempool,
    /// The pipeline's threads.
    pub pipeline: Pipeline,
    /// The two LMDB environments.
    pub storage: Storage,
}

/// `[json-rpc]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct JsonRpc {
    /// Where HTTP is served; WebSocket is answered there as well.
    pub address: SocketAddr,
    /// Where WebSocket alone is served.
    pub ws_address: SocketAddr,
    /// Namespaces served at `address`. `debug`, `trace` and `testing` are off unless named.
    pub api: Vec<String>,
    /// Namespaces served at `ws-address`.
    pub ws_api: Vec<String>,
    /// Names that requests may be addressed to, against DNS rebinding; addresses always may. `*`
    /// is any.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read answers and open WebSockets; `:*` is any port, `*` any origin.
    pub cors_origins: Vec<String>,
    /// Calls a second of one connection; a heavy one counts for several. 0 is no limit.
    pub rate_per_connection: u32,
    /// Calls a second of one address (of IPv6: one /64). 0 is no limit.
    pub rate_per_ip: u32,
    /// Most filters installed at once, by all clients.
    pub filter_cap: usize,
    /// Seconds after which a filter that is not polled is forgotten.
    #[serde(deserialize_with = "bounds::wait_s")]
    pub filter_lifetime_s: u64,
    /// Most subscriptions of a connection.
    pub max_subscriptions: u32,
    /// Threads that serve sockets; 0 is one for each core. Half of them, rounded down, are for connections
    /// with large answers.
    pub threads: usize,
    /// Most connections at once, of both addresses together.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
    /// Most connections of one client's address. 0 is as many as there may be at all.
    pub max_connections_per_ip: u32,
    /// Seconds until a connection that sends no whole request is closed.
    #[serde(deserialize_with = "bounds::wait_s")]
    pub idle_timeout_s: u64,
    /// Seconds in which a client must take 64 KiB of what it is sent, or all of it.
    #[serde(deserialize_with = "bounds::wait_s")]
    pub slow_client_s: u64,
    /// Most bytes of a request body.
    pub max_request_bytes: u32,
    /// Most bytes of a response body.
    pub max_response_bytes: u32,
    /// Most calls in one batch.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_batch: u32,
    /// Most gas of an `eth_call` or `eth_estimateGas`.
    pub gas_cap: u64,
    /// Milliseconds after which an `eth_call`, estimate or simulation is aborted.
    #[serde(deserialize_with = "bounds::wait_ms")]
    pub call_timeout_ms: u64,
    /// Milliseconds after which tracing is aborted.
    #[serde(deserialize_with = "bounds::wait_ms")]
    pub trace_timeout_ms: u64,
    /// Most logs of one answer.
    pub logs_cap: usize,
    /// Milliseconds after which a search for logs ends with what was searched.
    #[serde(deserialize_with = "bounds::wait_ms")]
    pub logs_timeout_ms: u64,
    /// Bytes of memory for answers about blocks that are asked for again. 0 derives it from the memory.
    pub answer_cache_bytes: u64,
    /// Most blocks an `eth_feeHistory` answers for.
    pub feehistory_cap: u64,
    /// Keyring of the home folder whose keys sign for clients: `off`, `file`, `os` or `test`. The
    /// namespace `personal` is served only if `api` names it too.
    pub keyring: KeyringChoice,
    /// Sign with the keyring even if JSON-RPC is served at an address that other machines can reach.
    pub allow_remote_signing: bool,
}

/// Most threads that serve sockets: far more than keep a network card at work.
const SERVE_THREADS_MAX: usize = 64;

/// Bytes of answers kept on a machine with enough memory.
const FULL_ANSWER_CACHE_BYTES: u64 = 128 << 20;
/// Its minimum.
const MIN_ANSWER_CACHE_BYTES: u64 = 8 << 20;

impl JsonRpc {
    /// Bytes of answers to keep.
    pub fn answer_cache_bytes(&self) -> u64 {
        match self.answer_cache_bytes {
            0 => derived(FULL_ANSWER_CACHE_BYTES, MIN_ANSWER_CACHE_BYTES),
            set => set,
        }
    }

    /// The number of threads to start that serve sockets.
    pub fn threads(&self) -> usize {
        self.threads_on(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// The number of them on a machine with so many cores.
    pub fn threads_on(&self, cores: usize) -> usize {
        let wanted = match self.threads {
            0 => cores,
            set => set,
        };
        wanted.clamp(1, SERVE_THREADS_MAX)
    }
}

/// Which keyring signs for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum KeyringChoice {
    /// None: the node signs for nobody.
    #[default]
    Off,
    /// Under a passphrase, asked for at the start.
    File,
    /// Under a secret that the desktop's secret service keeps.
    Os,
    /// In the clear.
    Test,
}

impl KeyringChoice {
    /// The keyring's backend, if there is to be one.
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
            ws_address: local(8546),
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
    /// Where raw transaction frames are taken.
    pub address: SocketAddr,
    /// Maximum number of connections.
    #[serde(deserialize_with = "bounds::not_zero")]
    pub max_connections: u32,
}

/// Ingest connections: each costs a read buffer of 64 KiB.
const MAX_INGEST_CONNECTIONS: u32 = 1024;

impl Default for Ingest {
    fn default() -> Self {
        Self { address: local(8547), max_connections: MAX_INGEST_CONNECTIONS }
    }
}

/// `[metrics]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metrics {
    /// Where `/metrics`, `/health` and `/status` are served.
    pub address: SocketAddr,
    /// Names that requests may be addressed to, as `json-rpc.allowed-hosts`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may read answers, as `json-rpc.cors-origins`.
    pub cors_origins: Vec<String>,
}

impl Default for Metrics {
    fn default() -> Self {
        let (allowed_hosts, cors_origins) = (local_hosts(), local_origins());
        Self { address: local(26660), allowed_hosts, cors_origins }
    }
}

/// `[mempool]`: geth's names. A slot is 32 KiB of a transaction, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mempool {
    /// Least fee cap, in wei per gas.
    pub price_limit: u64,
    /// Least tip cap, in wei per gas.
    pub min_tip: u64,
    /// Minimum price of gas of transactions that enter the pool, in the syntax of the SDK's setting of this
    /// name, such as `0.5atest`. It applies to Cosmos transactions, and to Ethereum transactions before
    /// London. Empty is no minimum.
    pub minimum_gas_prices: MinimumGasPrices,
    /// What a replacement must add to both fee fields, in percent.
    pub price_bump: u32,
    /// Executable slots that an account keeps as long as others have more than this.
    pub account_slots: usize,
    /// Maximum of executable slots of all accounts. 0 derives it from the memory.
    pub global_slots: usize,
    /// Transactions behind a nonce gap, for one account.
    pub account_queue: usize,
    /// Maximum of slots behind nonce gaps, of all accounts. 0 derives it from the memory.
    pub global_queue: usize,
    /// Seconds that transactions wait behind a gap.
    pub lifetime_s: u64,
    /// Keep accepted transactions in a file until they are in a durable block, so that a killed
    /// process loses none.
    pub journal: bool,
    /// Sync that file before each answer, so that a power failure loses none either; costs the
    /// latency of the disk for each batch.
    pub journal_sync: bool,
    /// Accept transactions although this node produces no blocks. They wait until it is started with
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

/// Minimum that is derived for the executable slots: two full blocks of transfers, or 512 MiB if each
/// transaction is as large as a slot.
const MIN_GLOBAL_SLOTS: usize = 16_384;
/// The same for slots behind nonce gaps.
const MIN_GLOBAL_QUEUE: usize = 4_096;

impl Mempool {
    /// The limits of the pool.
    pub fn limits(&self) -> Limits {
        self.limits_on(memory::available_memory())
    }

    /// The same on a machine with this many bytes of memory.
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
    /// Threads that recover senders; 0 leaves three cores to the other stages and uses the rest, but two
    /// where there are two.
    pub recover_workers: usize,
}

/// Most recovery threads: ring bells are searched one by one.
const RECOVER_WORKERS_MAX: usize = 64;
/// Cores the ordered stages keep busy.
const ORDERED_CORES: usize = 3;

impl Pipeline {
    /// The number of recovery threads to start.
    pub fn recover_workers(&self) -> usize {
        self.recover_workers_on(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// The number of them on a machine with so many cores.
    pub fn recover_workers_on(&self, cores: usize) -> usize {
        let wanted = match self.recover_workers {
            0 => cores.saturating_sub(ORDERED_CORES).max(cores.min(2)),
            set => set,
        };
        wanted.clamp(1, RECOVER_WORKERS_MAX)
    }
}

/// `[storage]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Storage {
    /// Most bytes the chain environment may grow to; costs address space only.
    #[serde(deserialize_with = "bounds::map_bytes")]
    pub chain_map_bytes: u64,
    /// Most bytes the index environment may grow to; costs address space only.
    #[serde(deserialize_with = "bounds::map_bytes")]
    pub index_map_bytes: u64,
    /// Maximum number of accounts of the newest state that execution caches. The checks of the mempool cache as
    /// many again, and execution caches a quarter as many slots. An account takes 85 bytes and a slot 171,
    /// allocated when first used. 0 derives the number from the memory.
    pub recent_accounts: usize,
    /// Maximum bytes of the state trie in memory, not counting changes that are not in the index yet. 0 derives
    /// the number from the memory.
    pub trie_cache_bytes: u64,
}

/// Two maps of 2^23 places, three quarters full: 1.07 GB once that many are in use, the same again for
/// the mempool's checks, and 540 MB for slots. With a quarter, a transfer between ten million accounts cost a
/// seventh more: what is not there is searched for in the index, by both.
const FULL_RECENT_ACCOUNTS: usize = (1 << 24) / 4 * 3;
/// Minimum that is derived from the memory: the accounts of some large blocks, 35 MB in total.
const MIN_RECENT_ACCOUNTS: usize = (1 << 18) / 4 * 3;

impl Storage {
    /// The number of accounts that execution keeps.
    pub fn recent_accounts(&self) -> usize {
        match self.recent_accounts {
            0 => derived(FULL_RECENT_ACCOUNTS as u64, MIN_RECENT_ACCOUNTS as u64) as usize,
            set => set,
        }
    }

    /// Bytes of the state trie to keep.
    pub fn trie_cache_bytes(&self) -> u64 {
        match self.trie_cache_bytes {
            0 => derived(TRIE_CACHE_BYTES_DEFAULT, TRIE_CACHE_BYTES_MIN),
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
        }
    }
}

/// The name by which this machine reaches itself.
fn local_hosts() -> Vec<String> {
    vec!["localhost".to_owned()]
}

/// Pages that this machine serves, at any port.
fn local_origins() -> Vec<String> {
    ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned).into()
}

/// Loopback: nothing is served to other machines unless asked for.
fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Where the node serves what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// JSON-RPC over HTTP and WebSocket.
    pub json_rpc: SocketAddr,
    /// JSON-RPC over WebSocket.
    pub json_rpc_ws: SocketAddr,
    /// Cosmos queries over REST.
    pub rest: SocketAddr,
    /// Cosmos queries over gRPC.
    pub grpc: SocketAddr,
    /// CometBFT's RPC.
    pub comet: SocketAddr,
    /// Raw transactions over TCP.
    pub ingest: SocketAddr,
    /// Metrics, health and status.
    pub metrics: SocketAddr,
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
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML, or has a key we do not know.
    #[error("{}, line {line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where in it, from 1 on.
        line: usize,
        /// What is wrong there.
        message: String,
    },
}

impl Config {
    /// The memory that the process may use, and the values in force of the settings that are derived from it
    /// unless they are set.
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

    /// Where the node serves what, by these settings.
    pub const fn endpoints(&self) -> Endpoints {
        Endpoints {
            json_rpc: self.json_rpc.address,
            json_rpc_ws: self.json_rpc.ws_address,
            rest: self.rest.address,
            grpc: self.grpc.address,
            comet: self.comet.address,
            ingest: self.ingest.address,
            metrics: self.metrics.address,
        }
    }

    /// Reads `config.toml` of a home folder; the defaults where there is none.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join(CONFIG_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // A symbolic link without a target is an error: the settings exist, but cannot be read.
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

    /// Writes the settings to a home folder that has no file yet.
    pub fn write_new(&self, home: &Path) -> Result<(), ConfigError> {
        let path = home.join(CONFIG_FILE);
        if whole_file::is_present(&path) {
            return Ok(());
        }
        let text = toml::to_string_pretty(self).expect("settings are plain values");
        whole_file::write(&path, text.as_bytes()).map_err(|source| ConfigError::Io { path, source })
    }
}

#[cfg(test)]
mod tests;
