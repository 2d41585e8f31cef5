//! Defines the versions of the native chain's consensus rules, and the heights at which they start.
//!
//! A change of consensus rules is tied to a [`RulesVersion`], so that a chain that was created under older rules
//! can still be executed and imported. All changes of one release share one version. Genesis states the schedule
//! in `config.evmd.rules`; an existing chain adds to it with `evmd rules adopt`. The versions and the procedure
//! are described in `docs/rules.md`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A version of the native chain's consensus rules. Versions are ordered, so that conditions can be written as
/// `spec.rules_version(height) >= RulesVersion::V1`.
///
/// | Version | Changes |
/// |---|---|
/// | 0 | The rules of every chain whose genesis states no `rules`. |
/// | 1 | The first block of a version commits to the version and to the genesis configuration: the module row of that block holds `rules/` 00 and `rules/` 01 (see `docs/storage-format.md`). A chain that starts with version 1 has this in block 0. Cosmos transactions count in the token's base unit instead of wei ([`ChainSpec::token_unit`](super::ChainSpec::token_unit)). Messages of `cosmos.gov.v1beta1`, stated default values and `fee.payer` in the Amino document are accepted; Cosmos transactions pay the base fee with its fraction of a wei; the parts of a transaction that no signature covers have only one valid encoding (see `docs/cosmos.md`). The commitment to governance is a tree of two levels; if the number of proposals or deposits is at its limit, larger deposits have priority; and the SDK's deposit ratios apply (ADR 0030). Module accounts receive neither `MsgSend` nor ether, and precompiles no `MsgSend`. |
/// | 2 | Every block commits to the senders of its transactions and to the events of its modules: the module row has `block/` 00 and `block/` 01 (see `docs/storage-format.md`), so that a replica can check both without executing the block. The producer chooses only transactions and time. Fees can move to the proposer of a block. |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RulesVersion {
    /// The rules before versions were introduced.
    #[default]
    V0,
    /// The rules of the first release with versions.
    V1,
    /// The rules of the first release with replicas.
    V2,
}

/// Every version that this program knows, in ascending order.
const VERSIONS: [RulesVersion; 3] = [RulesVersion::V0, RulesVersion::V1, RulesVersion::V2];

impl RulesVersion {
    /// The newest version. A new chain starts with it.
    pub const NEWEST: Self = VERSIONS[VERSIONS.len() - 1];

    /// Returns the version with this number.
    ///
    /// # Errors
    /// Returns [`RulesError::Unknown`] if this program does not know the version.
    pub fn new(number: u32) -> Result<Self, RulesError> {
        VERSIONS
            .into_iter()
            .find(|version| version.number() == number)
            .ok_or(RulesError::Unknown { version: number, newest: Self::NEWEST })
    }

    /// Returns the number that genesis files and commands use.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for RulesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

/// Why a schedule of rules versions is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A newer program wrote the schedule, or the number is wrong.
    #[error(
        "rules version {version} is unknown to this program, which knows versions 0 to {newest}; \
         use a newer evmd"
    )]
    Unknown {
        /// The version that was found.
        version: u32,
        /// The newest version that this program knows.
        newest: RulesVersion,
    },
    /// The schedule does not state the version of block 0.
    #[error("the first entry must have height 0, which states the rules of a new chain")]
    NoStart,
    /// Versions or heights are not ascending.
    #[error(
        "version {version} at height {height} must follow version {before} at height {before_height}: \
         versions and heights must both rise"
    )]
    Order {
        /// The version that is out of order.
        version: RulesVersion,
        /// Its height.
        height: u64,
        /// The version of the entry before it.
        before: RulesVersion,
        /// The height of the entry before it.
        before_height: u64,
    },
}

/// The block from which a version is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The version.
    pub version: RulesVersion,
    /// The first block under its rules.
    pub height: u64,
}

/// An [`Activation`] in JSON. Its version may be unknown.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ActivationJson {
    version: u32,
    height: u64,
}

impl TryFrom<ActivationJson> for Activation {
    type Error = RulesError;

    fn try_from(json: ActivationJson) -> Result<Self, RulesError> {
        Ok(Self { version: RulesVersion::new(json.version)?, height: json.height })
    }
}

impl From<Activation> for ActivationJson {
    fn from(activation: Activation) -> Self {
        Self { version: activation.version.number(), height: activation.height }
    }
}

/// The rules version in force at each height. Versions and heights are strictly ascending, and the first height
/// is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesSchedule {
    genesis: Vec<Activation>,
    adopted: Vec<Activation>,
}

impl Default for RulesSchedule {
    /// Returns the schedule of a genesis that states none.
    fn default() -> Self {
        Self::starting_with(RulesVersion::V0)
    }
}

impl RulesSchedule {
    /// Returns the schedule of a chain that starts with `version` and has not adopted another.
    pub fn starting_with(version: RulesVersion) -> Self {
        Self { genesis: vec![Activation { version, height: 0 }], adopted: Vec::new() }
    }

