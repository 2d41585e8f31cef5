//! What a page reads: one view of the chain, and the parameters of the request.

use crate::{error::PageError, shared::Pages};
use chain::{ChainSpec, Rules};
use state::View;
use std::sync::Arc;

/// A request for a page that reads one view.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) pages: Arc<Pages>,
    pub(crate) view: Arc<View>,
    /// The query of the request, with percent-encoding.
    pub(crate) query: String,
}

impl Reading {
    /// The chain's rules.
    pub(crate) fn spec(&self) -> &ChainSpec {
        &self.pages.context.spec
    }

    /// The name of a whole token.
    pub(crate) fn symbol(&self) -> String {
        symbol(self.spec())
    }

    /// The value of a parameter of the query, without percent-encoding. Numbers and addresses need none.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(key, value)| *key == name && !value.is_empty())
            .map(|(_, value)| value)
            .next()
    }

    /// A parameter that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, PageError> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| {
            PageError::Invalid(format!("{name} must be a number from 0 to {}.", u64::MAX))
        })
    }
}

/// The name of a whole token of a chain.
pub(crate) fn symbol(spec: &ChainSpec) -> String {
    // The name does not depend on the height.
    let token = spec.token(0);
    match spec.rules {
        Rules::Native => token.display_denom().unwrap_or(token.denom).to_owned(),
        Rules::Ethereum => "ETH".to_owned(),
    }
}
