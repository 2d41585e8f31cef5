//! Takes snapshots and returns to them.

use super::{Answer, Call, Develop, Error, develop, development, json, mining};
use alloy_primitives::U64;
use pipeline::{NextBlockSettings, UndoError};
use rpc_eth::development::{Development, Snapshot};
use rpc_types::params::{Number, Param};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use transactions::RecoveredTx;

/// Stores a snapshot. No block is produced meanwhile, so that all parts of the snapshot belong to the same block.
pub(super) async fn snapshot(call: Call) -> Answer {
    call.no_arguments()?;
    let development = development(&call)?;
    let _changing = development.changing.lock().await;
    let mut heads = call.context.published.heads();
    let suspended = develop(&call, Develop::Suspend).await?;
    // Blocks that were proposed before the suspension are still executed.
    let reached = heads.wait_for(|number| *number >= suspended.last_block).await.map(drop);
    let kept = keep(&call, development, suspended.settings).await;
    develop(&call, Develop::Resume).await?;
    reached.map_err(|_| Error::server("the node is stopping"))?;
    json(&U64::from(kept?))
}

async fn keep(
    call: &Call,
    development: &Development,
    settings: NextBlockSettings,
) -> Result<u64, Error> {
    let senders = call.context.pool.content(None).await?;
    let txs = senders.iter().flat_map(|sender| sender.pending.iter().chain(&sender.queued));
    let pool: Vec<Arc<RecoveredTx>> = txs.cloned().collect();
    let view = call.context.published.load();
    let head = (view.number(), view.head.hash);
    Ok(development.keep(Snapshot { head, pool, settings, mining: mining(call)?.get() }))
}

/// Returns to a snapshot.
pub(super) async fn revert(call: Call) -> Answer {
    let Number(id) = call.arguments()?.required()?;
    let development = development(&call)?;
    let _changing = development.changing.lock().await;
    let Some(snapshot) = development.take(id) else { return json(&false) };
    let blocks = call.context.published.load().blocks()?;
    if blocks.hash(snapshot.head.0)? != Some(snapshot.head.1) {
        return json(&false);
    }
    drop(blocks);
    return_to(&call, development, snapshot).await?;
    json(&true)
}

/// The parameter of `anvil_reset`. viem sends it without the address of a network.
#[derive(Deserialize)]
struct Reset {
    forking: Option<Forking>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Forking {
    json_rpc_url: Option<String>,
}

impl Param for Reset {
    fn read(json: &str, _: &chain::ChainSpec) -> Result<Self, String> {
        let reset: Self = serde_json::from_str(json)
            .map_err(|_| "expected an object such as {\"forking\": {}}".to_owned())?;
        match reset.forking.as_ref().and_then(|forking| forking.json_rpc_url.as_ref()) {
            Some(_) => {
                Err("forking a network is not supported: use anvil --fork-url with this node"
                    .to_owned())
            }
            None => Ok(reset),
        }
    }
}

/// Returns to block 0.
pub(super) async fn reset(call: Call) -> Answer {
    call.arguments()?.optional::<Reset>()?;
    let development = development(&call)?;
    let _changing = development.changing.lock().await;
    development.forget();
    let snapshot = Snapshot {
        head: (0, Default::default()),
        pool: Vec::new(),
        settings: NextBlockSettings::default(),
        mining: mining(&call)?.get(),
    };
    return_to(&call, development, snapshot).await?;
    json(&Value::Null)
}

/// Makes the block of the snapshot the head, and then restores the rest.
async fn return_to(
    call: &Call,
    development: &Development,
    snapshot: Snapshot,
) -> Result<(), Error> {
    let control = mining(call)?;
    develop(call, Develop::Suspend).await?;
    let undone = match development.blocks.undo_to_any(snapshot.head.0).await {
        // The snapshot was taken at the current head.
        Err(UndoError::NotBelow { to, head }) if to == head => Ok(()),
        undone => undone.map(drop),
    };
    if let Err(error) = undone {
        develop(call, Develop::Resume).await?;
        return Err(Error::server(error.to_string()));
    }
    control.set(snapshot.mining);
    develop(call, Develop::Restore(snapshot.pool, snapshot.settings)).await?;
    Ok(())
}
