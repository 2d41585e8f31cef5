//! Starts the engine of one validator on a runtime and a network.

use super::{
    application::{CertifiedBlock, Chain, ChainApplication},
    block::ProposedBlock,
    certificate::{FinalBlock, final_block},
    delivery::{Delivery, Marshal},
    engine_files::{KeptBlocks, StartError, check_progress, check_uncertified},
    guarded_scheme::GuardedScheme,
    observer::Observer,
};
use commonware_broadcast::buffered;
use commonware_consensus::{
    Reporters,
    marshal::{self, core::Actor, resolver, standard::Deferred},
    simplex::{
        self,
        config::{Floor, ForwardPolicy, SkipBudget, SkipPolicy},
        elector::RoundRobin,
        types::Finalization,
    },
    types::{Epoch, FixedEpocher, ViewDelta},
};
use commonware_cryptography::{
    Digested, Digestible, Sha256,
    certificate::{ConstantProvider, Scheme, Verifier},
    ed25519::PublicKey,
    keccak256::Digest,
};
use commonware_p2p::{Blocker, Provider, Receiver, Sender};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock, Handle, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_storage::{
    archive::{Archive, prunable},
    translator::EightCap,
};
use commonware_utils::{NZDuration, NZU16, NZU64, NZUsize};
use rand_core::CryptoRng;
use std::{fmt::Display, num::NonZeroUsize, sync::Arc, time::Duration};

/// Maximum number of final blocks that the engine delivers before the first of them is durable.
pub(super) const MAX_UNACKNOWLEDGED: NonZeroUsize = NZUsize!(16);
/// Maximum number of messages in a queue of the engine.
const QUEUE: NonZeroUsize = NZUsize!(1024);
/// Bytes of each write buffer and each buffer for reading a journal.
const BUFFER_BYTES: NonZeroUsize = NZUsize!(1 << 20);
/// Number of newest views for which the engine keeps votes and blocks that are not final.
pub(super) const KEPT_VIEWS: ViewDelta = ViewDelta::new(256);
/// Number of recent blocks of each peer that are kept until they are used.
const BLOCKS_OF_PEER: usize = 16;

/// Times after which a validator gives up waiting.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time for the leader to propose.
    pub leader: Duration,
    /// Time until a view must have its certificate.
    pub certification: Duration,
    /// Time after which a vote to skip a view is repeated.
    pub retry: Duration,
    /// Time without a message of a validator after which the views that it leads are skipped.
    pub absent: Duration,
    /// Time for a peer to respond to a request.
    pub fetch: Duration,
}

impl Timeouts {
    /// Returns the timeouts for a chain with this time between blocks, which a leader waits before it proposes. A
    /// machine with other work may need seconds to execute a full block. If the view is skipped meanwhile, the work is
    /// wasted.
    pub fn with_pace(pace: Duration) -> Self {
        Self {
            leader: pace + Duration::from_secs(2),
            certification: pace + Duration::from_secs(6),
            retry: Duration::from_secs(2),
            absent: pace + Duration::from_secs(8),
            fetch: Duration::from_secs(1),
        }
    }
}

/// The sender and the receiver of a channel between the validators.
pub(super) type Channel<S, R> = (S, R);

/// The channels between the validators, each of which has its own limit of messages per second.
pub(super) struct Channels<S, R> {
    pub(super) votes: Channel<S, R>,
    pub(super) certificates: Channel<S, R>,
    /// Requests for certificates.
    pub(super) resolver: Channel<S, R>,
    pub(super) blocks: Channel<S, R>,
    /// Requests for blocks.
    pub(super) backfill: Channel<S, R>,
}

/// The components and settings with which a validator starts.
pub(super) struct Setup<C, B, P> {
    pub(super) chain: C,
    /// Prefix of the names of the engine's files.
    pub(super) files: String,
    pub(super) scheme: GuardedScheme,
    pub(super) public_key: PublicKey,
    pub(super) genesis: ProposedBlock,
    pub(super) observer: Observer<C>,
    pub(super) max_block_bytes: usize,
    pub(super) pace: Duration,
    pub(super) timestamp_step: u64,
    pub(super) timeouts: Timeouts,
    pub(super) kept_blocks: KeptBlocks,
    pub(super) blocker: B,
    pub(super) peers: P,
}

