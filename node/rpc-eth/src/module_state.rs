//! The state of the modules of the native chain before, in and after a block.

use crate::method::Call;
use modules::Modules;
use rpc_types::error::Error;
use std::sync::Arc;

/// Returns the modules after a block, or `None` on an Ethereum chain.
pub fn modules_after(call: &Call, number: u64) -> Result<Option<Arc<Modules>>, Error> {
    let Some(native) = call.context.spec.native() else { return Ok(None) };
    call.view.modules_after(native, number).map(Some).map_err(Error::internal)
}

/// Returns the modules during the transactions of a block, which must have a parent, or `None` on an Ethereum chain.
pub fn modules_within(call: &Call, number: u64) -> Result<Option<Arc<Modules>>, Error> {
    let Some(native) = call.context.spec.native() else { return Ok(None) };
    let Some(before) = modules_after(call, number.saturating_sub(1))? else { return Ok(None) };
    let mut modules = Arc::unwrap_or_clone(before);
    modules.market.begin_block(number, native.max_gas);
    Ok(Some(Arc::new(modules)))
}

/// Returns the modules after a block without the governance state, or `None` on an Ethereum chain.
pub fn parameters_after(call: &Call, number: u64) -> Result<Option<Arc<Modules>>, Error> {
    let Some(native) = call.context.spec.native() else { return Ok(None) };
    call.view.parameters_after(native, number).map(Some).map_err(Error::internal)
}
