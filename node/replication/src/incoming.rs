//! Receives the blocks of one connection and adds them to the chain.
//!
//! A block is received in pieces. Once a certificate covers it, its results are decoded and checked on another thread
//! while the next blocks arrive. Blocks are sent in order to the pipeline, which checks the roots. When the pipeline
//! accepts a block with a certificate, that block and the blocks before it become part of the chain.

use crate::protocol::{FollowRequest, Piece, source_client::SourceClient};
use crate::{
    PROTOCOL_VERSION,
    arriving::Arriving,
    checks::{Arrived, CheckError, Checked, Checks},
    source::REPORT_INTERVAL,
    terms::Terms,
};
use alloy_primitives::B256;
use certificates::BlockId;
use futures_util::{StreamExt, stream::FuturesOrdered};
use pipeline::{BlockClient, GiveError, UndoError, UndoneTransactions};
use state::Following;
use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinHandle},
    time::{Instant, error::Elapsed, timeout},
};
use tonic::{Code, Status, Streaming, transport::Channel};

/// Time without a piece after which a source counts as stalled: a working source reports its head more often.
const MAX_SILENCE: Duration = Duration::from_secs(5 * REPORT_INTERVAL.as_secs());
/// Time without a whole block after which a source that has the next block counts as stalled.
const MAX_BLOCK_TIME: Duration = Duration::from_secs(60);
/// Maximum time for the last blocks of a connection to be checked.
const MAX_FINISH_TIME: Duration = Duration::from_secs(60);
/// Maximum number of blocks that are being checked. One per core would be enough.
const MAX_CHECKING: usize = 4;
/// Maximum number of blocks that are being checked or in the pipeline, and not part of the chain yet: more than may be
/// without a certificate, and fewer than the unfinished blocks that the pipeline accepts.
const MAX_BLOCKS_IN_PIPELINE: usize = 48;
/// Bytes of encoded blocks from which on nothing more is read from the source.
const MAX_HELD_BYTES: usize = 128 * 1024 * 1024;
/// Maximum size of a piece with its header in bytes. A source sends at most 64 KiB of data.
const MAX_PIECE_BYTES: usize = 128 * 1024;
/// Delay before a request that the pipeline refused as too busy is sent again.
const BUSY_DELAY: Duration = Duration::from_millis(10);

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndReason {
    /// The source sent something wrong. It must not be used again.
    #[error("{0}")]
    SourceRefused(String),
    /// The source cannot be used now.
    #[error("{0}")]
    Unavailable(String),
    /// The pipeline of this node is ending.
    #[error("the node is stopping")]
    Stopping,
}

impl From<CheckError> for EndReason {
    fn from(error: CheckError) -> Self {
        Self::SourceRefused(error.to_string())
    }
}

impl From<Status> for EndReason {
    fn from(status: Status) -> Self {
        let text = status.message().to_owned();
        match status.code() {
            // A message is too large, or does not belong to the protocol.
            Code::OutOfRange if text.contains("limit") => Self::SourceRefused(text),
            Code::Internal if text.contains("decode") => Self::SourceRefused(text),
            // The source has another chain, or another block at the height of this node's head. A source of another
            // protocol version is tried again, because it may be upgraded.
            Code::FailedPrecondition => Self::SourceRefused(text),
            _ => Self::Unavailable(text),
        }
    }
}

/// The parts of this node that check and receive the blocks.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) genesis_hash: B256,
    pub(crate) blocks: BlockClient,
    pub(crate) checks: Arc<Checks>,
    pub(crate) terms: Arc<Terms>,
    pub(crate) following: Arc<Following>,
}

type Choosing = Pin<Box<dyn Future<Output = Result<BlockId, EndReason>> + Send>>;

/// A block in the pipeline.
#[derive(Clone, Copy, Debug)]
struct InPipeline {
    id: BlockId,
    is_certified: bool,
    bytes: usize,
}

/// The state of a connection.
struct Incoming {
    to: Destination,
    /// The newest block of this node that is part of the chain.
    head: BlockId,
    arriving: Arriving,
    /// When the last whole block arrived, or when the source last had none to send.
    progress: Instant,
    /// Whole blocks that wait to be checked. A certificate covers all of them.
    arrived: VecDeque<Arrived>,
    checking: FuturesOrdered<JoinHandle<Result<Checked, CheckError>>>,
    /// The blocks that the pipeline has not accepted yet, and its verdicts in the same order.
    given: VecDeque<InPipeline>,
    verdicts: FuturesOrdered<oneshot::Receiver<Result<(), GiveError>>>,
    /// The accepted blocks that are not part of the chain yet.
    accepted: VecDeque<InPipeline>,
    /// The change of the head that is in progress.
    choosing: Option<Choosing>,
    /// Bytes of whole blocks that are not part of the chain yet.
    held_bytes: usize,
}

