//! The state of the modules of the native chain before, in and after a block.

use crate::method::Call;
use modules::Modules;
use rpc_types::error::Error;
use state::stored;
use std::sync::Arc;
use storage::BlockFlags;

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
    if let Some(wei) = base_fee_that_was_set(call, number)? {
        modules.market.set_base_fee_wei(wei);
    }
    Ok(Some(Arc::new(modules)))
}

/// Returns the base fee of a block that has another one than the fee market computes.
fn base_fee_that_was_set(call: &Call, number: u64) -> Result<Option<u64>, Error> {
    if !call.context.spec.is_development() {
        return Ok(None);
    }
    let blocks = call.view.blocks()?;
    let flags = blocks.flags(number)?.unwrap_or_default();
    if !flags.contains(BlockFlags::HEADER_SET) {
        return Ok(None);
    }
    Ok(stored::header(&blocks, number)?.1.base_fee_per_gas)
}

/// Returns the modules after a block without the governance state, or `None` on an Ethereum chain.
pub fn parameters_after(call: &Call, number: u64) -> Result<Option<Arc<Modules>>, Error> {
    let Some(native) = call.context.spec.native() else { return Ok(None) };
    call.view.parameters_after(native, number).map(Some).map_err(Error::internal)
}
