//! Checks that the chain has the system contracts that its next blocks call.

use alloy_primitives::KECCAK256_EMPTY;
use anyhow::bail;
use home::Home;
use std::time::{SystemTime, UNIX_EPOCH};
use storage::{ReadError, StateRead};

/// Warns about each system contract without code that blocks of this chain call, now or after a later fork.
///
/// # Errors
/// If this node produces blocks and the next one would be invalid, or if the state cannot be read.
pub(super) fn check(home: &Home, produces_blocks: bool) -> anyhow::Result<()> {
    let view = home.view()?;
    let state = view.state.reader()?;
    let missing = home.spec.missing_system_contracts(|address| {
        let account = state.account(address)?;
        Ok::<_, ReadError>(account.is_some_and(|account| account.code_hash != KECCAK256_EMPTY))
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let head = &view.head.header;
    let next_fork = home.spec.fork_after(head, now.max(head.timestamp));
    for missing in missing {
        let is_fatal = missing.contract.is_required && next_fork >= missing.contract.fork;
        if produces_blocks && is_fatal {
            bail!("cannot produce block {}: {missing}", head.number + 1);
        }
        tracing::warn!("{missing}");
    }
    Ok(())
}
