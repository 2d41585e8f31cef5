//! Adopts rules versions after the genesis. The list of adopted versions is stored in the chain environment, and read
//! whenever the home is opened. A change replaces the list in one transaction.

use super::{Home, HomeError, of_stored_genesis, stored_genesis};
use chain::{
    Activation, ActivationJson, ChainSpec, GenesisError, Rules, RulesError, RulesSchedule,
    RulesVersion,
};
use std::{path::Path, sync::Arc};
use storage::ChainDb;

/// Key of the adopted rules versions in the chain environment: JSON, a list of versions and heights.
const RULES_KEY: &str = "rules";

/// Why a rules version cannot be adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The chain has no native rules.
    #[error(
        "an Ethereum chain has no rules versions: its rules follow from the forks in its genesis"
    )]
    Ethereum,
    /// The version is unknown, or the schedule would not be ascending.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The version is not newer than the one in force.
    #[error(
        "rules version {version} is not newer than version {in_force}, which is in force at block {head}"
    )]
    NotNewer {
        /// The requested version.
        version: RulesVersion,
        /// The version in force at the head.
        in_force: RulesVersion,
        /// The number of the newest block.
        head: u64,
    },
    /// Blocks up to the head have been executed under the rules in force.
    #[error(
        "rules version {version} cannot start at block {height}: the head is block {head}; \
         --height must be at least {}",
        head.saturating_add(1)
    )]
    NotAboveHead {
        /// The requested version.
        version: RulesVersion,
        /// The requested height.
        height: u64,
        /// The number of the newest block.
        head: u64,
    },
    /// No adopted version is still pending.
    #[error("no adopted rules version starts above the head, which is block {head}")]
    NothingPending {
        /// The number of the newest block.
        head: u64,
    },
    /// The home cannot be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// What `evmd rules show` reports of a home.
#[derive(Clone, Debug)]
pub struct RulesReport {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// The number of the newest block.
    pub head: u64,
    /// Which version is in force at which height; `None` on an Ethereum chain.
    pub schedule: Option<RulesSchedule>,
}

impl Home {
    /// Schedules a rules version from a block above the head on. Replaces an adoption whose height has not been
    /// reached.
    ///
    /// # Errors
    /// [`AdoptError`]. Nothing is changed then.
    pub fn adopt_rules(&mut self, version: u32, height: u64) -> Result<(), AdoptError> {
        let (schedule, head) = (self.rules_schedule()?, self.head_number()?);
        let version = RulesVersion::new(version)?;
        if height <= head {
            return Err(AdoptError::NotAboveHead { version, height, head });
        }
        let in_force = schedule.version(head);
        if version <= in_force {
            return Err(AdoptError::NotNewer { version, in_force, head });
        }
        let mut adopted = reached(schedule, head);
        adopted.push(Activation { version, height });
        self.store_adopted(adopted)
    }

    /// Cancels an adoption whose height has not been reached.
    ///
    /// # Errors
    /// [`AdoptError`]. Nothing is changed then.
    pub fn cancel_rules(&mut self) -> Result<(), AdoptError> {
        let (schedule, head) = (self.rules_schedule()?, self.head_number()?);
        let kept = reached(schedule, head);
        if kept.len() == schedule.adopted().len() {
            return Err(AdoptError::NothingPending { head });
        }
        self.store_adopted(kept)
    }

    /// Returns the rules schedule of a home folder. Its node may be running.
    ///
    /// # Errors
    /// If the folder has no chain, or if it cannot be read.
    pub fn rules_of(path: &Path) -> Result<RulesReport, HomeError> {
        let (chain, _) = Self::attach(path)?;
        let empty = || HomeError::Empty(path.to_owned());
        let text = stored_genesis(&chain)?.ok_or_else(empty)?;
        let spec = stored_spec(&chain, &text)?;
        let (head, _) = chain.reader()?.head()?.ok_or_else(empty)?;
        let schedule = spec.native().map(|native| native.rules.clone());
        Ok(RulesReport { chain_id: spec.chain_id, head, schedule })
    }

    fn rules_schedule(&self) -> Result<&RulesSchedule, AdoptError> {
        self.spec.native().map(|native| &native.rules).ok_or(AdoptError::Ethereum)
    }

    fn head_number(&self) -> Result<u64, HomeError> {
        let head = self.chain.reader()?.head()?;
        head.map(|(number, _)| number).ok_or_else(|| HomeError::Empty(self.path.clone()))
    }

    fn store_adopted(&mut self, adopted: Vec<Activation>) -> Result<(), AdoptError> {
        let list: Vec<_> = adopted.iter().copied().map(ActivationJson::from).collect();
        let spec = self.spec.with_adopted(adopted)?;
        let text = serde_json::to_vec(&list).expect("integers only");
        self.chain.put_meta(RULES_KEY, &text).map_err(HomeError::from)?;
        self.spec = Arc::new(spec);
        Ok(())
    }
}

/// Returns the adoptions whose first block exists.
fn reached(schedule: &RulesSchedule, head: u64) -> Vec<Activation> {
    schedule.adopted().iter().copied().filter(|activation| activation.height <= head).collect()
}