/// Receives blocks after `head` until the connection ends. On return, each of them is part of the chain or dropped.
pub(crate) async fn receive(to: Destination, channel: Channel, head: BlockId) -> EndReason {
    let mut incoming = Incoming {
        arriving: Arriving::new(Arc::clone(&to.checks), head),
        to,
        head,
        progress: Instant::now(),
        arrived: VecDeque::new(),
        checking: FuturesOrdered::new(),
        given: VecDeque::new(),
        verdicts: FuturesOrdered::new(),
        accepted: VecDeque::new(),
        choosing: None,
        held_bytes: 0,
    };
    let ended = match incoming.connect(channel).await {
        Ok(mut pieces) => incoming.run(&mut pieces).await,
        Err(ended) => ended,
    };
    match ended {
        // The blocks that have arrived may be invalid, and then the source must not be tried again.
        EndReason::Unavailable(reason) => incoming.complete(EndReason::Unavailable(reason)).await,
        ended => {
            incoming.drop_blocks().await;
            ended
        }
    }
}

fn stalled() -> EndReason {
    EndReason::Unavailable(format!("it sent nothing for {} s", MAX_SILENCE.as_secs()))
}

impl Incoming {
    async fn connect(&mut self, channel: Channel) -> Result<Streaming<Piece>, EndReason> {
        let mut client = SourceClient::new(channel).max_decoding_message_size(MAX_PIECE_BYTES);
        let request = FollowRequest {
            version: PROTOCOL_VERSION,
            genesis_hash: self.to.genesis_hash.to_vec().into(),
            parent: self.head.number,
            parent_hash: self.head.hash.to_vec().into(),
        };
        let response = timeout(MAX_SILENCE, client.follow(request)).await.map_err(|_| stalled())?;
        Ok(response?.into_inner())
    }

    async fn run(&mut self, pieces: &mut Streaming<Piece>) -> EndReason {
        loop {
            let reads = self.held_bytes < MAX_HELD_BYTES && self.arrived.len() < MAX_CHECKING;
            if !reads {
                // This node is slow, so the source does not count as stalled.
                self.progress = Instant::now();
            }
            let piece = async {
                match reads {
                    true => timeout(MAX_SILENCE, pieces.message()).await,
                    false => std::future::pending().await,
                }
            };
            let step = tokio::select! {
                piece = piece => self.receive_piece(piece),
                event = next_event(&mut self.checking, &mut self.verdicts, &mut self.choosing) => self.react(event),
            };
            if let Err(ended) = step.and_then(|()| self.advance()) {
                return ended;
            }
        }
    }

    /// Completes the blocks that have arrived. Returns `ended`, or the reason for which one of them was refused.
    async fn complete(&mut self, ended: EndReason) -> EndReason {
        let completing = async {
            while !self.is_idle() {
                let event =
                    next_event(&mut self.checking, &mut self.verdicts, &mut self.choosing).await;
                self.react(event)?;
                self.advance()?;
            }
            Ok(())
        };
        let completed = timeout(MAX_FINISH_TIME, completing).await;
        self.drop_blocks().await;
        match completed {
            Ok(Err(refused)) => refused,
            _ => ended,
        }
    }

    fn is_idle(&self) -> bool {
        self.arrived.is_empty()
            && self.checking.is_empty()
            && self.given.is_empty()
            && self.choosing.is_none()
    }

    fn receive_piece(
        &mut self,
        piece: Result<Result<Option<Piece>, Status>, Elapsed>,
    ) -> Result<(), EndReason> {
        let piece = piece.map_err(|_| stalled())??;
        let ended = || EndReason::Unavailable("it ended the stream".to_owned());
        let piece = piece.ok_or_else(ended)?;
        let source_head = piece.head;
        self.to.following.source_reported(source_head, self.head.number);
        let arrived = self.arriving.add(piece)?;
        if !arrived.is_empty() || source_head <= self.arriving.newest() {
            self.progress = Instant::now();
        } else if self.progress.elapsed() > MAX_BLOCK_TIME {
            return Err(EndReason::Unavailable(format!(
                "it has block {source_head}, and sent no whole block after {} for {} s",
                self.arriving.newest(),
                MAX_BLOCK_TIME.as_secs()
            )));
        }
        self.held_bytes += arrived.iter().map(|block| block.results.len()).sum::<usize>();
        self.arrived.extend(arrived);
        Ok(())
    }

    fn react(&mut self, event: Event) -> Result<(), EndReason> {
        match event {
            Event::Checked(checked) => match *checked {
                Ok(checked) => self.send_to_pipeline(checked?),
                Err(failed) => {
                    Err(EndReason::Unavailable(format!("a block could not be checked: {failed}")))
                }
            },
            Event::Verdict(verdict) => self.accept(verdict),
            Event::Chosen(chosen) => self.chosen(chosen),
        }
    }

