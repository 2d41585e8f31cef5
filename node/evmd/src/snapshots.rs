//! Makes a snapshot every N blocks (the settings in `[snapshot]`).
//!
//! Verification takes memory for every account and time for every row, so a child process with low priority copies and
//! verifies the chain. Only one child runs at a time, and an orderly shutdown kills it. If a snapshot takes longer than
//! the interval, fewer snapshots are made. A failed snapshot is not retried before the next interval.

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

/// Interval at which the head and the child process are checked.
const POLL: Duration = Duration::from_secs(1);
/// Niceness of the child process, as in `nice(1)`. A higher value would prolong the copy on a busy node, which cannot
/// reuse free pages of its database until the copy ends.
const NICENESS: i32 = 10;
/// Maximum number of bytes of the child's standard error that are logged. A report of damage has a few kilobytes.
const MAX_ERROR_BYTES: u64 = 16 << 10;

/// The thread that makes snapshots. Dropping this ends the thread and cancels a snapshot that is being made.
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
    /// If the folder cannot be created, read or cleaned up, or the thread cannot be started.
    pub fn start(home: &Path, config: &Config, published: Published) -> Result<Self, HomeError> {
        let mut this = Self { counters: Arc::default(), stop: None, thread: None };
        if config.snapshot.every_blocks == 0 {
            return Ok(this);
        }
        let folder = config.snapshot.folder_in(home);
        let io_error = |source| HomeError::Io { path: folder.clone(), source };
        fs::create_dir_all(&folder)
            .map_err(|source| HomeError::SnapshotFolder { path: folder.clone(), source })?;
        kept::remove_leftovers(&folder)?;
        let (settings, home) = (config.snapshot.clone(), home.to_owned());
        let counters = Arc::clone(&this.counters);
        let mut maker = Maker { settings, home, folder: folder.clone(), counters, attempted: 0 };
        maker.attempted = maker.update_newest()?;
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut running = None;
            while stopped.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                running = maker.step(running, &published);
            }
            if let Some(child) = running {
                maker.cancel(child);
            }
        };
        let thread =
            thread::Builder::new().name("snapshots".to_owned()).spawn(run).map_err(io_error)?;
        (this.stop, this.thread) = (Some(stop), Some(thread));
        Ok(this)
    }

    /// Returns the counters: the number of failed snapshots, and the block number of the newest snapshot.
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
    /// Block number of the newest attempt; initially, that of the newest snapshot in the folder.
    attempted: u64,
}

impl Maker {
    /// Starts a snapshot if one is due, or checks the child that is making one. Returns the child if it still runs.
    fn step(&mut self, running: Option<Child>, published: &Published) -> Option<Child> {
        let done = match running {
            None => self.start_if_due(published),
            Some(child) => self.check_child(child),
        };
        done.unwrap_or_else(|error| {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
            let block = self.attempted;
            tracing::error!(block, %error, "the scheduled snapshot failed; the next attempt is at the next interval");
            None
        })
    }

    fn start_if_due(&mut self, published: &Published) -> Result<Option<Child>, HomeError> {
        let view = published.load();
        let (number, hash) = (view.number(), view.head.hash);
        drop(view);
        // After blocks have been undone, the interval begins at the new head.
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
        // If this fails, the child only competes more with the node for processor time.
        let _ = rustix::process::setpriority_process(pid, NICENESS);
        Ok(child)
    }

    fn check_child(&self, mut child: Child) -> Result<Option<Child>, HomeError> {
        let io_error = |source| HomeError::Io { path: self.folder.clone(), source };
        let Some(status) = child.try_wait().map_err(io_error)? else { return Ok(Some(child)) };
        if !status.success() {
            let error = error_of(child);
            let reason = format!("`evmd snapshot create` ended with {status}: {error}");
            self.remove_leftovers();
            return Err(io_error(io::Error::other(reason)));
        }
        for removed in kept::remove_oldest(&self.folder, self.settings.keep as usize)? {
            tracing::info!(path = %removed.path.display(), "removed an old snapshot");
        }
        let newest = self.update_newest()?;
        tracing::info!(block = newest, "made and verified a snapshot");
        Ok(None)
    }

    /// Publishes the block number of the newest snapshot in the counters and returns it; 0 if there is none.
    fn update_newest(&self) -> Result<u64, HomeError> {
        let newest = kept::list(&self.folder)?.last().map_or(0, |kept| kept.number);
        self.counters.newest.store(newest, Ordering::Relaxed);
        Ok(newest)
    }

    /// Kills the child and removes its unfinished snapshot.
    fn cancel(&self, mut child: Child) {
        // An error means that the process has already ended.
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

/// Returns whether the head has reached a multiple of the interval since the newest attempt.
const fn is_due(head: u64, every: u64, attempted: u64) -> bool {
    head / every > attempted / every
}

/// Returns the path of this program's executable. On Linux it stays valid after an update has replaced the file.
fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Reads what an ended child process has written to standard error.
fn error_of(child: Child) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr {
        // If reading fails, the part that was read is still useful.
        let _ = stderr.take(MAX_ERROR_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn snapshot_is_due_once_per_interval() {
        for (head, attempted, due) in [
            (0, 0, false),
            (99, 0, false),
            (100, 0, true),
            (101, 100, false),
            (199, 101, false),
            (200, 101, true),
            // One snapshot is made after several missed intervals.
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
