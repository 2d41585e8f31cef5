//! Tests `/health` and `/ready` of a node whose pipeline stalls and resumes.

use crate::{
    client::Node,
    common::{native_home, producing},
};
use pipeline::{Options, SystemTimeSource, TimeSource};
use serde_json::Value;
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use testkit::MAX_WAIT;

/// When the node's clock was stopped (`None` while it runs), and the total duration of earlier stops.
static STOPPED: Mutex<(Option<Duration>, Duration)> = Mutex::new((None, Duration::ZERO));

/// The machine's clock without the time during which this clock was stopped. While it is stopped, the engine produces
/// no blocks.
struct Stoppable;

impl TimeSource for Stoppable {
    fn wall(&self) -> SystemTime {
        SystemTimeSource.wall() - SystemTimeSource.monotonic().saturating_sub(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        let (since, before) = *STOPPED.lock().unwrap_or_else(PoisonError::into_inner);
        since.unwrap_or_else(|| SystemTimeSource.monotonic()) - before
    }
}

fn stop_clock() {
    STOPPED.lock().unwrap().0 = Some(SystemTimeSource.monotonic());
}

fn continue_clock() {
    let mut stopped = STOPPED.lock().unwrap();
    let since = stopped.0.take().expect("the clock is stopped");
    stopped.1 += SystemTimeSource.monotonic() - since;
}

/// Requests both paths until they return this status. Returns the last response of `/health`.
async fn wait_for_status(node: &Node, expected: u16) -> Value {
    let begun = Instant::now();
    loop {
        let (health, body) = node.get("/health").await;
        let (ready, _) = node.get("/ready").await;
        if [health, ready] == [expected; 2] {
            return serde_json::from_str(&body).unwrap();
        }
        assert!(begun.elapsed() < MAX_WAIT, "the status is {health} and {ready}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_pipeline_is_unhealthy_until_it_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(&folder.path().join("home"));
    let options =
        Options { clocks: || Box::new(Stoppable), ..producing(Some(Duration::from_millis(20))) };
    let node = Node::start(folder, home, options).await;
    wait_for_status(&node, 200).await;
    stop_clock();
    let reason = wait_for_status(&node, 503).await;
    assert_eq!(reason["headStalled"], true, "{reason}");
    // Published data can still be read while the node is not ready.
    node.call("eth_blockNumber", serde_json::json!([])).await;
    continue_clock();
    wait_for_status(&node, 200).await;
    node.stop().await;
}
