//! The chain's Bech32 prefix, if a home folder has one.

use super::HomeArg;
use anyhow::Context;
use chain::ChainSpec;

/// The prefix of a genesis that names none.
const DEFAULT: &str = "cosmos";

/// The prefix in the genesis of the home folder, or the default if there is no chain yet.
pub(super) fn of_home(home: &HomeArg) -> anyhow::Result<String> {
    let Ok(folder) = home.path() else { return Ok(DEFAULT.to_owned()) };
    let path = folder.join("genesis.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(DEFAULT.to_owned());
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let spec = ChainSpec::from_json(&text).with_context(|| path.display().to_string())?;
    Ok(spec.bech32_prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    #[test]
    fn default_prefix_equals_that_of_genesis() {
        assert_eq!(Genesis::native_dev(0).spec.bech32_prefix, DEFAULT);
    }
}
