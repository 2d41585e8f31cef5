//! Determines the fork of a block: up to London by height, then by the merge, and from Shanghai on by time.

use alloy_eips::{
    eip7594::MAX_BLOBS_PER_TX_FUSAKA,
    eip7840::{BLOB_BASE_COST, BlobParams},
};
use alloy_genesis::ChainConfig;
use revm::primitives::{eip3860::MAX_INITCODE_SIZE, hardfork::SpecId};

use super::GenesisError;

/// Maximum gas limit of one transaction since Osaka (EIP-7825).
const MAX_TX_GAS: u64 = 1 << 24;

/// The execution rules of a fork. Forks compare in chronological order: `fork >= Fork::Berlin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fork {
    /// The first rules.
    Frontier,
    /// EIP-606.
    Homestead,
    /// EIP-608, gas repricing of EIP-150.
    Tangerine,
    /// EIP-607: EIP-155, EIP-158/161, EIP-170.
    SpuriousDragon,
    /// EIP-609.
    Byzantium,
    /// EIP-1013, with the net gas metering of EIP-1283.
    Constantinople,
    /// EIP-1716: Constantinople without EIP-1283.
    Petersburg,
    /// EIP-1679.
    Istanbul,
    /// EIP-2070.
    Berlin,
    /// EIP-1559 and others.
    London,
    /// EIP-3675, the merge.
    Paris,
    /// EIP-4895 and others.
    Shanghai,
    /// EIP-7569.
    Cancun,
    /// EIP-7600.
    Prague,
    /// EIP-7607.
    Osaka,
}

impl Fork {
    /// Returns the interpreter's identifier of these rules.
    ///
    /// The interpreter has no Constantinople. The caller implements EIP-1283, the difference from Petersburg.
    pub const fn spec_id(self) -> SpecId {
        match self {
            Self::Frontier => SpecId::FRONTIER,
            Self::Homestead => SpecId::HOMESTEAD,
            Self::Tangerine => SpecId::TANGERINE,
            Self::SpuriousDragon => SpecId::SPURIOUS_DRAGON,
            Self::Byzantium => SpecId::BYZANTIUM,
            Self::Constantinople | Self::Petersburg => SpecId::PETERSBURG,
            Self::Istanbul => SpecId::ISTANBUL,
            Self::Berlin => SpecId::BERLIN,
            Self::London => SpecId::LONDON,
            Self::Paris => SpecId::MERGE,
            Self::Shanghai => SpecId::SHANGHAI,
            Self::Cancun => SpecId::CANCUN,
            Self::Prague => SpecId::PRAGUE,
            Self::Osaka => SpecId::OSAKA,
        }
    }

    /// Returns the maximum gas limit of one transaction (EIP-7825); `None` before Osaka.
    pub fn max_tx_gas(self) -> Option<u64> {
        (self >= Self::Osaka).then_some(MAX_TX_GAS)
    }

    /// Returns the maximum size of init code in bytes (EIP-3860); `None` before Shanghai.
    pub fn max_init_code_bytes(self) -> Option<usize> {
        (self >= Self::Shanghai).then_some(MAX_INITCODE_SIZE)
    }
}

/// The height or time at which each fork starts, and the blob limits of each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkSchedule {
    /// Heights, ascending by fork: Homestead to London.
    heights: Vec<(Fork, u64)>,
    /// Times in seconds, ascending by fork: Shanghai to Osaka.
    times: Vec<(Fork, u64)>,
    /// The start time and the blob limits of each period, in the order of the forks that set them.
    blobs: Vec<(u64, BlobParams)>,
}

impl ForkSchedule {
    /// Reads the schedule from a geth chain configuration.
    ///
    /// # Errors
    /// Returns an error that names the field if a fork is set without the previous fork or starts before it, or if an
    /// entry of the blob schedule is missing or invalid.
    pub fn new(config: &ChainConfig) -> Result<Self, GenesisError> {
        let heights = ascending(&[
            ("homesteadBlock", Fork::Homestead, config.homestead_block),
            ("eip150Block", Fork::Tangerine, config.eip150_block),
            ("eip158Block", Fork::SpuriousDragon, config.eip158_block),
            ("byzantiumBlock", Fork::Byzantium, config.byzantium_block),
            ("constantinopleBlock", Fork::Constantinople, config.constantinople_block),
            // As in geth, Petersburg starts with Constantinople if no height is set.
            (
                "petersburgBlock",
                Fork::Petersburg,
                config.petersburg_block.or(config.constantinople_block),
            ),
            ("istanbulBlock", Fork::Istanbul, config.istanbul_block),
            ("berlinBlock", Fork::Berlin, config.berlin_block),
            ("londonBlock", Fork::London, config.london_block),
        ])?;
        let times = ascending(&[
            ("shanghaiTime", Fork::Shanghai, config.shanghai_time),
            ("cancunTime", Fork::Cancun, config.cancun_time),
            ("pragueTime", Fork::Prague, config.prague_time),
            ("osakaTime", Fork::Osaka, config.osaka_time),
        ])?;
        if config.london_block.is_none() && !times.is_empty() {
            return Err(GenesisError::field(
                "config.londonBlock",
                "must be set before shanghaiTime",
            ));
        }
        Ok(Self { heights, times, blobs: blob_schedule(config)? })
    }

