//! The gRPC service of a source.
//!
//! Blocks are read when flow control of HTTP/2 lets the source send them, so a slow follower costs the pieces in its
//! connection and at most one encoded block. The server disconnects a follower that reads nothing for some time.

use crate::protocol::{
    CallRequest, CallResponse, FollowRequest, Piece, SubmitRequest, SubmitResponse, TermsRequest,
    TermsResponse,
    source_server::{Source, SourceServer},
};
use crate::{
    PROTOCOL_VERSION,
    encoded_blocks::{EncodedBlock, EncodedBlocks},
    forwarder::{call_response, response, with_forwards},
    terms::{Terms, TermsError, decoded, encoded},
};
use alloy_primitives::B256;
use budget::{Account, Budget, Held};
use certificates::BlockId;
use futures_util::{Stream, stream::unfold};
use pipeline::PoolClient;
use rpc::LocalCalls;
use server::{
    listen::{self, Bounds, Protocol, Server},
    listener::Listener,
    stop::Stopping,
    tls::Tls,
};
use state::Published;
use std::{
    collections::HashSet,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;
use tonic::{Request, Response, Status, service::Routes};

/// Interval at which a source without new blocks reports its head. A follower switches to another source
/// if it receives nothing for five intervals.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of concurrent requests. A stream counts only until it begins, and a submission until the mempool has
/// decided.
const MAX_CONCURRENT: u32 = 256;
/// Maximum size of a request in bytes: a transaction with the blobs of a block.
const MAX_REQUEST_BYTES: usize = 2 * 1024 * 1024;

/// What a source serves.
#[derive(Debug)]
pub struct SourceContext {
    /// Hash of block 0.
    pub genesis_hash: B256,
    /// The current view.
    pub published: Published,
    /// Accepts transactions.
    pub pool: PoolClient,
    /// Handles calls about the mempool and the pending block.
    pub calls: LocalCalls,
    /// The producer terms; `None` if blocks of this chain are not signed.
    pub terms: Option<Arc<Terms>>,
    /// Encrypts connections; `None` if they are not encrypted.
    pub tls: Option<Tls>,
}

/// Serves the address of `listener` until [`Server::stop`].
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(listener: Listener, budget: &Arc<Budget>, context: SourceContext) -> Server {
    let SourceContext { genesis_hash, published, pool, calls, terms, tls } = context;
    let blocks = Arc::new(EncodedBlocks::new(published.clone()));
    let service = SourceService {
        genesis_hash,
        published,
        blocks,
        pool,
        calls,
        terms,
        streams: Streams::default(),
    };
    let service = SourceServer::new(service).max_decoding_message_size(MAX_REQUEST_BYTES);
    let bounds = Bounds {
        heights: None,
        connections: Arc::clone(&budget.replication),
        concurrent: MAX_CONCURRENT,
        body: MAX_REQUEST_BYTES,
        protocol: Protocol::Grpc { tls },
    };
    listen::serve(listener, bounds, budget, Routes::new(service).into_axum_router())
}

/// Returns a hash that a follower has sent, as text of limited length.
fn shown(hash: &[u8]) -> String {
    match B256::try_from(hash) {
        Ok(hash) => hash.to_string(),
        Err(_) => format!("{} bytes", hash.len()),
    }
}

#[derive(Debug)]
struct SourceService {
    genesis_hash: B256,
    published: Published,
    blocks: Arc<EncodedBlocks>,
    pool: PoolClient,
    calls: LocalCalls,
    /// The producer terms; `None` if blocks of this chain are not signed.
    terms: Option<Arc<Terms>>,
    streams: Streams,
}

impl SourceService {
    fn check_version(version: u32) -> Result<(), Status> {
        if version == PROTOCOL_VERSION {
            return Ok(());
        }
        Err(Status::unimplemented(format!(
            "this node serves version {PROTOCOL_VERSION} of the replication protocol, and the follower speaks version \
             {version}: use the same version of evmd on both"
        )))
    }

    /// Checks the version and the genesis, which every request has.
    fn check_request(&self, version: u32, genesis_hash: &[u8]) -> Result<(), Status> {
        Self::check_version(version)?;
        self.check_genesis(genesis_hash)
    }

    fn check_genesis(&self, hash: &[u8]) -> Result<(), Status> {
        match hash == self.genesis_hash.as_slice() {
            true => Ok(()),
            false => Err(Status::failed_precondition(format!(
                "this node serves the chain with genesis {}, and the follower has genesis {}: use the same genesis file",
                self.genesis_hash,
                shown(hash)
            ))),
        }
    }

    /// Checks that the follower has the beginning of this chain.
    fn check_chain(&self, request: &FollowRequest) -> Result<(), Status> {
        let refuse = |text: String| Err(Status::failed_precondition(text));
        let view = self.published.load();
        let (parent, head) = (request.parent, view.number());
        if parent > head {
            return Err(Status::out_of_range(format!(
                "this node has blocks up to {head}, and the follower has block {parent} already"
            )));
        }
        let failed = |error: storage::ReadError| Status::internal(error.to_string());
        let blocks = view.blocks().map_err(failed)?;
        match blocks.hash(parent).map_err(failed)? {
            Some(hash) if request.parent_hash == hash.as_slice() => Ok(()),
            Some(hash) => refuse(format!(
                "block {parent} of this node is {hash}, and that of the follower is {}",
                shown(&request.parent_hash)
            )),
            None => refuse(format!("this node does not have block {parent}")),
        }
    }
}

#[tonic::async_trait]
impl Source for SourceService {
    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitResponse>, Status> {
        let request = request.into_inner();
        self.check_request(request.version, &request.genesis_hash)?;
        let submitting = self.pool.submit(request.transaction.into());
        let submitted = with_forwards(request.forwards, submitting).await;
        Ok(Response::new(response(submitted)))
    }

    async fn call(&self, request: Request<CallRequest>) -> Result<Response<CallResponse>, Status> {
        let request = request.into_inner();
        self.check_request(request.version, &request.genesis_hash)?;
        let handling = self.calls.call(&request.method, request.params.into());
        let result = with_forwards(request.forwards, handling).await;
        Ok(Response::new(call_response(result)))
    }

    async fn terms(
        &self,
        request: Request<TermsRequest>,
    ) -> Result<Response<TermsResponse>, Status> {
        let request = request.into_inner();
        self.check_request(request.version, &request.genesis_hash)?;
        let sent = decoded(&request.terms)?;
        let Some(terms) = &self.terms else {
            return Err(Status::failed_precondition("blocks of this chain are not signed"));
        };
        let is_replica = self.published.following().is_some();
        let (accepting, published) = (Arc::clone(terms), self.published.clone());
        let accepted = tokio::task::spawn_blocking(move || {
            if !is_replica {
                return accepting.supersede(&sent);
            }
            let view = published.load();
            accepting.accept(&sent, BlockId { number: view.number(), hash: view.head.hash })
        });
        match accepted.await {
            // Any node can send invalid terms at any rate, so they must not fill the log.
            Ok(Err(error @ TermsError::Invalid(_))) => {
                tracing::debug!(%error, "received producer terms");
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "received producer terms from another node");
            }
            Ok(Ok(())) | Err(_) => {}
        }
        let view = self.published.load();
        Ok(Response::new(TermsResponse {
            terms: encoded(terms.authority().terms()),
            head: view.number(),
            head_hash: view.head.hash.to_vec().into(),
        }))
    }

    type FollowStream = Pin<Box<dyn Stream<Item = Result<Piece, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let stopping = request.extensions().get::<Stopping>().cloned();
        let account = request.extensions().get::<Arc<Account>>().cloned();
        let request = request.into_inner();
        self.check_request(request.version, &request.genesis_hash)?;
        self.check_chain(&request)?;
        let stream = StreamOfConnection::open(&self.streams, account.as_deref())?;
        let sending = Sending {
            blocks: Arc::clone(&self.blocks),
            heads: self.published.heads(),
            stopping,
            account,
            _stream: stream,
            next: request.parent + 1,
            current: None,
            is_over: false,
        };
        Ok(Response::new(Box::pin(unfold(sending, Sending::next))))
    }
}

