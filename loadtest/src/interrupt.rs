//! Ctrl-C during a measurement: the results so far are reported. A second Ctrl-C exits immediately.

use anyhow::Context;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Exit code of a run that was interrupted: 128 plus the number of SIGINT.
pub(crate) const EXIT_CODE: u8 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler of Ctrl-C.
pub(crate) fn listen() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Relaxed) {
            std::process::exit(EXIT_CODE.into());
        }
    })
    .context("cannot install the handler of Ctrl-C")
}

/// Returns whether Ctrl-C was pressed.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Relaxed)
}
