//! Writes log lines to standard error, and to a file if an option names one. Each output has its own queue and thread,
//! so a blocked reader or a slow disk does not delay other threads.

mod file;
mod options;
mod queue;
mod text;

pub(super) use options::{LogArgs, RUST_LOG_HELP};

use anyhow::{Context, anyhow};
use file::LogFile;
use options::LogFormat;
use queue::{DroppedNotice, Queue};
use std::{fs::File, io::IsTerminal, os::fd::AsFd, path::Path, sync::OnceLock, time::Duration};
use text::{LineTime, TextLines};
use tracing::Subscriber;
use tracing_subscriber::{
    Layer, filter::Targets, fmt, layer::SubscriberExt, registry::LookupSpan,
    util::SubscriberInitExt,
};

/// Maximum time to wait for the queued lines of each output when the program ends.
const MAX_FLUSH_WAIT: Duration = Duration::from_secs(1);

/// The queues of this process, which are set when logging is started.
static QUEUES: OnceLock<Vec<Queue>> = OnceLock::new();

/// Writes logs to standard error. `RUST_LOG` selects levels by target (`warn,rpc=debug`). If it is not set, `default`
/// is used.
///
/// # Errors
/// If `RUST_LOG` is invalid.
pub(super) fn start(default: &str) -> anyhow::Result<()> {
    let (levels, queue) = (levels(default)?, standard_error(LogFormat::Text));
    let lines = lines(queue.clone(), LogFormat::Text, is_terminal());
    tracing_subscriber::registry().with(lines.with_filter(levels)).init();
    QUEUES.get_or_init(|| vec![queue]);
    Ok(())
}

/// Writes logs as the options of `evmd start` require. Returns the levels by target.
///
/// # Errors
/// If `RUST_LOG` is invalid or the file cannot be opened.
pub(super) fn start_with(args: &LogArgs) -> anyhow::Result<Targets> {
    let levels = levels(args.levels())?;
    let mut queues = vec![standard_error(args.format)];
    let mut outputs = vec![lines(queues[0].clone(), args.format, is_terminal())];
    if let Some(path) = &args.file {
        let queue = log_file(path, args.format)?;
        outputs.push(lines(queue.clone(), args.format, false));
        queues.push(queue);
    }
    tracing_subscriber::registry().with(outputs.with_filter(levels.clone())).init();
    QUEUES.get_or_init(|| queues);
    Ok(levels)
}

/// Waits until the queued lines have been written, but no longer than [`MAX_FLUSH_WAIT`] for each output.
pub(super) fn flush() {
    for queue in QUEUES.get().into_iter().flatten() {
        queue.flush(MAX_FLUSH_WAIT);
    }
}

/// Parses the levels by target from `RUST_LOG`, or else from `default`.
fn levels(default: &str) -> anyhow::Result<Targets> {
    let Some(text) = std::env::var_os("RUST_LOG") else {
        return Ok(default.parse().expect("the built-in defaults are valid"));
    };
    let text = text.to_string_lossy();
    text.parse().map_err(|error| {
        anyhow!(
            "RUST_LOG={text:?}: {error}; it is a comma-separated list of TARGET=LEVEL, such as warn,rpc=debug, with \
             the levels off, error, warn, info, debug and trace"
        )
    })
}

fn standard_error(format: LogFormat) -> Queue {
    // A blocked `Stderr` keeps its lock, so other threads would wait. If standard error is closed, the lines are lost.
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let reason = "standard error was not read in time";
    Queue::writing_to(stderr.ok(), DroppedNotice { reason, format })
}

fn log_file(path: &Path, format: LogFormat) -> anyhow::Result<Queue> {
    let file = LogFile::open(path);
    let file = file.with_context(|| format!("--log-file: cannot open {}", path.display()))?;
    let reason = "the log file was not written in time";
    Ok(Queue::writing_to(Some(file), DroppedNotice { reason, format }))
}

fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Returns whether `NO_COLOR` disables colours (<https://no-color.org>).
fn is_colourless() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Returns a layer that formats lines and writes them to a queue.
fn lines<S>(queue: Queue, format: LogFormat, is_terminal: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let layer = fmt::layer().with_writer(move || queue.clone());
    let time = if is_terminal { LineTime::OfDay } else { LineTime::Full };
    match format {
        LogFormat::Text => layer
            .with_ansi(is_terminal && !is_colourless())
            .event_format(TextLines::new(time))
            .boxed(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true);
            layer.with_current_span(false).with_span_list(false).boxed()
        }
    }
}
