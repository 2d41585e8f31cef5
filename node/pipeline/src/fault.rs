//! What ends a pipeline other than its input: a block that does not hold, a disk that fails, a
//! broken invariant.

use alloy_primitives::B256;
use chain::HeaderError;
use evm::ExecutionError;
use home::HomeError;
use mempool::journal::JournalError;
use std::{
    any::Any,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Why a given block was refused; nothing of it was kept.
#[derive(Debug, thiserror::Error)]
#[error("block {number} ({hash}) refused: {reason}")]
pub struct BlockFault {
    /// Its number, as its header states it.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// The rule it breaks.
    pub reason: BlockReason,
}

/// The rule a refused block breaks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockReason {
    /// The header, the ommers, or the body against the header.
    #[error("{}", .0.violation)]
    Header(#[from] HeaderError),
    /// A transaction, or the outcome of executing the block.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// A transaction does not decode, or its signature has no signer.
    #[error("transaction {index}: {text}")]
    Transaction {
        /// Position in the block.
        index: usize,
        /// What is wrong.
        text: String,
    },
}

/// Why a stage stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A given block breaks a rule; nothing of it was kept.
    #[error(transparent)]
    Block(#[from] BlockFault),
    /// A file of blocks ends early or is not RLP.
    #[error("{file}: {reason}")]
    BlockFile {
        /// The file.
        file: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// Storage refused a read.
    #[error(transparent)]
    Read(#[from] storage::ReadError),
    /// Storage refused a write.
    #[error(transparent)]
    Write(#[from] storage::WriteError),
    /// A socket could not be opened or served.
    #[error("{what}: {source}")]
    Socket {
        /// Which.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// The recovery backend has wrong results on this machine.
    #[error(transparent)]
    SelfTest(#[from] verify::SelfTestError),
    /// The mempool's journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A stage panicked: a broken invariant of ours.
    #[error("stage {stage} panicked: {message}; this is a bug, please report it")]
    Panic {
        /// The stage.
        stage: &'static str,
        /// The panic's message.
        message: String,
    },
}

/// Why a pipeline could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The home folder.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A stage or a socket.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Fault {
    /// The fault of a caught panic.
    pub(super) fn panicked(stage: &'static str, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panic { stage, message: text.unwrap_or_else(|| "no message".to_owned()) }
    }
}

/// Keeps the first fault of a pipeline and stops its intake. Stages before the fault then run dry,
/// those behind it finish what they have.
#[derive(Clone, Debug)]
pub(super) struct FaultCell {
    first: Arc<Mutex<Option<Fault>>>,
    set: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl FaultCell {
    /// A cell that sets `stop` at the first fault.
    pub(super) fn new(stop: Arc<AtomicBool>) -> Self {
        Self { first: Arc::default(), set: Arc::default(), stop }
    }

    /// Keeps `fault` if it is the first in the order of blocks. A stage further on may refuse an
    /// earlier block a moment later than one before it refuses the blocks built on that.
    pub(crate) fn put(&self, fault: Fault) {
        self.stop.store(true, Ordering::Relaxed);
        self.set.store(true, Ordering::Relaxed);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = match (&*first, &fault) {
            (None, _) => true,
            (Some(Fault::Block(kept)), Fault::Block(new)) => new.number < kept.number,
            // What made a block impossible to seal or to commit explains the blocks after it.
            (Some(Fault::Block(_)), Fault::Write(_) | Fault::Read(_) | Fault::Panic { .. }) => true,
            // Blocks that a file still gave come before what ended the file.
            (Some(Fault::BlockFile { .. }), _) => true,
            (Some(_), _) => false,
        };
        if is_first {
            *first = Some(fault);
        } else {
            tracing::debug!(%fault, "a further fault");
        }
    }

    /// Takes the fault out.
    pub(super) fn take(&self) -> Option<Fault> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A fault has occurred.
    pub(super) fn is_set(&self) -> bool {
        self.set.load(Ordering::Relaxed)
    }
}
