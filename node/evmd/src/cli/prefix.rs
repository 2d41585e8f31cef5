//! Reads the genesis of a home folder and the Bech32 prefix in it.

use super::HomeArg;
use anyhow::Context;
use chain::ChainSpec;

/// The prefix if there is no genesis or the genesis names none.
const DEFAULT: &str = "cosmos";

/// Returns the prefix in the genesis of the home folder, or the default if there is no chain yet.
pub(super) fn of_home(home: &HomeArg) -> anyhow::Result<String> {
    Ok(spec_of_home(home)?.map_or_else(|| DEFAULT.to_owned(), |spec| spec.bech32_prefix))
}

/// Returns the chain of the genesis file in the home folder, or `None` if the folder or the file does not exist.
pub(super) fn spec_of_home(home: &HomeArg) -> anyhow::Result<Option<ChainSpec>> {
    let Ok(folder) = home.path() else { return Ok(None) };
    let path = folder.join("genesis.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    Ok(Some(ChainSpec::from_json(&text).with_context(|| path.display().to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;

    #[test]
    fn default_prefix_equals_that_of_a_new_genesis() {
        assert_eq!(Genesis::native_dev(0).spec.bech32_prefix, DEFAULT);
    }
}
