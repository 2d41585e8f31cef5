//! Ctrl-C while measuring: what was measured until then is told. A second one ends at once.

use anyhow::Context;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Exit code of a run that was interrupted: 128 and the number of SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Listens to Ctrl-C from now on.
pub(crate) fn listen() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Relaxed) {
            std::process::exit(EXIT_CODE.into());
        }
    })
    .context("listening to Ctrl-C")
}

/// Whether it was pressed.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Relaxed)
}
