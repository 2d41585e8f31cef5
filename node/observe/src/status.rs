//! The responses of `/health`, `/ready` and `/status`.

use super::{Context, Observed};
use alloy_primitives::B256;
use certificates::PublicKey;
use chain::Rules;
use config::Endpoints;
use pipeline::{Reading, RingReading};
use rpc::CallReading;
use serde::Serialize;
use state::{FollowingReading, VotingReading};
use std::time::Duration;

/// The health of the node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    /// The head can be read and is recent enough, and no stage has failed.
    pub(super) healthy: bool,
    head: u64,
    pub(super) head_readable: bool,
    /// A block has been due for more than ten block times and more than ten seconds.
    pub(super) head_stalled: bool,
    pub(super) fault: bool,
    /// Problems of a node that still works.
    degraded: Vec<String>,
    /// `None` unless the node follows others.
    #[serde(flatten)]
    lag: Option<Lag>,
}

/// How far a node that follows others is behind them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lag {
    lag_blocks: u64,
    lag_ms: u64,
}

impl Lag {
    fn of(reading: &FollowingReading) -> Self {
        let lag_ms = u64::try_from(reading.lag.as_millis()).unwrap_or(u64::MAX);
        Self { lag_blocks: reading.lag_blocks, lag_ms }
    }
}

impl Health {
    /// Reads only memory, because a disk that does not respond must not block this response.
    pub(super) fn take(context: &Observed) -> Self {
        let view = context.published.load();
        let head_readable = context.head.is_readable();
        let head_stalled = context.progress.is_stalled();
        let fault = context.monitor.fault();
        let clock = clock_reason(context.monitor.clock_step_seconds());
        let replica = context.published.following();
        let problem = replica.as_ref().and_then(without_source);
        let degraded = clock.into_iter().chain(problem).collect();
        let lag = replica.as_ref().map(Lag::of);
        Self {
            lag,
            ..Self::from_checks(view.number(), head_readable, head_stalled, fault, degraded)
        }
    }

    pub(super) const fn from_checks(
        head: u64,
        head_readable: bool,
        head_stalled: bool,
        fault: bool,
        degraded: Vec<String>,
    ) -> Self {
        let healthy = head_readable && !head_stalled && !fault;
        Self { healthy, head, head_readable, head_stalled, fault, degraded, lag: None }
    }
}

/// Whether the node should receive requests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ready {
    /// The node is healthy, is not stopping, and is not behind a node that it follows.
    pub(super) ready: bool,
    healthy: bool,
    stopping: bool,
    behind: bool,
    /// `None` unless the node follows others.
    #[serde(flatten)]
    lag: Option<Lag>,
}

impl Ready {
    pub(super) fn take(context: &Observed) -> Self {
        let (healthy, stopping) = (Health::take(context).healthy, context.pool.is_stopping());
        let replica = context.published.following();
        let behind = replica.as_ref().is_some_and(|replica| replica.is_behind);
        let ready = healthy && !stopping && !behind;
        Self { ready, healthy, stopping, behind, lag: replica.as_ref().map(Lag::of) }
    }
}

/// Returns the problem of a node that follows others and has no source, or has refused one.
fn without_source(reading: &FollowingReading) -> Option<String> {
    let refused = reading.refused.iter();
    let refused: Vec<_> =
        refused.map(|(source, reason)| format!("{source} was refused: {reason}")).collect();
    if reading.source.is_some() {
        return (!refused.is_empty()).then(|| refused.join("; "));
    }
    let reasons =
        if refused.is_empty() { "none can be reached".to_owned() } else { refused.join("; ") };
    Some(format!(
        "no source is followed, so the head is the last block that one has sent: {reasons}"
    ))
}

/// Returns the problem to report after a step of the system clock.
fn clock_reason(step_seconds: i64) -> Option<String> {
    let direction = match step_seconds {
        0 => return None,
        1.. => "ahead of",
        _ => "behind",
    };
    let seconds = step_seconds.unsigned_abs();
    Some(format!(
        "the system clock is {seconds} s {direction} the time of new blocks, which follows the monotonic \
         clock since the system clock was set by more than engine.max-clock-step-s: correct the system \
         clock, or restart the node to use it"
    ))
}