/// The connections that have a stream, by the address of their owner in memory.
type Streams = Arc<Mutex<HashSet<usize>>>;

/// The only stream of a connection.
struct StreamOfConnection {
    streams: Streams,
    connection: Option<usize>,
}

impl StreamOfConnection {
    fn open(streams: &Streams, account: Option<&Account>) -> Result<Self, Status> {
        let connection = account.map(|account| Arc::as_ptr(&account.owner).addr());
        let mut open = streams.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.is_some_and(|connection| !open.insert(connection)) {
            return Err(Status::resource_exhausted("a connection has one stream of blocks"));
        }
        Ok(Self { streams: Arc::clone(streams), connection })
    }
}

impl Drop for StreamOfConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.connection {
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection);
        }
    }
}

/// The state of a stream.
struct Sending {
    blocks: Arc<EncodedBlocks>,
    heads: watch::Receiver<u64>,
    stopping: Option<Stopping>,
    /// The memory account of the follower.
    account: Option<Arc<Account>>,
    _stream: StreamOfConnection,
    /// The number of the block that is sent or will be sent.
    next: u64,
    /// That block, the index of its next piece, and the accounted memory.
    current: Option<(Arc<EncodedBlock>, usize, Option<Held>)>,
    is_over: bool,
}

impl Sending {
    async fn next(mut self) -> Option<(Result<Piece, Status>, Self)> {
        if self.is_over {
            return None;
        }
        let piece = self.piece().await;
        self.is_over = piece.is_err();
        piece.transpose().map(|piece| (piece, self))
    }

    /// Returns the next piece; `None` if the server is stopping.
    async fn piece(&mut self) -> Result<Option<Piece>, Status> {
        let head = *self.heads.borrow_and_update();
        if self.current.is_none() && head >= self.next {
            let block = self.blocks.get(self.next).await;
            let block = block.map_err(|error| Status::aborted(error.to_string()))?;
            // The block is accounted to the follower, because it may read slowly.
            let held = self.account.as_ref().map(|account| account.hold(block.bytes()));
            let held = held.transpose().map_err(|refused| {
                Status::resource_exhausted(format!(
                    "clients use too much memory: at most {} bytes (server.max-client-bytes)",
                    refused.limit()
                ))
            })?;
            self.current = Some((block, 0, held));
        }
        let Some((block, index, _)) = &mut self.current else {
            return Ok(self.wait().await.then_some(Piece { head, ..Piece::default() }));
        };
        let piece = block.piece(*index, head);
        *index += 1;
        if piece.ends_block {
            self.current = None;
            self.next += 1;
        }
        Ok(Some(piece))
    }

    /// Waits for a block, or until the head is to be reported. Returns false if the server is stopping.
    async fn wait(&mut self) -> bool {
        let stopping = self.stopping.clone();
        let stopped = async {
            match stopping {
                Some(mut stopping) => stopping.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.heads.changed() => changed.is_ok(),
            () = tokio::time::sleep(REPORT_INTERVAL) => true,
            () = stopped => false,
        }
    }
}
