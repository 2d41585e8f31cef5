//! Snapshots at intervals of blocks (`[snapshot]`).
//!
//! A child process copies and verifies the chain with a low priority, because verification needs memory for each
//! account and time for each row, and ends with the node. One runs at a time. A node that is too slow for the interval
//! makes fewer snapshots; one that failed is not repeated before the next interval.

use config::{Config, Snapshot};
use home::{HomeError, snapshot::kept};
use observe::SnapshotCounters;
use state::Published;
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Time between two looks at the head and at the child process.
const POLL: Duration = Duration::from_secs(1);
/// Niceness of the child process, as in `nice(1)`. A higher one would make the copy slow on a busy node, which cannot reuse
/// pages of its files meanwhile.
const NICENESS: i32 = 10;
/// Maximum number of bytes of a child's error that are logged. A report of damage has a few kilobytes.
const MAX_ERROR_BYTES: u64 = 16 << 10;

/// The thread that makes snapshots. Dropping this ends it, and a snapshot that is being made.
#[derive(Debug)]
pub struct Snapshots {
    counters: Arc<SnapshotCounters>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Snapshots {
    /// Starts the thread, unless the interval is 0.
    ///
    /// # Errors
    /// If the folder cannot be made or read, or the thread cannot be started.
    pub fn start(home: &Path, config: &Config, published: Published) -> Result<Self, HomeError> {
        let mut this = Self { counters: Arc::default(), stop: None, thread: None };
        if config.snapshot.every_blocks == 0 {
            return Ok(this);
        }
        let folder = config.snapshot.folder_in(home);
        let at = |source| HomeError::Io { path: folder.clone(), source };
        fs::create_dir_all(&folder)
            .map_err(|source| HomeError::SnapshotFolder { path: folder.clone(), source })?;
        kept::remove_leftovers(&folder)?;
        let (settings, home) = (config.snapshot.clone(), home.to_owned());
        let counters = Arc::clone(&this.counters);
        let mut maker = Maker { settings, home, folder: folder.clone(), counters, attempted: 0 };
        maker.attempted = maker.count()?;
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut running = None;
            while stopped.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                running = maker.step(running, &published);
            }
            if let Some(child) = running {
                maker.give_up(child);
            }
        };
        let thread = thread::Builder::new().name("snapshots".to_owned()).spawn(run).map_err(at)?;
        (this.stop, this.thread) = (Some(stop), Some(thread));
        Ok(this)
    }

    /// The counters.
    pub fn counters(&self) -> Arc<SnapshotCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Maker {
    settings: Snapshot,
    home: PathBuf,
    folder: PathBuf,
    counters: Arc<SnapshotCounters>,
    /// The block of the newest attempt.
    attempted: u64,
}

impl Maker {
    /// Starts a snapshot if one is due, or examines the one that is being made. Returns what is being made afterwards.
    fn step(&mut self, running: Option<Child>, published: &Published) -> Option<Child> {
        let done = match running {
            None => self.begin(published),
            Some(child) => self.proceed(child),
        };
        done.unwrap_or_else(|error| {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
            let block = self.attempted;
            tracing::error!(block, %error, "the scheduled snapshot failed; the next attempt is at the next interval");
            None
        })
    }

    fn begin(&mut self, published: &Published) -> Result<Option<Child>, HomeError> {
        let view = published.load();
        let (number, hash) = (view.number(), view.head.hash);
        drop(view);
        // After an undo, the interval begins at the new head.
        self.attempted = self.attempted.min(number);
        if !is_due(number, self.settings.every_blocks, self.attempted) {
            return Ok(None);
        }
        self.attempted = number;
        let path = self.folder.join(kept::name(number, hash));
        if path.exists() {
            return Ok(None);
        }
        tracing::info!(block = number, path = %path.display(), "making a snapshot");
        self.child(&path).map(Some).map_err(|source| HomeError::Io { path, source })
    }

    /// Starts this program as a child process.
    fn child(&self, path: &Path) -> io::Result<Child> {
        let mut command = Command::new(program()?);
        command.args(["snapshot", "create", "--verify", "--output", "json", "--home"]);
        command.arg(&self.home).arg(path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        // With the usual priority the snapshot takes more time from the node, but is as good.
        let _ = rustix::process::setpriority_process(pid, NICENESS);
        Ok(child)
    }

    fn proceed(&self, mut child: Child) -> Result<Option<Child>, HomeError> {
        let failed = |source| HomeError::Io { path: self.folder.clone(), source };
        let Some(status) = child.try_wait().map_err(failed)? else { return Ok(Some(child)) };
        if !status.success() {
            let error = error_of(child);
            let reason = format!("`evmd snapshot create` ended with {status}: {error}");
            self.remove_leftovers();
            return Err(failed(io::Error::other(reason)));
        }
        for removed in kept::remove_oldest(&self.folder, self.settings.keep as usize)? {
            tracing::info!(path = %removed.path.display(), "removed an old snapshot");
        }
        let newest = self.count()?;
        tracing::info!(block = newest, "made and verified a snapshot");
        Ok(None)
    }

    /// Reads the newest snapshot, and publishes its block.
    fn count(&self) -> Result<u64, HomeError> {
        let newest = kept::list(&self.folder)?.last().map_or(0, |kept| kept.number);
        self.counters.newest.store(newest, Ordering::Relaxed);
        Ok(newest)
    }

    /// Ends a snapshot that is being made.
    fn give_up(&self, mut child: Child) {
        // Both fail only if the process has ended.
        let _ = child.kill();
        let _ = child.wait();
        self.remove_leftovers();
    }

    fn remove_leftovers(&self) {
        if let Err(error) = kept::remove_leftovers(&self.folder) {
            tracing::warn!(%error, "cannot remove the unfinished snapshot");
        }
    }
}

/// Whether a multiple of the interval lies above the newest attempt, up to the head.
const fn is_due(head: u64, every: u64, attempted: u64) -> bool {
    head / every > attempted / every
}

/// The file of this program, also after an update has replaced it.
fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// What a child process has written to standard error.
fn error_of(child: Child) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr {
        // What was read before a failure is still useful.
        let _ = stderr.take(MAX_ERROR_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn a_snapshot_is_due_once_for_each_interval() {
        for (head, attempted, due) in [
            (0, 0, false),
            (99, 0, false),
            (100, 0, true),
            (101, 100, false),
            (199, 101, false),
            (200, 101, true),
            // Intervals that were missed are not made up for.
            (1_050, 101, true),
            (1_099, 1_050, false),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(is_due(head, 100, attempted), due, "{head} after {attempted}");
        }
        assert!(is_due(1, 1, 0));
        assert!(!is_due(u64::MAX, u64::MAX, u64::MAX) && is_due(u64::MAX, u64::MAX, 0));
    }
}