/// Starts the engine. Returns its tasks, which end only if the engine fails. Dropping them does not stop it.
pub(super) async fn start<E, C, B, P, S, R>(
    runtime: E,
    setup: Setup<C, B, P>,
    channels: Channels<S, R>,
) -> Result<Vec<Handle<()>>, StartError>
where
    E: Clock + CryptoRng + Metrics + Spawner + Storage,
    C: Chain,
    B: Blocker<PublicKey = PublicKey>,
    P: Provider<PublicKey = PublicKey>,
    S: Sender<PublicKey = PublicKey>,
    R: Receiver<PublicKey = PublicKey>,
{
    let Setup { chain, files, scheme, public_key, genesis, max_block_bytes, .. } = setup;
    let (timeouts, kept) = (setup.timeouts, setup.kept_blocks);
    let page_cache = CacheRef::new(NZU16!(4096), NZUsize!(1024));
    let epocher = FixedEpocher::new(NZU64!(u64::MAX));
    let fetch_timeout = NZDuration!(timeouts.fetch);
    let resolver = resolver::p2p::init(
        runtime.child("backfill"),
        resolver::p2p::Config {
            public_key: public_key.clone(),
            peer_provider: setup.peers.clone(),
            blocker: setup.blocker.clone(),
            mailbox_size: QUEUE,
            fetch_timeout,
            fetch_retry_delay: timeouts.fetch / 10,
            priority_requests: false,
            priority_responses: false,
        },
        channels.backfill,
    );
    let (broadcast, buffer) = buffered::Engine::new(
        runtime.child("blocks"),
        buffered::Config {
            public_key,
            mailbox_size: QUEUE,
            deque_size: BLOCKS_OF_PEER,
            priority: false,
            codec_config: max_block_bytes,
            peer_provider: setup.peers,
            strategy: Sequential,
        },
    );
    let broadcast = broadcast.start(channels.blocks);
    let codec_config = scheme.certificate_codec_config();
    let certificates =
        archive(format!("{files}certificates"), codec_config, kept, page_cache.clone());
    let certificates = prunable::Archive::init(runtime.child("certificates"), certificates);
    let certificates: prunable::Archive<EightCap, _, Digest, Finalization<GuardedScheme, Digest>> =
        certificates.await.map_err(unreadable)?;
    let blocks = archive(format!("{files}blocks"), max_block_bytes, kept, page_cache.clone());
    let blocks = prunable::Archive::init(runtime.child("final_blocks"), blocks);
    let mut blocks: prunable::Archive<EightCap, _, Digest, Arc<ProposedBlock>> =
        blocks.await.map_err(unreadable)?;
    // An engine without files starts at the newest block of the node that has a certificate of its own, because the
    // other validators may no longer have all older blocks.
    let is_new = blocks.last_index().is_none();
    let first = if is_new { chain.newest_certified() } else { None };
    let first = first.map(|stored| verified(&mut runtime.child("floor"), &stored, &scheme));
    let first = first.transpose()?;
    if is_new && first.is_none() {
        check_uncertified(chain.head())?;
    }
    let start = match &first {
        Some((block, finalization)) => {
            let (number, digest) = (block.number, block.digest());
            let stored = blocks.put(number, digest, &Arc::new(block.clone())).await;
            blocks = stored.map_err(unreadable)?.sync().await.map_err(unreadable)?;
            marshal::Start::Floor(finalization.clone())
        }
        None => marshal::Start::Genesis(Digested::compute(genesis.clone(), &Sequential).await),
    };
    let (actor, marshal, floor) = Actor::init(
        runtime.child("marshal"),
        certificates,
        blocks,
        marshal::Config {
            provider: ConstantProvider::new(scheme.clone()),
            epocher: epocher.clone(),
            start,
            partition_prefix: format!("{files}marshal"),
            mailbox_size: QUEUE,
            view_retention: KEPT_VIEWS,
            prunable_items_per_section: kept.per_file,
            page_cache: page_cache.clone(),
            replay_buffer: BUFFER_BYTES,
            key_write_buffer: BUFFER_BYTES,
            value_write_buffer: BUFFER_BYTES,
            block_codec_config: max_block_bytes,
            max_repair: NZUsize!(16),
            max_pending_acks: MAX_UNACKNOWLEDGED,
            strategy: Sequential,
        },
    )
    .await;
    let processed = floor.processed().map(|processed| processed.height().get());
    if first.is_none() || processed.is_some() {
        check_progress(processed, chain.head())?;
    }
    let (delivery, delivering) =
        Delivery::start(runtime.child("delivery"), chain.clone(), marshal.clone(), kept);
    let marshalling = actor.start(delivery, buffer, resolver);
    let newest = match first {
        Some((_, finalization)) => Some(finalization),
        None => newest_finalization(&marshal).await,
    };
    let floor = newest.map_or_else(|| Floor::Genesis(genesis.digest()), Floor::Finalized);
    let application =
        ChainApplication::new(chain, setup.pace, setup.timestamp_step, max_block_bytes);
    let application =
        Deferred::new(runtime.child("application"), application, marshal.clone(), epocher);
    let engine = simplex::Engine::new(
        runtime.child("engine"),
        simplex::Config {
            scheme,
            elector: RoundRobin::<Sha256>::default(),
            blocker: setup.blocker,
            automaton: application.clone(),
            relay: application.clone(),
            reporter: Reporters::from((application, setup.observer)),
            track_historical_votes: true,
            strategy: Sequential,
            partition: format!("{files}votes"),
            mailbox_size: QUEUE,
            epoch: Epoch::zero(),
            floor,
            replay_buffer: BUFFER_BYTES,
            write_buffer: BUFFER_BYTES,
            page_cache,
            leader_timeout: timeouts.leader,
            certification_timeout: timeouts.certification,
            timeout_retry: timeouts.retry,
            view_retention: KEPT_VIEWS,
            skip: SkipPolicy::Enabled {
                timeout: timeouts.absent,
                budget: SkipBudget::Participants,
            },
            fetch_timeout,
            fetch_retry_delay: timeouts.fetch / 10,
            forward: ForwardPolicy::SilentVoters,
        },
    );
    let engine = engine.start(channels.votes, channels.certificates, channels.resolver);
    Ok(vec![broadcast, delivering, marshalling, engine])
}

