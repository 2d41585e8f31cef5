//! What the token is called, and that it may be sent, as the module `bank` shows it.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        bank::v1beta1::{
            DenomUnit, Metadata, Params, QueryDenomsMetadataResponse, QueryParamsResponse,
            QuerySendEnabledRequest, QuerySendEnabledResponse,
        },
        base::query::v1beta1::PageRequest,
    },
    supply::named,
};

/// What the name of a token begins with whose unit is 10^-18 of the one for people: "atto".
const ATTO: char = 'a';
/// Digits after the point of the unit for people: all amounts are in wei.
const DISPLAY_EXPONENT: u32 = 18;

/// What a token of this name is called. Genesis has no other name of it, so the unit for people is told
/// only where the name itself does.
fn metadata(denom: &str) -> Metadata {
    let unit = |denom: &str, exponent| DenomUnit {
        denom: denom.to_owned(),
        exponent,
        aliases: Vec::new(),
    };
    let display = denom.strip_prefix(ATTO).filter(|display| !display.is_empty());
    let units = std::iter::once(unit(denom, 0));
    let display_unit = display.map(|display| unit(display, DISPLAY_EXPONENT));
    let display = display.unwrap_or(denom);
    Metadata {
        description: "Pays for gas, and is sent as value".to_owned(),
        denom_units: units.chain(display_unit).collect(),
        base: denom.to_owned(),
        display: display.to_owned(),
        name: display.to_owned(),
        symbol: display.to_uppercase(),
        ..Metadata::default()
    }
}

impl Snapshot {
    /// What the token is called.
    ///
    /// # Errors
    /// If the chain has no token of this name.
    pub fn bank_metadata(&self, denom: &str) -> Result<Metadata, QueryError> {
        if named(denom)? != self.denom() {
            return Err(QueryError::not_found(format!("client metadata for denom {denom}")));
        }
        Ok(metadata(denom))
    }

    /// What all tokens are called.
    ///
    /// # Errors
    /// On a page that makes no sense.
    pub fn bank_all_metadata(
        &self,
        page: Option<PageRequest>,
    ) -> Result<QueryDenomsMetadataResponse, QueryError> {
        let (metadatas, pagination) = cut([&metadata(&self.denom())].into_iter(), page)?;
        Ok(QueryDenomsMetadataResponse { metadatas, pagination: Some(pagination) })
    }

    /// Everything may be sent.
    pub fn bank_params(&self) -> QueryParamsResponse {
        let params = Params { default_send_enabled: true, ..Params::default() };
        QueryParamsResponse { params: Some(params) }
    }

    /// Tokens to which another rule applies: none, whichever are asked for.
    ///
    /// # Errors
    /// On a page that makes no sense.
    pub fn bank_send_enabled(
        &self,
        query: QuerySendEnabledRequest,
    ) -> Result<QuerySendEnabledResponse, QueryError> {
        let (send_enabled, pagination) = cut(std::iter::empty(), query.pagination)?;
        Ok(QuerySendEnabledResponse { send_enabled, pagination: Some(pagination) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_for_people_is_told_by_the_name_only() {
        let atto = metadata("atest");
        let units: Vec<_> =
            atto.denom_units.iter().map(|u| (u.denom.as_str(), u.exponent)).collect();
        assert_eq!(units, [("atest", 0), ("test", 18)]);
        assert_eq!((atto.display.as_str(), atto.symbol.as_str()), ("test", "TEST"));
        for name in ["wei", "a"] {
            let plain = metadata(name);
            assert_eq!((plain.denom_units.len(), plain.display.as_str()), (1, name));
        }
    }
}