/// The response of `/status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    version: &'static str,
    /// The name of this run of the node, which differs after each start.
    run: String,
    chain_id: u64,
    rules: &'static str,
    backend: &'static str,
    fault: bool,
    head: HeadStatus,
    /// `null` if the node signs no blocks.
    producer: Option<ProducerStatus>,
    /// `null` if the node does not follow others.
    replica: Option<ReplicaStatus>,
    /// `null` if the node is not a validator.
    validator: Option<ValidatorStatus>,
    /// `null` if the pool is too busy to respond.
    pool: Option<PoolStatus>,
    endpoints: Endpoints,
    stages: Vec<Reading>,
    rings: Vec<RingReading>,
    calls: Vec<CallReading>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeadStatus {
    number: u64,
    hash: B256,
    state_root: B256,
    timestamp: u64,
    next_base_fee: u64,
}

#[derive(Debug, Serialize)]
struct ProducerStatus {
    key: PublicKey,
    term: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicaStatus {
    /// `null` if no source can be followed now.
    source: Option<String>,
    source_head: u64,
    behind: bool,
    #[serde(flatten)]
    lag: Lag,
    refused: Vec<RefusedSource>,
}

/// A source that sent something wrong.
#[derive(Debug, Serialize)]
struct RefusedSource {
    source: String,
    reason: String,
}

impl ReplicaStatus {
    fn of(reading: FollowingReading) -> Self {
        let lag = Lag::of(&reading);
        let FollowingReading { source, source_head, is_behind: behind, refused, .. } = reading;
        let refused = refused.into_iter().map(|(source, reason)| RefusedSource { source, reason });
        Self { source, source_head, behind, lag, refused: refused.collect() }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ValidatorStatus {
    view: u64,
    validators: Vec<PresentValidator>,
    skipped_views: u64,
    contradicting_votes: u64,
    /// `null` until a block is final.
    finality_ms: Option<FinalityMs>,
}

/// A validator, and whether it has voted in the last ten seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PresentValidator {
    consensus_key: B256,
    votes: bool,
}

#[derive(Debug, Serialize)]
struct FinalityMs {
    p50: f64,
    p95: f64,
}

impl ValidatorStatus {
    fn of(reading: VotingReading) -> Self {
        let VotingReading { view, validators, skipped_views, contradictions, finality } = reading;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let present = |(consensus_key, votes)| PresentValidator { consensus_key, votes };
        Self {
            view,
            validators: validators.into_iter().map(present).collect(),
            skipped_views,
            contradicting_votes: contradictions,
            finality_ms: finality.map(|[p50, p95]| FinalityMs { p50: ms(p50), p95: ms(p95) }),
        }
    }
}

#[derive(Debug, Serialize)]
struct PoolStatus {
    pending: usize,
    queued: usize,
}

impl Status {
    pub(super) async fn take(context: &Context) -> Self {
        let view = context.published.load();
        let header = &view.head.header;
        let level = context.pool.level().await.ok();
        let replica = context.published.following();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            run: context.run.clone(),
            chain_id: context.spec.chain_id,
            rules: match context.spec.rules {
                Rules::Native => "native",
                Rules::Ethereum => "ethereum",
            },
            backend: context.backend.name(),
            fault: context.monitor.fault(),
            head: HeadStatus {
                number: view.number(),
                hash: view.head.hash,
                state_root: header.state_root,
                timestamp: header.timestamp,
                next_base_fee: view.head.next_base_fee,
            },
            producer: context.producer.map(|(key, term)| ProducerStatus { key, term }),
            replica: replica.map(ReplicaStatus::of),
            validator: context.published.voting().map(ValidatorStatus::of),
            pool: level.map(|level| PoolStatus { pending: level.pending, queued: level.queued }),
            endpoints: context.config.endpoints(),
            stages: context.monitor.readings(),
            rings: context.monitor.rings(),
            calls: context.calls.readings(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_step_is_reported_with_its_direction() {
        assert_eq!(clock_reason(0), None);
        assert!(
            clock_reason(3601).is_some_and(|text| text.contains("is 3601 s ahead of the time"))
        );
        assert!(clock_reason(-31).is_some_and(|text| text.contains("is 31 s behind the time")));
    }
}
