//! Returns the metadata of the token, as the module `bank` does.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        bank::v1beta1::{
            DenomUnit, Metadata, Params, QueryDenomsMetadataResponse, QueryParamsResponse,
            QuerySendEnabledRequest, QuerySendEnabledResponse,
        },
        base::{query::v1beta1::PageRequest, v1beta1::Coin},
    },
};
use alloy_primitives::U256;
use chain::{Token, TokenUnit};

/// Returns the metadata of a token. Genesis only names the base unit, so the name of the whole token is derived from
/// that: `utest` with 6 decimals is 10^-6 `test`. If the name has no such prefix and the base unit is the wei, there is
/// no other unit. If it has no such prefix and the base unit is not the wei, the whole token has the same name in upper
/// case, because wallets would otherwise show amounts without decimals.
fn metadata(token: Token<'_>) -> Metadata {
    let denom = token.denom;
    let unit = |denom: &str, exponent| DenomUnit {
        denom: denom.to_owned(),
        exponent,
        aliases: Vec::new(),
    };
    let whole = token.display_denom().map(str::to_owned);
    let whole = whole.or_else(|| token.unit.has_fractions().then(|| other_name(denom)));
    let units = std::iter::once(unit(denom, 0));
    let whole_unit = whole.as_deref().map(|whole| unit(whole, token.unit.decimals().into()));
    let display = whole.unwrap_or_else(|| denom.to_owned());
    Metadata {
        description: "The token that pays for gas and is sent as value".to_owned(),
        denom_units: units.chain(whole_unit).collect(),
        base: denom.to_owned(),
        symbol: display.to_uppercase(),
        name: display.clone(),
        display,
        ..Metadata::default()
    }
}

/// Returns a name for a whole token that differs from the name of its base unit.
fn other_name(denom: &str) -> String {
    match denom.to_uppercase() {
        upper if upper == denom => format!("{denom}1"),
        upper => upper,
    }
}

/// Returns an amount of a token.
pub(super) fn coin(denom: &str, amount: U256) -> Coin {
    Coin { denom: denom.to_owned(), amount: amount.to_string() }
}

/// Checks that the name of a token is not empty.
pub(super) fn named(denom: &str) -> Result<&str, QueryError> {
    match denom {
        "" => Err(QueryError::invalid("invalid denom: it is empty")),
        denom => Ok(denom),
    }
}

impl Snapshot {
    /// Returns the unit with this name: the base unit, or the wei if this is its extended name.
    pub(super) fn unit_named(&self, denom: &str) -> Option<TokenUnit> {
        let token = self.token();
        if denom == token.denom {
            Some(token.unit)
        } else if denom == token.extended_denom() {
            Some(TokenUnit::WEI)
        } else {
            None
        }
    }

    /// Returns the metadata of the token, or of its wei if the extended name is given.
    ///
    /// # Errors
    /// If the chain has no token with this name.
    pub fn bank_metadata(&self, denom: &str) -> Result<Metadata, QueryError> {
        let unit = self
            .unit_named(named(denom)?)
            .ok_or_else(|| QueryError::not_found(format!("client metadata for denom {denom}")))?;
        Ok(metadata(Token { denom, unit }))
    }

    /// Returns the metadata of all tokens. There is only one.
    ///
    /// # Errors
    /// If the page is invalid.
    pub fn bank_all_metadata(
        &self,
        page: Option<PageRequest>,
    ) -> Result<QueryDenomsMetadataResponse, QueryError> {
        let metadata = metadata(self.token());
        let keyed = [(metadata.base.clone(), metadata)];
        let (metadatas, pagination) = cut(keyed.into_iter(), page)?;
        Ok(QueryDenomsMetadataResponse { metadatas, pagination: Some(pagination) })
    }

    /// Returns the parameters, by which all tokens may be sent.
    pub fn bank_params(&self) -> QueryParamsResponse {
        let params = Params { default_send_enabled: true, ..Params::default() };
        QueryParamsResponse { params: Some(params) }
    }

    /// Returns the tokens with their own send rule. There are none.
    ///
    /// # Errors
    /// If the page is invalid.
    pub fn bank_send_enabled(
        &self,
        query: QuerySendEnabledRequest,
    ) -> Result<QuerySendEnabledResponse, QueryError> {
        let (send_enabled, pagination) = cut(std::iter::empty::<(String, _)>(), query.pagination)?;
        Ok(QuerySendEnabledResponse { send_enabled, pagination: Some(pagination) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use feemarket::TokenDecimals;

    fn shown(denom: &str, decimals: u8) -> (Vec<(String, u32)>, String, String) {
        let unit = TokenUnit::of(TokenDecimals::new(decimals).unwrap());
        let metadata = metadata(Token { denom, unit });
        let units = metadata.denom_units.into_iter().map(|unit| (unit.denom, unit.exponent));
        (units.collect(), metadata.display, metadata.symbol)
    }

    #[test]
    fn unit_of_the_whole_token_is_derived_from_name_and_decimals() {
        let units = |list: &[(&str, u32)]| -> Vec<_> {
            list.iter().map(|(denom, exponent)| ((*denom).to_owned(), *exponent)).collect()
        };
        for (denom, decimals, list, display, symbol) in [
            ("atest", 18, &[("atest", 0), ("test", 18)][..], "test", "TEST"),
            ("wei", 18, &[("wei", 0)], "wei", "WEI"),
            ("a", 18, &[("a", 0)], "a", "A"),
            ("utest", 6, &[("utest", 0), ("test", 6)], "test", "TEST"),
            ("atest", 6, &[("atest", 0), ("ATEST", 6)], "ATEST", "ATEST"),
            ("sat", 8, &[("sat", 0), ("SAT", 8)], "SAT", "SAT"),
            ("SAT", 8, &[("SAT", 0), ("SAT1", 8)], "SAT1", "SAT1"),
        ] {
            let expected = (units(list), display.to_owned(), symbol.to_owned());
            assert_eq!(shown(denom, decimals), expected, "{denom} {decimals}");
        }
    }
}
