//! Applies the overrides of a call: accounts, storage, and moved precompiles.
//!
//! As in geth, overrides have the effect of a transaction that precedes the call.

use std::error::Error;

use alloy_primitives::{Address, map::AddressSet};
use storage::StateRead;

use super::{
    StateError,
    account_override::AccountOverride,
    overlay::{Overlay, StorageOverride},
    precompiles::NodePrecompiles,
};

/// Why overrides are invalid.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// Only precompiles can be moved.
    #[error("account {0} is not a precompile")]
    NotPrecompile(Address),
    /// A precompile cannot be moved to an account that is overridden as well.
    #[error("account {0} is already overridden")]
    Overridden(Address),
    /// An account that a precompile was moved to cannot be overridden.
    #[error("account {0} has already been overridden by a precompile")]
    OverriddenByPrecompile(Address),
    /// The override has both the whole storage and a part of it.
    #[error("account {0} has both 'state' and 'stateDiff'")]
    TwoStates(Address),
    /// A read failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Applies overrides in their order.
pub(super) fn apply<S>(
    overrides: &[AccountOverride],
    overlay: &mut Overlay<'_, S>,
    precompiles: &mut NodePrecompiles,
) -> Result<(), OverrideError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut moved_to = AddressSet::default();
    for account in overrides {
        let address = account.address;
        if moved_to.contains(&address) {
            return Err(OverrideError::OverriddenByPrecompile(address));
        }
        let origin = precompiles.origin(address);
        if let Some(to) = account.move_precompile_to {
            let origin = origin.ok_or(OverrideError::NotPrecompile(address))?;
            if overrides.iter().any(|other| other.address == to) {
                return Err(OverrideError::Overridden(to));
            }
            precompiles.put(to, origin);
            moved_to.insert(to);
        }
        if origin.is_some() {
            precompiles.remove(address);
        }
        let storage = match (&account.state, &account.state_diff) {
            (Some(_), Some(_)) => return Err(OverrideError::TwoStates(address)),
            (Some(all), None) => Some(StorageOverride::All(all)),
            (None, Some(some)) => Some(StorageOverride::Some(some)),
            (None, None) => None,
        };
        overlay.replace(address, account, storage)?;
    }
    Ok(())
}
