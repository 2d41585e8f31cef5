//! How much of the token there is. A native chain mints nothing and burns no fees, so it is what genesis
//! gave out. Deposits that governance burned, and what contracts destroyed of their own, are in it still:
//! nothing keeps a count of them.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        bank::v1beta1::{QuerySupplyOfResponse, QueryTotalSupplyResponse},
        base::{query::v1beta1::PageRequest, v1beta1::Coin},
    },
};
use crate::view::View;
use alloy_primitives::U256;
use std::sync::{Mutex, PoisonError};

/// What genesis gave out, in wei, once it is known.
#[derive(Debug, Default)]
pub(super) struct Supply(Mutex<Option<U256>>);

impl Supply {
    /// Sums the accounts of genesis when it is first asked, which reads them all; others wait for that.
    fn of(&self, view: &View) -> Result<U256, QueryError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sum) = *known {
            return Ok(sum);
        }
        let genesis = view.blocks()?.changes(0)?;
        let genesis = genesis.ok_or_else(|| QueryError::internal("block 0 has no changes"))?;
        let accounts = genesis.accounts.iter().filter_map(|change| change.account);
        let sum = accounts
            .map(|account| account.balance)
            .try_fold(U256::ZERO, U256::checked_add)
            .ok_or_else(|| {
            QueryError::precondition("the supply of this chain exceeds 256 bits")
        })?;
        Ok(*known.insert(sum))
    }
}

impl Snapshot {
    fn supply(&self) -> Result<Coin, QueryError> {
        if self.spec.native().is_none() {
            return Err(QueryError::precondition(
                "the supply of this chain is not known: it mints and burns by Ethereum's rules",
            ));
        }
        let amount = self.facts.supply.of(&self.view)?.to_string();
        Ok(Coin { denom: self.denom(), amount })
    }

    /// What genesis gave out, on one page.
    ///
    /// # Errors
    /// On a chain of Ethereum's rules, and on a page that makes no sense.
    pub fn bank_supply(
        &self,
        page: Option<PageRequest>,
    ) -> Result<QueryTotalSupplyResponse, QueryError> {
        let (supply, pagination) = cut([&self.supply()?].into_iter(), page)?;
        Ok(QueryTotalSupplyResponse { supply, pagination: Some(pagination) })
    }

    /// What genesis gave out of one token.
    ///
    /// # Errors
    /// On a chain of Ethereum's rules, and if the token's name is none.
    pub fn bank_supply_of(&self, denom: &str) -> Result<QuerySupplyOfResponse, QueryError> {
        let supply = self.supply()?;
        let none = |denom: &str| Coin { denom: denom.to_owned(), amount: U256::ZERO.to_string() };
        let amount = if denom == supply.denom { supply } else { none(named(denom)?) };
        Ok(QuerySupplyOfResponse { amount: Some(amount) })
    }
}

/// The name of a token, which is there.
pub(super) fn named(denom: &str) -> Result<&str, QueryError> {
    match denom {
        "" => Err(QueryError::invalid("invalid denom: it is empty")),
        denom => Ok(denom),
    }
}
