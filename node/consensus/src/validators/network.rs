//! Runs a validator with its network: the engine in threads of its own, and authenticated, encrypted connections to the
//! other validators. Connections from all other keys are rejected.

use super::{
    application::Chain,
    block::ProposedBlock,
    engine::{self, Channels, Setup, Timeouts},
    engine_files::{self, KeptBlocks, StartError},
    guarded_scheme::GuardedScheme,
    observer::Observer,
    transactions,
    vote_record::{VoteRecord, VoteRecordError},
};
use alloy_primitives::{B256, Bytes};
use chain::MAX_CONSENSUS_VALIDATORS;
use commonware_codec::{Copying, DecodeExt};
use commonware_consensus::marshal::{max_payload_size, standard::Standard};
use commonware_cryptography::{
    ChaCha20Poly1305, Signer,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::{
    Address, AddressableManager, Ingress,
    authenticated::lookup::{self, Network},
};
use commonware_runtime::{Quota, Runner, Spawner, Supervisor, tokio as engine_runtime};
use commonware_stream::{
    cups::{self, Cups},
    sake::{self, Sake},
};
use commonware_utils::{
    Hostname, NZU32, NZUsize, TryCollect,
    ordered::{Map, Set},
};
use state::Voting;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::sync::oneshot;

/// Number of threads of the engine: while one decodes a block, the other counts votes.
const THREADS: usize = 2;
/// Messages per second of one peer and channel. Memory for this many messages is reserved for each peer.
const MESSAGES_PER_SECOND: Quota = Quota::per_second(NZU32!(400));
/// Blocks, and messages with requests for blocks or their responses, per second of one peer.
const BLOCKS_PER_SECOND: Quota = Quota::per_second(NZU32!(16));
/// Messages with transactions per second of one peer: a validator gathers transactions for 5 ms before it sends a
/// message.
const TRANSACTION_MESSAGES_PER_SECOND: Quota = Quota::per_second(NZU32!(200));
/// Maximum number of messages in a queue of the network.
const QUEUE: usize = 1024;
/// Maximum time of a clean shutdown.
const STOP_TIME: Duration = Duration::from_secs(5);
/// Name of the record of votes in the validator's folder.
const VOTES: &str = "votes";
/// Name of the folder of the engine's own files in the validator's folder.
const ENGINE_FILES: &str = "engine";

/// The bytes of an ed25519 key.
pub type KeyBytes = [u8; 32];

/// Another validator, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its public key.
    pub key: KeyBytes,
    /// An IP address or a host name.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Peer {
    /// The address to which connections are opened.
    fn address(&self) -> Result<Address, ValidatorError> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(Address::from(SocketAddr::from((ip, self.port))));
        }
        let host = Hostname::new(&*self.host);
        let host = host.map_err(|_| ValidatorError::Host(self.host.clone()))?;
        // Connections from a peer are not compared with this address.
        let egress = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Ok(Address::Asymmetric { ingress: Ingress::Dns { host, port: self.port }, egress })
    }
}

/// How a validator is started.
#[derive(Clone)]
pub struct ValidatorOptions {
    /// Folder of the record of votes and of the engine's files, which this validator alone uses.
    pub folder: PathBuf,
    /// Hash of the genesis block. Signatures include it, so votes of other chains are invalid.
    pub genesis_hash: B256,
    /// RLP encoding of the genesis block.
    pub genesis: Bytes,
    /// The private key.
    pub key: KeyBytes,
    /// The public keys of all validators.
    pub validators: Vec<KeyBytes>,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The other validators.
    pub peers: Vec<Peer>,
    /// Maximum bytes of an encoded block. It must be the same for all validators, and must never become smaller.
    pub max_block_bytes: usize,
    /// Minimum time between two blocks.
    pub pace: Duration,
    /// Minimum seconds between the timestamps of two blocks.
    pub timestamp_step: u64,
    /// Times after which a validator gives up waiting.
    pub timeouts: Timeouts,
    /// Receives the engine's reports of views and votes.
    pub voting: Arc<Voting>,
}

impl fmt::Debug for ValidatorOptions {
    /// Omits the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidatorOptions").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// Why a validator cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidatorError {
    /// A key is not an ed25519 key.
    #[error("{0} is not an ed25519 public key")]
    Key(B256),
    /// The key of this node is not among the validators.
    #[error("the key {0} of this node is not that of a validator of the genesis")]
    NotValidator(B256),
    /// There are too many validators, or a key appears twice.
    #[error("a chain has 1 to {MAX_CONSENSUS_VALIDATORS} validators with different keys, got {0}")]
    Validators(usize),
    /// A validator has no address.
    #[error("the validator {0} has no address")]
    NoAddress(B256),
    /// The host of a peer is neither an IP address nor a host name.
    #[error("{0:?} is neither an IP address nor a host name")]
    Host(String),
    /// The genesis block cannot be decoded, or has another hash.
    #[error("the genesis block cannot be decoded, or has another hash")]
    Genesis,
    /// The other validators would not wait for a proposal of this node.
    #[error(
        "the time between blocks must be below {limit:?}, for which others wait for a block, got {pace:?}"
    )]
    Pace {
        /// The time between blocks.
        pace: Duration,
        /// The timeout of a leader.
        limit: Duration,
    },
    /// The record of votes cannot be used.
    #[error(transparent)]
    Votes(#[from] VoteRecordError),
    /// The thread cannot be started.
    #[error("cannot start the thread of the consensus engine: {0}")]
    Thread(std::io::Error),
}

