//! The pipeline: stages joined by bounded rings. `topology` is the whole graph in one table; each
//! stage has its own file, which opens with what it takes, gives, owns, bounds, and does when full.
//!
//! Stages never share state and never wait for each other: they hand batches over, spend credits,
//! and park when idle. The loop around them is written once, in `stage`.

mod ante;
mod arrival;
mod batch;
mod builder;
mod client;
mod commit;
mod disk;
mod execute;
mod fault;
mod fee;
mod flush;
mod ingest;
mod meter;
mod modules_block;
mod monitor;
mod next;
mod recover;
mod reorder;
mod ring;
mod seal;
mod source;
mod stage;
mod submit;
mod topology;
mod worker_waker;

pub use ante::{BlockPart, Candidates, Found, PoolQuery, SenderTxs};
pub use arrival::Arrival;
pub use batch::{RawTx, Reply, Submitted};
pub use client::PoolClient;
pub use commit::CommittedTotals;
pub use fault::{BlockFault, BlockReason, Fault, StartError};
pub use ingest::{FRAME_BYTES_MAX, TX_BYTES_MAX};
pub use meter::Reading;
pub use monitor::{Monitor, RingReading};
pub use next::{NextBlock, Tried, TryBounds, try_all};
pub use source::SourceProgress;
pub use topology::{Options, Pipeline};
