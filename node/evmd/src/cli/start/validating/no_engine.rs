//! Stands in for the consensus engine in a program that is built without it and so cannot be a validator.

use home::Home;
use pipeline::{Certify, Pipeline};
use std::{path::Path, sync::Arc};

/// Has no values, because this program cannot start a validator.
pub(in super::super) enum Prepared {}

/// Has no values, because no validator runs in this program.
pub(in super::super) enum Validator {}

// `new` always fails. The other methods cannot be called, because no values exist.
impl Prepared {
    pub(super) fn new() -> anyhow::Result<Self> {
        anyhow::bail!(validator::NEEDS_ENGINE)
    }

    pub(in super::super) fn certifier(&self) -> Arc<dyn Certify> {
        match *self {}
    }

    pub(in super::super) fn start(self, _: &Home, _: &Pipeline) -> anyhow::Result<Validator> {
        match self {}
    }
}

impl Validator {
    pub(in super::super) const fn is_running(&self) -> bool {
        match *self {}
    }

    pub(in super::super) const fn stop(self) {
        match self {}
    }
}

/// Never called, because no engine runs in this program.
pub(in super::super) fn engine_has_ended(_: &Path) -> anyhow::Error {
    anyhow::anyhow!(validator::NEEDS_ENGINE)
}