/// A running validator. It must be dropped before the pipeline is stopped, and also if the pipeline ends by itself:
/// without the pipeline, it would still vote to notarize blocks, but not to finalize them.
#[derive(Debug)]
pub struct Validator {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The public key of a private one.
pub fn public_key(key: &KeyBytes) -> Option<KeyBytes> {
    let key = PrivateKey::decode(Copying(key)).ok()?;
    key.public_key().as_ref().try_into().ok()
}

/// The checked options, before the engine's threads start.
#[derive(Clone)]
struct Prepared {
    options: ValidatorOptions,
    key: PrivateKey,
    scheme: GuardedScheme,
    genesis: ProposedBlock,
    addresses: Map<PublicKey, Address>,
}

impl Validator {
    /// Creates the record of votes of a validator that has never voted.
    ///
    /// # Errors
    /// If the record exists, or if it cannot be written.
    pub fn create_vote_record(folder: &std::path::Path) -> Result<(), VoteRecordError> {
        VoteRecord::create(&folder.join(VOTES))
    }

    /// Accepts a copied record of votes as the newest one of the validator.
    ///
    /// # Errors
    /// If the record does not exist, or if it cannot be written.
    pub fn accept_vote_record(folder: &std::path::Path) -> Result<(), VoteRecordError> {
        VoteRecord::accept_copy(&folder.join(VOTES))
    }

    /// The folder of the engine's own files in the folder of a validator.
    pub fn engine_files(folder: &std::path::Path) -> PathBuf {
        folder.join(ENGINE_FILES)
    }

    /// Starts the engine.
    ///
    /// # Errors
    /// [`ValidatorError`].
    pub fn start(options: ValidatorOptions, chain: impl Chain) -> Result<Self, ValidatorError> {
        let prepared = prepare(options)?;
        let (stop, stopped) = oneshot::channel();
        let run = move || run_with_files(&prepared, &chain, stopped);
        let thread = thread::Builder::new().name("consensus".to_owned());
        let thread = thread.spawn(run).map_err(ValidatorError::Thread)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Whether the engine runs. It ends by itself if its files cannot be read or written, the address is in use, the
    /// newest certificate of the node is invalid, or a final block is not valid here.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops the engine, and waits for its end.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Validator {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by its thread.
            let _ = thread.join();
        }
    }
}

fn prepare(options: ValidatorOptions) -> Result<Prepared, ValidatorError> {
    let key =
        PrivateKey::decode(Copying(&options.key)).map_err(|_| ValidatorError::Key(B256::ZERO))?;
    let keys: Vec<_> = options.validators.iter().map(decode_key).collect::<Result<_, _>>()?;
    let count = keys.len();
    let invalid = ValidatorError::Validators(count);
    if count > MAX_CONSENSUS_VALIDATORS || count == 0 {
        return Err(invalid);
    }
    let validators: Set<PublicKey> =
        keys.into_iter().try_collect().map_err(|_| ValidatorError::Validators(count))?;
    let own = B256::from_slice(key.public_key().as_ref());
    let mut addresses = vec![(key.public_key(), Address::from(options.listen))];
    for peer in &options.peers {
        addresses.push((decode_key(&peer.key)?, peer.address()?));
    }
    for validator in &options.validators {
        let known = addresses.iter().any(|(key, _)| key.as_ref() == validator);
        if !known {
            return Err(ValidatorError::NoAddress(B256::from(*validator)));
        }
    }
    let addresses = addresses.into_iter().try_collect().map_err(|_| invalid)?;
    // The leader of the genesis is the first key of the set, because it must be the same for all validators.
    let first = validators.iter().next().expect("there are validators").clone();
    let genesis = ProposedBlock::genesis(first, options.genesis.clone());
    let genesis = genesis.filter(|genesis| genesis.hash == options.genesis_hash);
    let genesis = genesis.ok_or(ValidatorError::Genesis)?;
    if options.pace >= options.timeouts.leader {
        let (pace, limit) = (options.pace, options.timeouts.leader);
        return Err(ValidatorError::Pace { pace, limit });
    }
    let record = VoteRecord::open(&options.folder.join(VOTES))?;
    let namespace = options.genesis_hash.as_slice();
    let scheme = GuardedScheme::signer(namespace, validators, key.clone(), record);
    let scheme = scheme.ok_or(ValidatorError::NotValidator(own))?;
    Ok(Prepared { options, key, scheme, genesis, addresses })
}

