//! A program without the consensus engine, which cannot be a validator.

use home::Home;
use pipeline::{Certify, Pipeline};
use std::{path::Path, sync::Arc};

/// What a validator is started with. There is none.
pub(in super::super) enum Prepared {}

/// A running validator. There is none.
pub(in super::super) enum Validator {}

impl Prepared {
    /// Always fails.
    pub(super) fn new() -> anyhow::Result<Self> {
        anyhow::bail!(validator::NEEDS_ENGINE)
    }

    /// Stores the certificates of final blocks.
    pub(in super::super) fn certifier(&self) -> Arc<dyn Certify> {
        match *self {}
    }

    /// Starts the consensus engine.
    pub(in super::super) fn start(self, _: &Home, _: &Pipeline) -> anyhow::Result<Validator> {
        match self {}
    }
}

impl Validator {
    /// Whether the engine works.
    pub(in super::super) const fn is_running(&self) -> bool {
        match *self {}
    }

    /// Stops the engine.
    pub(in super::super) const fn stop(self) {
        match self {}
    }
}

/// The error of a node whose engine has ended by itself.
pub(in super::super) fn engine_has_ended(_: &Path) -> anyhow::Error {
    anyhow::anyhow!(validator::NEEDS_ENGINE)
}