/// Rebuilds the finalization of a stored block and verifies it. The library would panic on an invalid one.
fn verified<R: CryptoRng>(
    random: &mut R,
    stored: &CertifiedBlock,
    scheme: &GuardedScheme,
) -> Result<FinalBlock, StartError> {
    let decoded = final_block(stored, scheme.participants().len() as u32);
    let valid = decoded.filter(|(_, proof)| proof.verify(random, scheme, &Sequential));
    valid.ok_or(StartError::InvalidCertificate)
}

fn unreadable(error: impl Display) -> StartError {
    StartError::Unreadable(error.to_string())
}

/// The certificate of the newest final block that the engine has stored.
async fn newest_finalization(marshal: &Marshal) -> Option<Finalization<GuardedScheme, Digest>> {
    let (height, _) = marshal.get_info(marshal::Identifier::Latest).await?;
    marshal.get_finalization(height).await
}

/// The configuration of a store of the engine with one entry for each block.
fn archive<C>(
    name: String,
    codec_config: C,
    kept: KeptBlocks,
    page_cache: CacheRef,
) -> prunable::Config<EightCap, C> {
    prunable::Config {
        translator: EightCap,
        metadata_partition: format!("{name}-metadata"),
        key_partition: format!("{name}-keys"),
        key_page_cache: page_cache,
        value_partition: format!("{name}-values"),
        compression: None,
        codec_config,
        items_per_section: kept.per_file,
        key_write_buffer: BUFFER_BYTES,
        value_write_buffer: BUFFER_BYTES,
        replay_buffer: BUFFER_BYTES,
    }
}