fn decode_key(key: &KeyBytes) -> Result<PublicKey, ValidatorError> {
    PublicKey::decode(Copying(key)).map_err(|_| ValidatorError::Key(B256::from(*key)))
}

/// Runs the engine until it is stopped or ends. Files that do not match the node's blocks are removed first.
fn run_with_files(prepared: &Prepared, chain: &impl Chain, mut stopped: oneshot::Receiver<()>) {
    let files = Validator::engine_files(&prepared.options.folder);
    if let Err(error) = engine_files::finish_removal(&files) {
        tracing::error!(%error, "cannot remove old files next to {}", files.display());
        return;
    }
    let mut start = || {
        let config = engine_runtime::Config::new()
            .with_worker_threads(THREADS)
            .with_tcp_nodelay(Some(true))
            .with_storage_directory(&files);
        engine_runtime::Runner::new(config)
            .start(|runtime| run(runtime, prepared.clone(), chain.clone(), &mut stopped))
    };
    match start() {
        Ok(()) => return,
        Err(error @ StartError::OtherBlocks { processed, head }) => {
            if prepared.options.validators.len() == 1 && processed > head {
                tracing::error!(
                    %error,
                    "this is the only validator, so no other node can send the blocks between: use the data with the newest blocks"
                );
                return;
            }
            tracing::warn!(
                %error,
                "removing the files of the consensus engine, because they do not match the blocks of this node; the engine then \
                 starts at the newest block of this node that has a certificate of its own"
            );
        }
        Err(error) => {
            tracing::error!(%error, "cannot start the consensus engine with its files in {}", files.display());
            return;
        }
    }
    if let Err(error) = engine_files::remove(&files) {
        tracing::error!(%error, "cannot remove {}", files.display());
        return;
    }
    if let Err(error) = start() {
        tracing::error!(%error, "cannot start the consensus engine with new files in {}", files.display());
    }
}

async fn run(
    runtime: engine_runtime::Context,
    prepared: Prepared,
    chain: impl Chain,
    stopped: &mut oneshot::Receiver<()>,
) -> Result<(), StartError> {
    let Prepared { options, key, scheme, genesis, addresses } = prepared;
    let peers = options.validators.len() as u32;
    let message =
        max_payload_size::<Standard<ProposedBlock>, GuardedScheme>(peers, &options.max_block_bytes);
    let message = u32::try_from(message).expect("blocks are limited");
    let handshake = Cups::<_, ChaCha20Poly1305>::new(
        Sake {
            signer: key.clone(),
            synchrony_bound: Duration::from_secs(5),
            max_handshake_age: Duration::from_secs(10),
            version: sake::Version::V1,
        },
        cups::Version::V1,
    );
    let count = NonZeroUsize::new(options.validators.len()).expect("there are validators");
    let config = lookup::Config::local(
        handshake,
        options.genesis_hash.as_slice(),
        options.listen,
        count,
        message,
        NZUsize!(QUEUE),
    );
    let config = lookup::Config {
        tracked_peer_sets: NZUsize!(1),
        // A peer is identified by its key. Its connections may come from another address than the one on which it
        // listens.
        bypass_ip_check: true,
        ..config
    };
    let (mut network, mut oracle) = Network::new(runtime.child("network"), config);
    oracle.track(0, addresses);
    let channels = Channels {
        votes: network.register(0, MESSAGES_PER_SECOND),
        certificates: network.register(1, MESSAGES_PER_SECOND),
        resolver: network.register(2, MESSAGES_PER_SECOND),
        blocks: network.register(3, BLOCKS_PER_SECOND),
        backfill: network.register(4, BLOCKS_PER_SECOND),
    };
    let transactions = network.register(5, TRANSACTION_MESSAGES_PER_SECOND);
    network.start();
    let exchange = transactions::exchange(runtime.child("transactions"), &chain, transactions);
    let setup = Setup {
        observer: Observer::new(chain.clone(), options.voting),
        chain,
        files: String::new(),
        scheme,
        public_key: key.public_key(),
        genesis,
        max_block_bytes: options.max_block_bytes,
        pace: options.pace,
        timestamp_step: options.timestamp_step,
        timeouts: options.timeouts,
        kept_blocks: KeptBlocks::DEFAULT,
        blocker: oracle.clone(),
        peers: oracle,
    };
    let mut tasks = engine::start(runtime.child("validator"), setup, channels).await?;
    tasks.extend(exchange);
    let ended = futures_util::future::select_all(tasks);
    match futures_util::future::select(stopped, ended).await {
        futures_util::future::Either::Left(_) => {}
        futures_util::future::Either::Right(_) => tracing::error!("the consensus engine has ended"),
    }
    let _ = runtime.stop(0, Some(STOP_TIME)).await;
    Ok(())
}
