//! The clock for timestamps of new blocks.
//!
//! Timestamps cannot decrease: a block that was produced while the system clock was an hour ahead keeps its
//! timestamp, and every later block has at least the same. The wall clock is therefore compared with the
//! monotonic clock before each block. After a step that is larger than a limit, time continues from the last
//! wall time before the step at the rate of the monotonic clock, until the wall clock agrees again.
//!
//! A development method of JSON-RPC, such as `evm_increaseTime`, moves the time on purpose, which is not a step. Its
//! offset must be added to the result of [`Clock::now`], and not to the source.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// The clocks of a machine.
pub trait TimeSource: Send {
    /// The time of the wall clock, which an operator or a time service can set.
    fn wall(&self) -> SystemTime;

    /// The time since a fixed instant. It cannot be set.
    fn monotonic(&self) -> Duration;
}

/// The clocks of this machine. On Linux, the monotonic one also counts the time during which the machine is suspended:
/// otherwise each resume would look like a step of the wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTimeSource;

impl SystemTimeSource {
    /// Returns the clocks of this machine.
    pub fn boxed() -> Box<dyn TimeSource> {
        Box::new(Self)
    }
}

impl TimeSource for SystemTimeSource {
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn monotonic(&self) -> Duration {
        platform::clock::since_start()
    }
}

/// The difference between the wall clock and the time in use, shared with other threads.
#[derive(Clone, Debug, Default)]
pub struct ClockStatus(Arc<AtomicI64>);

impl ClockStatus {
    /// Returns the seconds by which the wall clock is ahead of the time in use, negative if it is behind, and 0 if the wall
    /// clock is in use. The absolute value is the whole seconds plus one, so that it is never 0 after a step.
    pub fn step_seconds(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn swap(&self, seconds: i64) -> i64 {
        self.0.swap(seconds, Ordering::Relaxed)
    }
}

/// The clock of block production. It has one owner, which reads it before each block.
pub struct Clock {
    source: Box<dyn TimeSource>,
    max_step: Duration,
    /// The last wall time in use, and the monotonic time at that moment.
    wall: SystemTime,
    monotonic: Duration,
    status: ClockStatus,
}

impl Clock {
    /// Creates a clock that starts with the wall time of `source` and does not follow steps above `max_step`.
    pub fn new(source: Box<dyn TimeSource>, max_step: Duration, status: ClockStatus) -> Self {
        let (wall, monotonic) = (source.wall(), source.monotonic());
        Self { source, max_step, wall, monotonic, status }
    }

    /// Returns the current time, and logs when it starts or stops to differ from the wall clock.
    pub fn now(&mut self) -> SystemTime {
        let (wall, monotonic) = (self.source.wall(), self.source.monotonic());
        let expected = self.wall + monotonic.saturating_sub(self.monotonic);
        let (step, is_ahead) = match wall.duration_since(expected) {
            Ok(step) => (step, true),
            Err(error) => (error.duration(), false),
        };
        if step <= self.max_step {
            (self.wall, self.monotonic) = (wall, monotonic);
            if self.status.swap(0) != 0 {
                tracing::info!(
                    "the system clock agrees with the monotonic clock again and is in use"
                );
            }
            return wall;
        }
        let seconds = i64::try_from(step.as_secs().saturating_add(1)).unwrap_or(i64::MAX);
        let seconds = if is_ahead { seconds } else { -seconds };
        if self.status.swap(seconds) == 0 {
            tracing::warn!(
                step_seconds = seconds,
                limit_seconds = self.max_step.as_secs(),
                "the system clock was set by more than engine.max-clock-step-s: timestamps of blocks follow \
                 the monotonic clock until the system clock is corrected or the node is restarted"
            );
        }
        expected
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("wall", &self.wall)
            .field("step_seconds", &self.status.step_seconds())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
