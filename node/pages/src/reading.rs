//! The data that a page reads: one view of the chain, and the parameters of the request.

use crate::{error::PageError, shared::Pages};
use chain::{ChainSpec, Rules};
use state::View;
use std::sync::Arc;

/// A request for a page, with the view that all reads of the page use.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) pages: Arc<Pages>,
    pub(crate) view: Arc<View>,
    /// The percent-encoded query of the request.
    pub(crate) query: String,
}

impl Reading {
    pub(crate) fn spec(&self) -> &ChainSpec {
        &self.pages.context.spec
    }

    /// Returns the name of a whole token.
    pub(crate) fn symbol(&self) -> String {
        symbol(self.spec())
    }

    /// Returns the value of a parameter of the query. Percent-encoding is not decoded, because numbers need none.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(key, value)| *key == name && !value.is_empty())
            .map(|(_, value)| value)
            .next()
    }

    /// Returns a parameter that is a number; an error if it is not one.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, PageError> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| {
            PageError::Invalid(format!("{name} must be a number from 0 to {}.", u64::MAX))
        })
    }
}

/// Returns the name of a whole token of a chain.
pub(crate) fn symbol(spec: &ChainSpec) -> String {
    // The name does not depend on the height.
    let token = spec.token(0);
    match spec.rules {
        Rules::Native => token.display_denom().unwrap_or(token.denom).to_owned(),
        Rules::Ethereum => "ETH".to_owned(),
    }
}
