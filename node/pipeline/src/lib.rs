//! The pipeline: stages connected by bounded rings. `topology` defines the whole graph in one table. Each stage
//! has its own file, whose documentation states its input, output, state, limits and back-pressure.
//!
//! Stages do not share state and do not wait for each other. They pass batches on if they have credit, and park when
//! idle. The loop that runs them is in `stage`.

mod ante;
mod batch;
mod block_client;
mod branch;
mod builder;
mod caller;
mod client;
mod commit;
mod development;
mod execute;
mod fault;
mod fee;
mod flush;
mod ingest;
mod meter;
mod modules_block;
mod monitor;
mod next;
mod options;
mod received;
mod recent_latency;
mod recover;
mod reorder;
mod ring;
mod seal;
mod source;
mod stage;
mod submit;
mod sync;
mod topology;
mod undo;
mod undo_floor;
mod worker_waker;

pub use ante::{
    BlockPart, Candidates, Found, KnownTransactions, PoolQuery, SenderTxs, TakenTransactions,
};
pub use batch::{MAX_TX_BYTES, RawTx, Reply, Submitted};
pub use block_client::BlockClient;
pub use branch::{BuildError, GiveError, RecoveredTxs};
pub use client::{PoolClient, PoolCounts, PooledNonce, TransactionForwarder};
pub use commit::CommittedTotals;
pub use consensus::{Mining, MiningControl, SystemTimeSource, TimeSource};
pub use development::{
    Develop, DevelopError, Developed, DevelopmentClock, HeaderSettings, NextBlockSettings,
};
pub use fault::{BlockFault, BlockReason, Fault, ListenError, StartError};
pub use ingest::{INGEST_FLAG, INGEST_NAME, MAX_FRAME_BYTES};
pub use mempool::{Arrival, Submitter};
pub use meter::Reading;
pub use monitor::{Monitor, RingReading};
pub use next::{NextBlock, Tried, TryBounds, try_all};
pub use options::{Certify, Options};
pub use received::{ReceivedError, ReceivedParts};
pub use recover::recover_body;
pub use source::SourceProgress;
pub use topology::Pipeline;
pub use undo::{UndoError, UndoneTransactions};
