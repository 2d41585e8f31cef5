//! Prepares a node that is one of the validators of its chain.

#[cfg(feature = "consensus")]
#[path = "validating/engine.rs"]
mod engine;
#[cfg(not(feature = "consensus"))]
#[path = "validating/no_engine.rs"]
mod engine;

use anyhow::Context;
pub(super) use engine::{Prepared, engine_has_ended};
use home::{Home, validator_key};

/// Returns what [`Prepared::start`] needs, or `None` if this node is not a validator.
///
/// # Errors
/// If [`is_validator`] fails.
pub(super) fn prepare(home: &Home) -> anyhow::Result<Option<Prepared>> {
    is_validator(home)?.then(Prepared::new).transpose()
}

/// Returns whether this node takes part in consensus: the genesis has validators, and the settings do not restrict this
/// node to following or serving.
///
/// # Errors
/// If it should take part, but has no consensus engine, no key of a validator in the genesis, or no p2p address.
fn is_validator(home: &Home) -> anyhow::Result<bool> {
    let config = &home.config;
    let is_wanted = config.engine.produce && config.replication.follow.is_empty();
    if !super::has_validators(&home.spec) || !is_wanted {
        return Ok(false);
    }
    if cfg!(not(feature = "consensus")) {
        anyhow::bail!(
            "validators make the blocks of this chain, and {}; a node that only serves it is started with --no-produce",
            validator::NEEDS_ENGINE
        );
    }
    let key = validator_key(&home.path)?;
    let key = key.context(
        "validators make the blocks of this chain, and this home has no validator.key: `evmd validator new-key` creates one, \
         whose public key must be in the genesis; a node that only serves the chain is started with --no-produce",
    )?;
    let public = key.public();
    let gov = &home.spec.native().expect("a chain with validators is native").gov;
    if !gov.consensus_validators().any(|(_, key)| key == public) {
        anyhow::bail!(
            "validator.key: its public key {public} is not that of a validator of the genesis (gov.validators): copy the file of \
             a validator, or start with --no-produce"
        );
    }
    if config.p2p.address.address().is_none() {
        anyhow::bail!(
            "p2p.address is off, and this node is a validator: set the address at which the others reach it, such as \
             --p2p.address 0.0.0.0:26656"
        );
    }
    Ok(true)
}
