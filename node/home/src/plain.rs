//! The plain mode, for tests and debugging: blocks are executed without caches, prefetching, prediction and fast
//! paths. The results are the same.

use evm::ExecutionCaches;
use std::{env, sync::Arc};

/// The environment variable that selects plain mode if it is `1`.
const VARIABLE: &str = "EVMD_PLAIN";

/// Returns the caches that the executions of this process share; `None` in plain mode.
pub(super) fn caches() -> Option<Arc<ExecutionCaches>> {
    if env::var_os(VARIABLE).is_some_and(|value| value == "1") {
        tracing::warn!(
            "{VARIABLE}=1: blocks are executed without caches and fast paths, which is slow"
        );
        return None;
    }
    Some(Arc::default())
}