/// Returns the rules of a chain: those of its genesis, and the versions adopted since.
pub fn stored_spec(chain: &ChainDb, genesis: &[u8]) -> Result<ChainSpec, HomeError> {
    let spec =
        ChainSpec::from_json(&String::from_utf8_lossy(genesis)).map_err(of_stored_genesis)?;
    let Some(text) = chain.meta(RULES_KEY)? else { return Ok(spec) };
    let invalid =
        |source| HomeError::Genesis { origin: "the adopted rules versions".to_owned(), source };
    if spec.rules != Rules::Native {
        return Err(invalid(GenesisError::field("rules", "an Ethereum chain has none")));
    }
    let list: Vec<ActivationJson> = serde_json::from_slice(&text)
        .map_err(|error| invalid(GenesisError::Json(error.to_string())))?;
    let adopted: Result<Vec<Activation>, RulesError> =
        list.into_iter().map(Activation::try_from).collect();
    let spec = adopted.and_then(|adopted| spec.with_adopted(adopted));
    spec.map_err(|error| invalid(GenesisError::field("rules", error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;
    use serde_json::{Value, json};

    const TIMESTAMP: u64 = 1_700_000_000;

    fn genesis(rules: Value) -> Genesis {
        let mut file: Value =
            serde_json::from_str(&Genesis::native_dev(TIMESTAMP).to_json()).unwrap();
        file["config"]["evmd"]["rules"] = rules;
        Genesis::from_json(&file.to_string()).unwrap()
    }

    fn version_0() -> Genesis {
        genesis(json!([{ "version": 0, "height": 0 }]))
    }

    #[test]
    fn adoption_starts_above_the_head_only_and_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut home = Home::init(folder.path(), &version_0()).unwrap();
        let hash = home.view().unwrap().head.hash;
        // The head is block 0.
        assert_eq!(
            home.adopt_rules(1, 0).unwrap_err().to_string(),
            "rules version 1 cannot start at block 0: the head is block 0; --height must be at least 1"
        );
        assert_eq!(home.spec.rules_version(u64::MAX), RulesVersion::V0, "nothing has changed");
        home.adopt_rules(1, 1).unwrap();
        for _ in 0..2 {
            assert_eq!(
                [0, 1, 2].map(|height| home.spec.rules_version(height)),
                [RulesVersion::V0, RulesVersion::V1, RulesVersion::V1]
            );
            home.check_genesis_file().unwrap();
            assert_eq!(home.view().unwrap().head.hash, hash);
            drop(home);
            home = Home::open(folder.path()).unwrap();
        }
    }

    #[test]
    fn adoption_that_is_not_reached_can_be_changed_and_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let mut home = Home::init(folder.path(), &version_0()).unwrap();
        assert!(matches!(home.cancel_rules(), Err(AdoptError::NothingPending { head: 0 })));
        home.adopt_rules(1, 10).unwrap();
        home.adopt_rules(1, 5).unwrap();
        assert_eq!(
            [4, 5].map(|height| home.spec.rules_version(height)),
            [RulesVersion::V0, RulesVersion::V1]
        );
        home.cancel_rules().unwrap();
        drop(home);
        let report = Home::rules_of(folder.path()).unwrap();
        assert_eq!((report.head, report.schedule), (0, Some(RulesSchedule::default())));
    }

    #[test]
    fn adoption_is_refused_unless_it_is_a_newer_known_version_of_a_native_chain() {
        let folder = tempfile::tempdir().unwrap();
        let mut old = Home::init(&folder.path().join("old"), &version_0()).unwrap();
        let mut new =
            Home::init(&folder.path().join("new"), &Genesis::native_dev(TIMESTAMP)).unwrap();
        let later = json!([{ "version": 0, "height": 0 }, { "version": 1, "height": 9 }]);
        let mut scheduled = Home::init(&folder.path().join("scheduled"), &genesis(later)).unwrap();
        let ethereum = r#"{"config":{"chainId":5},"gasLimit":"0x5f5e100","alloc":{}}"#;
        let ethereum = Genesis::from_json(ethereum).unwrap();
        let mut ethereum = Home::init(&folder.path().join("ethereum"), &ethereum).unwrap();
        let newest = RulesVersion::NEWEST.number();
        let fails = |home: &mut Home, version, reason: &str| {
            let error = home.adopt_rules(version, 5).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert_eq!(home.chain.meta(RULES_KEY).unwrap(), None);
        };
        fails(&mut old, 0, "version 0 is not newer than version 0, which is in force at block 0");
        fails(&mut old, newest + 1, "is unknown to this program, which knows versions 0 to");
        fails(&mut new, newest, "is not newer than version");
        fails(&mut new, 0, "version 0 is not newer than version");
        fails(&mut scheduled, 1, "must follow version 1 at height 9");
        fails(&mut ethereum, 1, "an Ethereum chain has no rules versions");
    }

    #[test]
    fn home_with_an_unknown_version_is_refused_with_both_versions() {
        let unknown = RulesVersion::NEWEST.number() + 1;
        let expected = format!(
            "rules version {unknown} is unknown to this program, which knows versions 0 to {}",
            unknown - 1
        );
        let folder = tempfile::tempdir().unwrap();
        let home = Home::init(folder.path(), &version_0()).unwrap();
        let text = format!(r#"[{{"version":{unknown},"height":1000}}]"#);
        home.chain.put_meta(RULES_KEY, text.as_bytes()).unwrap();
        drop(home);
        let error = Home::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&expected), "{error}");

        // The same error occurs for a genesis that a newer program created.
        let newer = Genesis::native_dev(TIMESTAMP)
            .to_json()
            .replace(&format!("\"version\": {}", unknown - 1), &format!("\"version\": {unknown}"));
        let error = Genesis::from_json(&newer).unwrap_err().to_string();
        assert!(error.contains("config.evmd.rules") && error.contains(&expected), "{error}");
    }
}
