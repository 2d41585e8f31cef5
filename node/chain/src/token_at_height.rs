//! Determines the unit of amounts in Cosmos transactions and queries at a height.

use super::{ChainSpec, EvmParams, RulesVersion};
use crate::{Token, TokenUnit};

impl ChainSpec {
    /// Returns the unit of amounts in the Cosmos transactions of block `height` and in queries of the state
    /// after it: the token's base unit since rules version 1, and wei before.
    pub fn token_unit(&self, height: u64) -> TokenUnit {
        match self.native() {
            Some(native) if self.rules_version(height) >= RulesVersion::V1 => {
                TokenUnit::of(native.market.decimals())
            }
            _ => TokenUnit::WEI,
        }
    }

    /// Returns the token in block `height`. Its name never changes. An Ethereum chain has the default token.
    pub fn token(&self, height: u64) -> Token<'_> {
        let denom = self.native().map_or(EvmParams::DEFAULT_DENOM, |native| &native.evm.evm_denom);
        Token { denom, unit: self.token_unit(height) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Genesis;
    use feemarket::TokenDecimals;

    fn spec(rules: &str, decimals: u8) -> ChainSpec {
        let mut file: serde_json::Value =
            serde_json::from_str(&Genesis::native_dev(0).to_json()).unwrap();
        let section = &mut file["config"]["evmd"];
        section["tokenDecimals"] = decimals.into();
        section["feemarket"]["params"]["base_fee"] = "0.001".into();
        section["rules"] = serde_json::from_str(rules).unwrap();
        Genesis::from_json(&file.to_string()).unwrap().spec
    }

    #[test]
    fn unit_changes_in_the_first_block_of_version_1() {
        let six = TokenUnit::of(TokenDecimals::new(6).unwrap());
        let old = r#"[{"version":0,"height":0}]"#;
        let new = r#"[{"version":1,"height":0}]"#;
        let adopting = r#"[{"version":0,"height":0},{"version":1,"height":7}]"#;
        for (rules, decimals, units) in [
            (old, 6, [TokenUnit::WEI; 4]),
            (new, 6, [six; 4]),
            (adopting, 6, [TokenUnit::WEI, TokenUnit::WEI, six, six]),
            (adopting, 18, [TokenUnit::WEI; 4]),
        ] {
            let spec = spec(rules, decimals);
            let found = [0, 6, 7, u64::MAX].map(|height| spec.token_unit(height));
            assert_eq!(found, units, "{rules} {decimals}");
        }
        assert_eq!(spec(new, 6).token(0).denom, "atest");
    }
}
