//! Answers the queries for balances, as the module `bank` does. There is one token, and the whole balance is
//! spendable. Lists show whole base units. If the wei has its own name, a balance in wei can be queried by that name.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        bank::v1beta1::{
            QueryAllBalancesResponse, QueryBalanceResponse, QuerySpendableBalanceByDenomResponse,
            QuerySpendableBalancesResponse,
        },
        base::{
            query::v1beta1::{PageRequest, PageResponse},
            v1beta1::Coin,
        },
    },
    token::{coin, named},
};
use alloy_primitives::U256;
use storage::StateRead;

impl Snapshot {
    fn amount(&self, address: &str, denom: &str) -> Result<Coin, QueryError> {
        let (address, denom) = (self.address(address)?, named(denom)?);
        let Some(unit) = self.unit_named(denom) else { return Ok(coin(denom, U256::ZERO)) };
        let balance = self.state()?.account(address)?.unwrap_or_default().balance;
        Ok(coin(denom, unit.from_wei(balance)))
    }

    /// Returns a page of the balances that are not zero.
    fn coins(
        &self,
        address: &str,
        page: Option<PageRequest>,
    ) -> Result<(Vec<Coin>, PageResponse), QueryError> {
        let coin = self.amount(address, &self.denom())?;
        let held = (coin.amount != "0").then(|| (coin.denom.clone(), coin));
        cut(held.into_iter(), page)
    }

    /// Returns the balance of an account in one token, which is zero for an unknown token.
    ///
    /// # Errors
    /// If the address is invalid, or the name of the token is empty.
    pub fn bank_balance(
        &self,
        address: &str,
        denom: &str,
    ) -> Result<QueryBalanceResponse, QueryError> {
        Ok(QueryBalanceResponse { balance: Some(self.amount(address, denom)?) })
    }

    /// Returns all balances of an account that are not zero. As in the SDK, `resolve_denom` replaces the name of the
    /// base unit with the name of the display unit, but does not convert the amounts.
    ///
    /// # Errors
    /// If the address or the page is invalid.
    pub fn bank_balances(
        &self,
        address: &str,
        page: Option<PageRequest>,
        resolve_denom: bool,
    ) -> Result<QueryAllBalancesResponse, QueryError> {
        let (mut balances, page) = self.coins(address, page)?;
        if resolve_denom {
            for coin in &mut balances {
                coin.denom = self.bank_metadata(&coin.denom)?.display;
            }
        }
        Ok(QueryAllBalancesResponse { balances, pagination: Some(page) })
    }

    /// Same as [`Self::bank_balance`], because no tokens are locked.
    ///
    /// # Errors
    /// Same as [`Self::bank_balance`].
    pub fn bank_spendable_balance(
        &self,
        address: &str,
        denom: &str,
    ) -> Result<QuerySpendableBalanceByDenomResponse, QueryError> {
        Ok(QuerySpendableBalanceByDenomResponse { balance: Some(self.amount(address, denom)?) })
    }

    /// Same as [`Self::bank_balances`], because no tokens are locked.
    ///
    /// # Errors
    /// Same as [`Self::bank_balances`].
    pub fn bank_spendable_balances(
        &self,
        address: &str,
        page: Option<PageRequest>,
    ) -> Result<QuerySpendableBalancesResponse, QueryError> {
        let (balances, page) = self.coins(address, page)?;
        Ok(QuerySpendableBalancesResponse { balances, pagination: Some(page) })
    }
}
