//! `/health` and `/status`.

use super::Context;
use crate::{
    chain::Rules,
    config::Endpoints,
    pipeline::{Reading, RingReading},
    rpc::CallReading,
};
use alloy_primitives::B256;
use serde::Serialize;

/// Whether the node does its work.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    /// The newest block can be read and no stage has failed.
    pub(super) healthy: bool,
    head: u64,
    head_readable: bool,
    fault: bool,
}

impl Health {
    pub(super) fn take(context: &Context) -> Self {
        let view = context.published.load();
        let stored = view.blocks().and_then(|blocks| blocks.hash(view.number()));
        let head_readable = matches!(stored, Ok(Some(hash)) if hash == view.head.hash);
        let fault = context.monitor.fault();
        Self { healthy: head_readable && !fault, head: view.number(), head_readable, fault }
    }
}

/// All there is to see.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    version: &'static str,
    chain_id: u64,
    rules: &'static str,
    backend: &'static str,
    fault: bool,
    head: HeadStatus,
    /// `null` while it is too busy to be asked.
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
struct PoolStatus {
    pending: usize,
    queued: usize,
}

impl Status {
    pub(super) async fn take(context: &Context) -> Self {
        let view = context.published.load();
        let header = &view.head.header;
        let level = context.pool.level().await.ok();
        Self {
            version: env!("CARGO_PKG_VERSION"),
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
            pool: level.map(|level| PoolStatus { pending: level.pending, queued: level.queued }),
            endpoints: context.config.endpoints(),
            stages: context.monitor.readings(),
            rings: context.monitor.rings(),
            calls: context.calls.readings(),
        }
    }
}