    /// Returns the rules of block `number` at `timestamp`; `merged` states that the block has no proof of work.
    pub fn at(&self, number: u64, timestamp: u64, merged: bool) -> Fork {
        let by_height = active(&self.heights, number).unwrap_or(Fork::Frontier);
        if by_height < Fork::London {
            return by_height;
        }
        match active(&self.times, timestamp) {
            Some(fork) => fork,
            None if merged => Fork::Paris,
            None => by_height,
        }
    }

    /// Returns the time at which a fork starts, in seconds; `None` if it never does, or if it starts at a height.
    pub(super) fn time(&self, fork: Fork) -> Option<u64> {
        self.times.iter().find(|(known, _)| *known == fork).map(|(_, time)| *time)
    }

    /// Returns the blob limits of each period, in order of time.
    pub(super) fn blobs(&self) -> &[(u64, BlobParams)] {
        &self.blobs
    }

    /// Returns the blob limits at `timestamp`; `None` before Cancun.
    pub fn blob_params(&self, timestamp: u64) -> Option<BlobParams> {
        self.blobs.iter().rev().find(|(from, _)| *from <= timestamp).map(|(_, params)| *params)
    }
}

fn active(schedule: &[(Fork, u64)], at: u64) -> Option<Fork> {
    schedule.iter().rev().find(|(_, from)| *from <= at).map(|(fork, _)| *fork)
}

/// Returns the forks that are set. Gaps and descending values are errors.
fn ascending(forks: &[(&str, Fork, Option<u64>)]) -> Result<Vec<(Fork, u64)>, GenesisError> {
    let mut kept: Vec<(Fork, u64)> = Vec::with_capacity(forks.len());
    let mut missing: Option<&str> = None;
    for (name, fork, at) in forks {
        let Some(at) = *at else {
            missing.get_or_insert(name);
            continue;
        };
        let path = format!("config.{name}");
        if let Some(before) = missing {
            return Err(GenesisError::field(path, format!("{before} must be set before it")));
        }
        if let Some((_, last)) = kept.last()
            && *last > at
        {
            return Err(GenesisError::field(
                path,
                format!("{at} is before {last}, the fork before"),
            ));
        }
        kept.push((*fork, at));
    }
    Ok(kept)
}

fn blob_schedule(config: &ChainConfig) -> Result<Vec<(u64, BlobParams)>, GenesisError> {
    let entries = [
        ("cancun", config.cancun_time, Some(BlobParams::cancun())),
        ("prague", config.prague_time, Some(BlobParams::prague())),
        ("osaka", config.osaka_time, Some(BlobParams::osaka())),
        ("bpo1", config.bpo1_time, Some(BlobParams::bpo1())),
        ("bpo2", config.bpo2_time, Some(BlobParams::bpo2())),
        ("bpo3", config.bpo3_time, None),
        ("bpo4", config.bpo4_time, None),
        ("bpo5", config.bpo5_time, None),
    ];
    let mut blobs: Vec<(u64, BlobParams)> = Vec::new();
    for (name, time, default) in entries {
        let Some(time) = time else { continue };
        let path = format!("config.blobSchedule.{name}");
        let mut params = config
            .blob_schedule
            .get(name)
            .copied()
            .or(default)
            .ok_or_else(|| GenesisError::field(&path, "is missing for a fork that is set"))?;
        if params.max_blob_count == 0
            || params.target_blob_count > params.max_blob_count
            || params.update_fraction == 0
        {
            return Err(GenesisError::field(
                &path,
                "needs 0 <= target <= max, max > 0, fraction > 0",
            ));
        }
        if config.osaka_time.is_some_and(|osaka| osaka <= time) {
            // EIP-7594 and EIP-7918.
            params.max_blobs_per_tx = MAX_BLOBS_PER_TX_FUSAKA;
            params.blob_base_cost = BLOB_BASE_COST;
        }
        if let Some((last, _)) = blobs.last()
            && *last > time
        {
            return Err(GenesisError::field(
                format!("config.{name}Time"),
                format!("{time} is before {last}, the fork before"),
            ));
        }
        blobs.push((time, params));
    }
    Ok(blobs)
}
