//! Reports why the process ends when a mapped file cannot be read.
//!
//! The environments are mapped into memory. If a data file is truncated while it is mapped, or its disk
//! fails, touching a page raises SIGBUS, whose default action ends the process without a message. The handler
//! writes a message that was prepared when it was installed, restores the default action and raises the signal again, so
//! that the exit status stays that of SIGBUS.
//!
//! Must never: do anything in the handler that is not async-signal-safe, such as allocating.
#![allow(unsafe_code)]

use std::{path::Path, ptr, sync::OnceLock};

/// What the handler writes.
static MESSAGE: OnceLock<Vec<u8>> = OnceLock::new();

/// Installs the handler; the first folder named is the one in the message.
pub(crate) fn report(home: &Path) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chain::Genesis, home::Home};
    use std::{
        fs::File,
        os::unix::process::ExitStatusExt,
        process::{Command, Stdio},
    };

    /// Set for a child process: the home folder whose chain it truncates.
    const CHILD_HOME: &str = "EVMD_TEST_SIGBUS_HOME";

    /// Not a test by itself: the process of the test below.
    #[test]
    fn child_reads_a_truncated_file() {
        let Some(home) = std::env::var_os(CHILD_HOME) else { return };
        let path = Path::new(&home);
        let home = Home::open(path).expect("a home");
        let data = File::options().write(true).open(home.chain.path().join("data.mdb"));
        data.and_then(|file| file.set_len(8192)).expect("truncated");
        let head = home.chain.reader().and_then(|blocks| blocks.head());
        println!("still there: {head:?}");
    }

    #[test]
    fn a_file_that_is_truncated_while_in_use_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(Home::init(folder.path(), &Genesis::native_dev(1_700_000_000)).expect("a chain"));
        let child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "sigbus::tests::child_reads_a_truncated_file", "--nocapture"])
            .env(CHILD_HOME, folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("a child");
        let text = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{:?} {text}", child.status);
        for part in ["SIGBUS", "truncated", "evmd doctor", &folder.path().display().to_string()] {
            assert!(text.contains(part), "{text}");
        }
    }
}
