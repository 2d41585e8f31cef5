//! Reports why the process ends when a mapped file cannot be read.
//!
//! The environments are mapped into memory. If a data file is truncated while it is mapped, or its disk fails, touching
//! a page raises SIGBUS, whose default action ends the process without a message. The handler writes a message that was
//! prepared when it was installed, restores the default action and raises the signal again, so that the exit status
//! stays that of SIGBUS.
//!
//! The handler must not do anything that is not async-signal-safe, such as allocating.
#![allow(unsafe_code)]

use std::{path::Path, ptr, sync::OnceLock};

/// The message that the handler writes.
static MESSAGE: OnceLock<Vec<u8>> = OnceLock::new();

/// Installs the handler, with a message that names the folder. Later calls have no effect.
pub fn report(home: &Path) {
    let home = home.display();
    let message = format!(
        "error: a data file of {home} could not be read (SIGBUS): it was truncated while in use, or its \
         disk failed; check the disk, then run `evmd doctor --verify --home {home}`\n"
    );
    if MESSAGE.set(message.into_bytes()).is_err() {
        return;
    }
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_sigbus as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_ONSTACK;
    // SAFETY: the action is initialized, and the handler has the signature of one without `SA_SIGINFO`.
    // If it cannot be installed, the process ends without the message, as it would have anyway.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
}

extern "C" fn on_sigbus(signal: libc::c_int) {
    if let Some(message) = MESSAGE.get() {
        // SAFETY: the bytes live as long as the process, and `write` is async-signal-safe.
        unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    }
    // SAFETY: both functions are async-signal-safe. The signal stays blocked until the handler returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
