//! The flags that state which keys certify the blocks of a chain, for the commands that check proofs.

use alloy_primitives::B256;
use anyhow::{Context, bail};
use certificates::{Authority, PublicKey};
use chain::Genesis;
use std::path::PathBuf;

/// The keys of a chain: from its genesis file, or stated.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Trust {
    /// The genesis file of the chain
    #[arg(long, value_name = "FILE", conflicts_with = "genesis_hash")]
    genesis: Option<PathBuf>,
    /// Hash of block 0 of the chain, instead of --genesis
    #[arg(long, value_name = "HASH", requires = "producer_key")]
    genesis_hash: Option<B256>,
    /// The public key of the producer, if the genesis file is not given or names none
    #[arg(long, value_name = "KEY")]
    producer_key: Option<PublicKey>,
    /// The recovery key of the chain, if it has one and the genesis file is not given
    #[arg(long, value_name = "KEY", requires = "genesis_hash")]
    recovery_key: Option<PublicKey>,
}

impl Trust {
    /// Returns the keys that certify the blocks of the chain until the first new producer term.
    pub(super) fn authority(&self) -> anyhow::Result<Authority> {
        if let (Some(genesis), Some(producer)) = (self.genesis_hash, self.producer_key) {
            return Ok(Authority::new(genesis, producer, self.recovery_key));
        }
        let path = self
            .genesis
            .as_deref()
            .context("state --genesis, or --genesis-hash and --producer-key")?;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let genesis = Genesis::from_json(&text).with_context(|| path.display().to_string())?;
        let hash = genesis.header().hash_slow();
        let native = genesis.spec.native();
        let validators = native.map(|native| native.gov.consensus_keys()).unwrap_or_default();
        let named = native.and_then(|native| native.producer);
        match (named, self.producer_key) {
            (None, None) if !validators.is_empty() => {
                Ok(Authority::of_validators(hash, validators))
            }
            (None, Some(_)) if !validators.is_empty() => {
                bail!("{} names validators: leave --producer-key out", path.display())
            }
            (Some(named), None) => Ok(Authority::new(hash, named.key, named.recovery)),
            (None, Some(key)) => Ok(Authority::new(hash, key, None)),
            (None, None) => bail!("{} names no producer: state --producer-key", path.display()),
            (Some(named), Some(_)) => {
                bail!(
                    "{} names the producer {}: leave --producer-key out",
                    path.display(),
                    named.key
                )
            }
        }
    }
}
