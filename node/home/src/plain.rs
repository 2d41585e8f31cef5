//! The plain mode, for tests and debugging: blocks are executed without caches, prefetching, prediction and
//! fast paths. The results are the same, and the code that runs is the code that reads like the rules.

use evm::ExecutionCaches;
use std::{env, sync::Arc};

/// The variable that selects the plain mode if it is `1`.
const VARIABLE: &str = "EVMD_PLAIN";

/// The caches of the executions of this process; `None` in plain mode.
pub(super) fn caches() -> Option<Arc<ExecutionCaches>> {
    if env::var_os(VARIABLE).is_some_and(|value| value == "1") {
        tracing::warn!(
            "{VARIABLE}=1: blocks are executed without caches and fast paths, which is slow"
        );
        return None;
    }
    Some(Arc::default())
}
