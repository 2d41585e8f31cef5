//! Executes blocks with the plain executor and with the fast paths, and compares the results.

use alloy_primitives::B256;
use chain::ChainSpec;
use evm::{
    BlockInput, Executed, ExecutionCaches, ExecutionError, ExecutionHost, StateError, StateRoot,
    execute_block,
};
use modules::Modules;
use std::{borrow::Borrow, error::Error, sync::LazyLock};
use storage::StateRead;
use transactions::RecoveredTx;

/// All tests share these caches, just as all executions of a node share its caches.
static CACHES: LazyLock<ExecutionCaches> = LazyLock::new(ExecutionCaches::default);

/// Adds caches to a host, so that blocks are executed by the fast paths.
pub struct FastHost<'a>(pub &'a dyn ExecutionHost);

impl ExecutionHost for FastHost<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        self.0.block_hash(number)
    }

    fn is_cancellable(&self) -> bool {
        self.0.is_cancellable()
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        Some(&CACHES)
    }
}

/// Calls [`execute_block`] on a host without caches, then again with caches. Returns the second result.
///
/// # Panics
/// Panics if the results differ.
pub fn execute_block_both_ways<S, T: Borrow<RecoveredTx>>(
    spec: &ChainSpec,
    state: &S,
    host: &dyn ExecutionHost,
    root: &StateRoot<'_>,
    modules: Option<&Modules>,
    input: &BlockInput<'_, T>,
) -> Result<Executed, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let plain = execute_block(spec, state, host, root, modules, input);
    let fast = execute_block(spec, state, &FastHost(host), root, modules, input);
    match (&plain, &fast) {
        (Ok(plain), Ok(fast)) => assert_eq!(plain, fast),
        (plain, fast) => {
            let texts = [plain, fast].map(|result| result.as_ref().map_err(ToString::to_string));
            assert_eq!(texts[0], texts[1]);
        }
    }
    fast
}
