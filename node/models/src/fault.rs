//! Replaces `pipeline/src/fault.rs`, with only the faults that a stage of a model can have.

use mempool::journal::JournalError;
use std::{
    any::Any,
    sync::{Arc, Mutex, PoisonError},
};

/// Why a stage stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("stage {stage} panicked: {message}")]
    Panic { stage: &'static str, message: String },
}

impl Fault {
    pub(crate) fn panicked(stage: &'static str, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panic { stage, message: text.unwrap_or_else(|| "no message".to_owned()) }
    }
}

/// Stores the first fault. The model checker does not observe this lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultCell(Arc<Mutex<Option<Fault>>>);

impl FaultCell {
    pub(crate) fn put(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    pub(crate) fn take(&self) -> Option<Fault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