    /// Creates the schedule from the activations in genesis.
    ///
    /// # Errors
    /// Returns [`RulesError`] if it does not start at height 0 or is not ascending.
    pub fn from_genesis(activations: Vec<Activation>) -> Result<Self, RulesError> {
        if activations.first().is_none_or(|first| first.height != 0) {
            return Err(RulesError::NoStart);
        }
        check_ascending(activations.iter())?;
        Ok(Self { genesis: activations, adopted: Vec::new() })
    }

    /// Reads `config.evmd.rules`. Without the list, version 0 is in force from block 0 on.
    pub(super) fn read(list: Option<Vec<ActivationJson>>) -> Result<Self, RulesError> {
        let Some(list) = list else { return Ok(Self::default()) };
        let list = list.into_iter().map(Activation::try_from).collect::<Result<_, _>>()?;
        Self::from_genesis(list)
    }

    /// Returns the same genesis schedule with these adoptions, which replace the previous ones.
    ///
    /// # Errors
    /// Returns [`RulesError::Order`] if versions or heights are not ascending.
    pub fn with_adopted(&self, adopted: Vec<Activation>) -> Result<Self, RulesError> {
        check_ascending(self.genesis.iter().chain(&adopted))?;
        Ok(Self { genesis: self.genesis.clone(), adopted })
    }

    /// Returns the version in force at a height.
    pub fn version(&self, height: u64) -> RulesVersion {
        self.activations()
            .take_while(|activation| activation.height <= height)
            .last()
            .map_or(RulesVersion::V0, |activation| activation.version)
    }

    /// Returns the version whose first block has this height, if there is one.
    pub fn starting_at(&self, height: u64) -> Option<RulesVersion> {
        let found = self.activations().find(|activation| activation.height == height);
        found.map(|activation| activation.version)
    }

    /// Returns all activations, in ascending order.
    pub fn activations(&self) -> impl Iterator<Item = Activation> {
        self.genesis.iter().chain(&self.adopted).copied()
    }

    /// Returns the activations in genesis.
    pub fn genesis(&self) -> &[Activation] {
        &self.genesis
    }

    /// Returns the activations that were adopted later.
    pub fn adopted(&self) -> &[Activation] {
        &self.adopted
    }
}

fn check_ascending<'a>(
    activations: impl Iterator<Item = &'a Activation>,
) -> Result<(), RulesError> {
    let mut before: Option<&Activation> = None;
    for activation in activations {
        if let Some(before) = before
            && (before.version >= activation.version || before.height >= activation.height)
        {
            return Err(RulesError::Order {
                version: activation.version,
                height: activation.height,
                before: before.version,
                before_height: before.height,
            });
        }
        before = Some(activation);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use RulesVersion::{V0, V1};

    const fn at(version: RulesVersion, height: u64) -> Activation {
        Activation { version, height }
    }

    #[test]
    fn version_changes_exactly_at_its_height() {
        let schedule = RulesSchedule::from_genesis(vec![at(V0, 0), at(V1, 7)]).unwrap();
        assert_eq!(
            [0, 6, 7, 8, u64::MAX].map(|height| schedule.version(height)),
            [V0, V0, V1, V1, V1]
        );
        assert_eq!(
            [0, 6, 7, 8].map(|height| schedule.starting_at(height)),
            [Some(V0), None, Some(V1), None]
        );
        assert_eq!(RulesSchedule::default().version(u64::MAX), V0);
        assert_eq!(RulesSchedule::starting_with(V1).version(0), V1);
    }

    #[test]
    fn schedule_must_start_at_zero_and_rise() {
        let error = |list: Vec<Activation>| RulesSchedule::from_genesis(list).unwrap_err();
        assert_eq!(error(vec![]), RulesError::NoStart);
        assert_eq!(error(vec![at(V1, 1)]), RulesError::NoStart);
        for list in
            [vec![at(V0, 0), at(V1, 0)], vec![at(V0, 0), at(V0, 5)], vec![at(V1, 0), at(V0, 5)]]
        {
            assert!(matches!(error(list), RulesError::Order { .. }));
        }
        let schedule = RulesSchedule::default();
        assert_eq!(schedule.with_adopted(vec![at(V1, 1)]).unwrap().version(1), V1);
        assert!(matches!(schedule.with_adopted(vec![at(V1, 0)]), Err(RulesError::Order { .. })));
        assert!(matches!(schedule.with_adopted(vec![at(V0, 9)]), Err(RulesError::Order { .. })));
    }

    #[test]
    fn unknown_version_is_refused_with_both_versions() {
        let unknown = RulesVersion::NEWEST.number() + 1;
        assert_eq!(
            RulesVersion::new(unknown).unwrap_err().to_string(),
            format!(
                "rules version {unknown} is unknown to this program, which knows versions 0 to \
                 {}; use a newer evmd",
                unknown - 1
            )
        );
        for version in VERSIONS {
            assert_eq!(RulesVersion::new(version.number()), Ok(version));
        }
    }
}
