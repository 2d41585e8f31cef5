//! Faults that end a pipeline: an invalid block, a failing disk, a violated invariant.

use super::received::ReceivedError;
use alloy_primitives::B256;
use chain::HeaderError;
use evm::ExecutionError;
use home::HomeError;
use mempool::journal::JournalError;
use std::{
    any::Any,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// The refusal of a block, which was not stored.
#[derive(Debug, thiserror::Error)]
#[error("block {number} ({hash}) refused: {reason}")]
pub struct BlockFault {
    /// The block's number, as stated in its header.
    pub number: u64,
    /// The block's hash.
    pub hash: B256,
    /// The reason.
    pub reason: BlockReason,
}

/// The rule that a refused block violates, or the error that prevented its execution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockReason {
    /// The header or an ommer is invalid, or the body or the roots do not match the header.
    #[error("{}", .0.violation)]
    Header(#[from] HeaderError),
    /// A transaction is invalid, the result of execution differs from the header, or the state cannot be read.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The results received with the block are wrong.
    #[error(transparent)]
    Received(#[from] ReceivedError),
    /// A transaction cannot be decoded, or its signer cannot be recovered.
    #[error("transaction {index}: {text}")]
    Transaction {
        /// Position in the block.
        index: usize,
        /// The reason.
        text: String,
    },
}

/// The fault that stopped a stage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A block was refused.
    #[error(transparent)]
    Block(#[from] BlockFault),
    /// A file of blocks cannot be read, is truncated, is not RLP, or contains a block that competes with the chain.
    #[error("{file}: {reason}")]
    BlockFile {
        /// The file.
        file: String,
        /// The reason, with the position in the file if it was opened.
        reason: String,
    },
    /// The home folder could not be read.
    #[error(transparent)]
    Home(Box<HomeError>),
    /// A read from storage failed.
    #[error(transparent)]
    Read(#[from] storage::ReadError),
    /// A write to storage failed.
    #[error(transparent)]
    Write(#[from] storage::WriteError),
    /// A socket could not be opened, or a thread could not be started.
    #[error("{what}: {source}")]
    Socket {
        /// The operation.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// The node cannot listen on these addresses.
    #[error("{}", listen_errors(.0))]
    Listen(Vec<ListenError>),
    /// The recovery backend returns wrong results on this machine.
    #[error(transparent)]
    SelfTest(#[from] verify::SelfTestError),
    /// The mempool's journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A stage panicked: an invariant of the node was violated.
    #[error("stage {stage} panicked: {message}; this is a bug, please report it")]
    Panic {
        /// The stage.
        stage: &'static str,
        /// The panic's message.
        message: String,
    },
}

/// The reason why a server cannot listen on its address.
#[derive(Debug, thiserror::Error)]
#[error("{server} on {address} ({flag}): {source}")]
pub struct ListenError {
    /// The name of the server.
    pub server: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// The flag of `evmd start` that sets the address.
    pub flag: &'static str,
    /// The reason.
    pub source: io::Error,
}

/// Lists the reasons for all addresses, and the remedy.
fn listen_errors(errors: &[ListenError]) -> String {
    let reasons = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let remedy = match errors {
        [error] => format!("set another address with {}", error.flag),
        _ => "set other addresses with these flags".to_owned(),
    };
    // An error without an OS error number does not come from the system: the node itself uses the address.
    let is_in_use = |error: &ListenError| {
        error.source.kind() == io::ErrorKind::AddrInUse && error.source.raw_os_error().is_some()
    };
    let stop = match (errors.iter().any(is_in_use), errors.len()) {
        (false, _) => "",
        (true, 1) => ", or stop the process that uses it",
        (true, _) => ", or stop the processes that use them",
    };
    format!("{reasons}: {remedy}{stop}")
}

/// The reason why a pipeline could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The home folder could not be read.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A stage or a socket could not be created.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Fault {
    /// Creates the fault for a caught panic.
    pub(super) fn panicked(stage: &'static str, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panic { stage, message: text.unwrap_or_else(|| "no message".to_owned()) }
    }
}

/// Stores the first fault of a pipeline and stops its input. Stages before the faulty one then run out of input,
/// and stages after it finish their work.
#[derive(Clone, Debug)]
pub(super) struct FaultCell {
    first: Arc<Mutex<Option<Fault>>>,
    set: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl FaultCell {
    /// Creates a cell that sets `stop` at the first fault.
    pub(super) fn new(stop: Arc<AtomicBool>) -> Self {
        Self { first: Arc::default(), set: Arc::default(), stop }
    }

    /// Stores `fault` if it is the first in block order. A later stage may refuse a block after an earlier
    /// stage has already refused one of its descendants.
    pub(crate) fn put(&self, fault: Fault) {
        self.stop.store(true, Ordering::Relaxed);
        self.set.store(true, Ordering::Relaxed);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = match (&*first, &fault) {
            (None, _) => true,
            (Some(Fault::Block(kept)), Fault::Block(new)) => new.number < kept.number,
            // If a block could not be sealed or committed, that explains the faults of its descendants.
            (Some(Fault::Block(_)), Fault::Write(_) | Fault::Read(_) | Fault::Panic { .. }) => true,
            // Blocks read from a file precede the fault that ended the file.
            (Some(Fault::BlockFile { .. }), _) => true,
            (Some(_), _) => false,
        };
        if is_first {
            *first = Some(fault);
        } else {
            tracing::debug!(%fault, "a further fault");
        }
    }

    pub(super) fn take(&self) -> Option<Fault> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn is_set(&self) -> bool {
        self.set.load(Ordering::Relaxed)
    }
}
