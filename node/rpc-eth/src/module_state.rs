//! Reads the state of the modules of a native chain during or after a block.

use crate::method::Call;
use chain::ChainSpec;
use modules::Modules;
use rpc_types::error::Error;
use state::{
    ModulesViewError, View,
    stored::{self, StoredError},
};
use std::sync::Arc;
use storage::BlockFlags;

/// Returns the modules after a block, or `None` on an Ethereum chain.
pub fn modules_after(call: &Call, number: u64) -> Result<Option<Arc<Modules>>, Error> {
    let Some(native) = call.context.spec.native() else { return Ok(None) };
    call.view.modules_after(native, number).map(Some).map_err(Error::internal)
}

/// Returns the modules during the transactions of a block, which must have a parent, or `None` on an Ethereum chain.
pub fn modules_within(call: &Call, number: u64) -> Result<Option<Arc<Modules>>, Error> {
    modules_within_view(&call.context.spec, &call.view, number).map_err(Error::internal)
}

/// Like [`modules_within`], but for a block of a view.
///
/// # Errors
/// Returns an error if the modules before the block cannot be read.
pub fn modules_within_view(
    spec: &ChainSpec,
    view: &View,
    number: u64,
) -> Result<Option<Arc<Modules>>, ModulesViewError> {
    let Some(native) = spec.native() else { return Ok(None) };
    let before = view.modules_after(native, number.saturating_sub(1))?;
    let mut modules = Arc::unwrap_or_clone(before);
    modules.market.begin_block(number, native.max_gas);
    if let Some(wei) = base_fee_set_by_client(spec, view, number)? {
        modules.market.set_base_fee_wei(wei);
    }
    Ok(Some(Arc::new(modules)))
}

/// Returns the base fee of a block if a client of a development chain may have set it.
fn base_fee_set_by_client(
    spec: &ChainSpec,
    view: &View,
    number: u64,
) -> Result<Option<u64>, ModulesViewError> {
    if !spec.is_development() {
        return Ok(None);
    }
    let blocks = view.blocks()?;
    let flags = blocks.flags(number)?.unwrap_or_default();
    if !flags.contains(BlockFlags::HEADER_SET) {
        return Ok(None);
    }
    let header = stored::header(&blocks, number).map_err(|error| match error {
        StoredError::Read(error) => ModulesViewError::Read(error),
        StoredError::Damaged(_) => ModulesViewError::Missing(number),
    })?;
    Ok(header.1.base_fee_per_gas)
}

/// Returns the modules after a block without the governance state, or `None` on an Ethereum chain.
pub fn parameters_after(call: &Call, number: u64) -> Result<Option<Arc<Modules>>, Error> {
    let Some(native) = call.context.spec.native() else { return Ok(None) };
    call.view.parameters_after(native, number).map(Some).map_err(Error::internal)
}
