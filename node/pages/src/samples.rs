//! Samples the counters of the stages each second, and computes rates from the samples.

use mempool::{Level, PriceBand};
use pipeline::{Monitor, Reading, RingReading};
use state::Published;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::{MissedTickBehavior, interval};

/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of samples. Rates are computed over the time from the oldest to the newest one: 10 seconds.
const MAX_SAMPLES: usize = 11;
/// Maximum number of new blocks whose transactions a sample counts. Reading more would take milliseconds, so the number
/// of transactions in the others is estimated.
const MAX_COUNTED_BLOCKS: u64 = 1_000;

/// The state of the pool that the dashboard shows.
#[derive(Clone, Debug)]
pub(crate) struct PoolState {
    /// `None` if the pool did not respond.
    pub(crate) level: Option<Level>,
    pub(crate) bands: Vec<PriceBand>,
}

#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    head: u64,
    /// Number of transactions in blocks after the first sample.
    txs: u64,
    stages: Vec<Reading>,
}

/// The newest samples.
#[derive(Debug)]
pub(crate) struct Samples {
    monitor: Monitor,
    published: Published,
    kept: Mutex<VecDeque<Sample>>,
}

/// The rates between the oldest and the newest sample, per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) blocks: f64,
    pub(crate) txs: f64,
    pub(crate) stages: Vec<StageRates>,
    pub(crate) rings: Vec<RingReading>,
}

#[derive(Clone, Debug)]
pub(crate) struct StageRates {
    pub(crate) name: &'static str,
    /// Items per second that the stage received.
    pub(crate) received: f64,
    /// Items per second that it sent to the next stage.
    pub(crate) sent: f64,
    /// Fraction of the time in which the stage worked, 0 to 1.
    pub(crate) busy: f64,
    /// Latency of a batch since the start, in seconds: median, 99th percentile, maximum.
    pub(crate) latency_seconds: [f64; 3],
    /// Number of items that were refused since the start.
    pub(crate) refused: u64,
}

/// Spawns a task that takes a sample each second until the last reference to the samples is dropped.
pub(crate) fn sample(monitor: Monitor, published: Published) -> Arc<Samples> {
    let samples = Arc::new(Samples { monitor, published, kept: Mutex::default() });
    samples.take();
    let weak = Arc::downgrade(&samples);
    tokio::spawn(async move {
        let mut due = interval(PERIOD);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            let Some(samples) = weak.upgrade() else { return };
            // Reading blocks may wait for the disk.
            if tokio::task::spawn_blocking(move || samples.take()).await.is_err() {
                return;
            }
        }
    });
    samples
}

impl Samples {
    fn take(&self) {
        let head = self.published.load().number();
        let newest = self.kept().back().map(|sample| (sample.head, sample.txs));
        let txs = newest.map_or(0, |(before, txs)| txs + self.txs_between(before, head));
        let sample = Sample { at: Instant::now(), head, txs, stages: self.monitor.readings() };
        let mut kept = self.kept();
        kept.push_back(sample);
        while kept.len() > MAX_SAMPLES {
            kept.pop_front();
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, VecDeque<Sample>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of transactions in the blocks after `before` up to `head`.
    fn txs_between(&self, before: u64, head: u64) -> u64 {
        let new = head.saturating_sub(before);
        let counted = new.min(MAX_COUNTED_BLOCKS);
        let Ok(blocks) = self.published.load().blocks() else { return 0 };
        let counts = (head - counted + 1..=head).filter_map(|number| blocks.tx_count(number).ok());
        let sum = counts.map(|count| count as u64).sum::<u64>();
        if counted == 0 {
            0
        } else {
            u64::try_from(u128::from(sum) * u128::from(new) / u128::from(counted))
                .unwrap_or(u64::MAX)
        }
    }

    /// Returns the rates between the oldest and the newest sample.
    pub(crate) fn rates(&self) -> Rates {
        let kept = self.kept();
        let (Some(old), Some(new)) = (kept.front(), kept.back()) else { return Rates::default() };
        let seconds = new.at.duration_since(old.at).as_secs_f64().max(1e-9);
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        let stages = old.stages.iter().zip(&new.stages).map(|(before, after)| StageRates {
            name: after.name,
            received: rate(before.received, after.received),
            sent: rate(before.sent, after.sent),
            busy: ((after.busy_seconds - before.busy_seconds) / seconds).clamp(0.0, 1.0),
            latency_seconds: after.latency_seconds,
            refused: after.rejected.values().sum(),
        });
        Rates {
            blocks: rate(old.head, new.head),
            txs: rate(old.txs, new.txs),
            stages: stages.collect(),
            rings: self.monitor.rings(),
        }
    }
}