    /// Starts checks of blocks and a change of the head, if they are possible now.
    fn advance(&mut self) -> Result<(), EndReason> {
        let in_pipeline = self.given.len() + self.accepted.len() + self.checking.len();
        let free = MAX_BLOCKS_IN_PIPELINE.saturating_sub(in_pipeline);
        let free = free.min(MAX_CHECKING.saturating_sub(self.checking.len()));
        for arrived in self.arrived.drain(..free.min(self.arrived.len())) {
            let checks = Arc::clone(&self.to.checks);
            self.checking.push_back(tokio::task::spawn_blocking(move || checks.results(arrived)));
        }
        self.choose();
        Ok(())
    }

    fn send_to_pipeline(&mut self, checked: Checked) -> Result<(), EndReason> {
        let Checked { id, block, txs, parts, certificate, bytes } = checked;
        let is_certified = certificate.is_some();
        let verdict = self.to.blocks.give_recovered(block, txs, parts, certificate);
        self.verdicts.push_back(verdict.map_err(end_reason)?);
        self.given.push_back(InPipeline { id, is_certified, bytes });
        Ok(())
    }

    fn accept(&mut self, verdict: Verdict) -> Result<(), EndReason> {
        let given = self.given.pop_front().expect("it has a verdict");
        verdict.map_err(|_| EndReason::Stopping)?.map_err(end_reason)?;
        self.accepted.push_back(given);
        Ok(())
    }

    /// Makes the newest accepted block with a certificate the head.
    fn choose(&mut self) {
        let certified = self.accepted.iter().rposition(|given| given.is_certified);
        let Some(index) = certified.filter(|_| self.choosing.is_none()) else { return };
        let mut chosen = self.head;
        for block in self.accepted.drain(..=index) {
            self.held_bytes -= block.bytes;
            chosen = block.id;
        }
        let blocks = self.to.blocks.clone();
        self.choosing = Some(Box::pin(async move {
            match blocks.choose(chosen.hash, UndoneTransactions::Drop).await {
                Ok(_) => Ok(chosen),
                Err(UndoError::Stopping) => Err(EndReason::Stopping),
                Err(error) => Err(EndReason::Unavailable(error.to_string())),
            }
        }));
    }

    fn chosen(&mut self, chosen: Result<BlockId, EndReason>) -> Result<(), EndReason> {
        self.choosing = None;
        self.head = chosen?;
        self.to.following.head_reached(self.head.number);
        Ok(())
    }

    /// Waits until the pipeline has checked every block that it has, and drops those that are not part of the chain.
    /// The next connection may then send the same blocks again.
    async fn drop_blocks(&mut self) {
        if let Some(choosing) = self.choosing.take() {
            // The next connection begins at the head, whichever it is.
            let _ = choosing.await;
        }
        while self.verdicts.next().await.is_some() {}
        while self.checking.next().await.is_some() {}
        for block in self.accepted.drain(..).chain(self.given.drain(..)) {
            while let Err(UndoError::Busy) = self.to.blocks.abandon(block.id.hash) {
                tokio::time::sleep(BUSY_DELAY).await;
            }
        }
    }
}

type Verdict = Result<Result<(), GiveError>, oneshot::error::RecvError>;

/// An event of blocks that have arrived.
enum Event {
    Checked(Box<Result<Result<Checked, CheckError>, JoinError>>),
    Verdict(Verdict),
    Chosen(Result<BlockId, EndReason>),
}

/// Waits for the next event. Never returns if there is nothing to wait for.
async fn next_event(
    checking: &mut FuturesOrdered<JoinHandle<Result<Checked, CheckError>>>,
    verdicts: &mut FuturesOrdered<oneshot::Receiver<Result<(), GiveError>>>,
    choosing: &mut Option<Choosing>,
) -> Event {
    tokio::select! {
        Some(checked) = checking.next() => Event::Checked(Box::new(checked)),
        Some(verdict) = verdicts.next() => Event::Verdict(verdict),
        chosen = choice(choosing) => Event::Chosen(chosen),
    }
}

async fn choice(choosing: &mut Option<Choosing>) -> Result<BlockId, EndReason> {
    match choosing {
        Some(choosing) => choosing.await,
        None => std::future::pending().await,
    }
}

fn end_reason(error: GiveError) -> EndReason {
    match error {
        GiveError::Stopping => EndReason::Stopping,
        GiveError::Invalid(fault) => EndReason::SourceRefused(fault.to_string()),
        // An earlier block was refused, or the pipeline is too busy.
        error => EndReason::Unavailable(error.to_string()),
    }
}
