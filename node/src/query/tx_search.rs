//! Mined transactions by their events. The candidates are found by a hash, an address or heights, one
//! of which a query has to name; their events decide.

use super::{
    QueryError, Snapshot,
    condition::{Condition, Operator, parse},
    proto::cosmos::{
        base::{abci::v1beta1::TxResponse, query::v1beta1::PageResponse},
        tx::v1beta1::{GetTxsEventRequest, GetTxsEventResponse, OrderBy, Tx},
    },
};
use crate::rpc::{
    Interrupt,
    parties::{Direction, Found, Search, Step},
    stored::{StoredBlock, locate, receipts},
};
use alloy_primitives::{Address, B256};
use std::{ops::RangeInclusive, time::Duration};

/// Most transactions of a page, and as many as one has that names no number (CometBFT).
const PAGE_MAX: u64 = 100;
/// Most transactions that are counted: as many pages can be turned.
const COUNTED_MAX: usize = 10_000;
/// Longest a search may take.
const SEARCH_TIME: Duration = Duration::from_secs(5);

/// Where candidates come from.
enum Source {
    Hash(B256),
    Address(Address),
    Heights,
}

/// What is looked for, and where.
struct Wanted {
    conditions: Vec<Condition>,
    source: Source,
    heights: RangeInclusive<u64>,
    direction: Direction,
}

/// A page in the making.
struct Page {
    skip: usize,
    size: usize,
    found: usize,
    txs: Vec<Tx>,
    responses: Vec<TxResponse>,
}

impl Snapshot {
    /// A page of the mined transactions with certain events.
    ///
    /// # Errors
    /// If the query cannot be read, names nothing to find its candidates by, or takes too long; if there
    /// are not so many pages.
    pub(crate) fn txs_by_events(
        &self,
        request: GetTxsEventRequest,
        interrupt: &Interrupt,
    ) -> Result<GetTxsEventResponse, QueryError> {
        let number = request.page.max(1);
        let size = if request.limit == 0 { PAGE_MAX } else { request.limit.min(PAGE_MAX) };
        let skip = usize::try_from(number - 1).unwrap_or(usize::MAX).saturating_mul(size as usize);
        if skip >= COUNTED_MAX {
            return Err(QueryError::invalid(format!(
                "page {number}: the first {COUNTED_MAX} transactions can be paged; narrow tx.height"
            )));
        }
        let wanted = self.wanted(request)?;
        let mut page =
            Page { skip, size: size as usize, found: 0, txs: Vec::new(), responses: Vec::new() };
        let deadline = interrupt.within(SEARCH_TIME);
        let whole = self.search(&wanted, &mut page, || !deadline.passed())?;
        if !whole && page.txs.len() < page.size {
            let seconds = SEARCH_TIME.as_secs();
            let message = format!("the search takes longer than {seconds} s: narrow tx.height");
            return Err(QueryError::too_slow(message));
        }
        let total = page.found as u64;
        let pages = total.div_ceil(size).max(1);
        if number > pages {
            let message = format!("page should be within [1, {pages}] range, given {number}");
            return Err(QueryError::invalid(message));
        }
        Ok(GetTxsEventResponse {
            txs: page.txs,
            tx_responses: page.responses,
            pagination: Some(PageResponse { next_key: Vec::new(), total }),
            total,
        })
    }

    fn wanted(&self, request: GetTxsEventRequest) -> Result<Wanted, QueryError> {
        let direction = match request.order_by() {
            OrderBy::Desc => Direction::Older,
            OrderBy::Unspecified | OrderBy::Asc => Direction::Newer,
        };
        let texts = request.events.iter().chain([&request.query]);
        let read = texts.map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
        let conditions: Vec<_> = read.into_iter().flatten().collect();
        if conditions.is_empty() {
            return Err(QueryError::invalid("query cannot be empty"));
        }
        let heights = self.heights(&conditions)?;
        let equal = || conditions.iter().filter(|c| c.operator == Operator::Equal);
        let hash = equal().find(|c| matches!(&*c.key, "tx.hash" | "ethereum_tx.ethereumTxHash"));
        let address = equal().find_map(|c| self.address_in(&c.value));
        let narrowed = conditions.iter().any(|c| c.key == "tx.height");
        let source = match (hash, address) {
            (Some(hash), _) => Source::Hash(super::tx::parse_hash(&hash.value)?),
            (None, Some(address)) => Source::Address(address),
            (None, None) if narrowed => Source::Heights,
            (None, None) => {
                return Err(QueryError::invalid(
                    "query: one condition has to name tx.height, a hash (tx.hash, \
                     ethereum_tx.ethereumTxHash) or an address, by which transactions are indexed",
                ));
            }
        };
        Ok(Wanted { conditions, source, heights, direction })
    }

    /// The heights that the conditions leave.
    fn heights(&self, conditions: &[Condition]) -> Result<RangeInclusive<u64>, QueryError> {
        let (mut first, mut last) = (0, self.number);
        for condition in conditions.iter().filter(|condition| condition.key == "tx.height") {
            let height = condition.value.parse::<u64>().map_err(|_| {
                QueryError::invalid(format!("tx.height: {:?} is no height", condition.value))
            })?;
            match condition.operator {
                Operator::Equal => (first, last) = (first.max(height), last.min(height)),
                Operator::Less if height == 0 => (first, last) = (1, 0),
                Operator::Less => last = last.min(height - 1),
                Operator::LessOrEqual => last = last.min(height),
                Operator::Greater => first = first.max(height.saturating_add(1)),
                Operator::GreaterOrEqual => first = first.max(height),
                Operator::Contains | Operator::Exists => {
                    let message = "tx.height is compared with =, <, <=, > or >=";
                    return Err(QueryError::invalid(message));
                }
            }
        }
        Ok(first..=last)
    }

    /// Whether all candidates were looked at, or as many as are counted.
    fn search(
        &self,
        wanted: &Wanted,
        page: &mut Page,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<bool, QueryError> {
        let heights = &wanted.heights;
        let end = match wanted.direction {
            Direction::Older => *heights.end(),
            Direction::Newer => *heights.start(),
        };
        match wanted.source {
            _ if heights.is_empty() => {}
            Source::Hash(hash) => {
                let found = locate(&self.view, hash)?;
                let within = |block: &StoredBlock| heights.contains(&block.block.header.number);
                if let Some((block, index)) = found.filter(|(block, _)| within(block)) {
                    self.take(wanted, &Found { block, indices: vec![index] }, page)?;
                }
            }
            Source::Address(address) => {
                let mut search = Search::new(&self.view, address, end, wanted.direction)?;
                loop {
                    match search.next(&mut go_on)? {
                        Step::Found(found) if heights.contains(&found.number()) => {
                            self.take(wanted, &found, page)?;
                        }
                        Step::Found(_) | Step::End => break,
                        Step::GivenUp => return Ok(false),
                    }
                    if page.found >= COUNTED_MAX {
                        break;
                    }
                }
            }
            Source::Heights => return self.search_heights(wanted, page, go_on),
        }
        Ok(true)
    }

    fn search_heights(
        &self,
        wanted: &Wanted,
        page: &mut Page,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<bool, QueryError> {
        let blocks = self.view.blocks()?;
        let heights: Box<dyn Iterator<Item = u64>> = match wanted.direction {
            Direction::Older => Box::new(wanted.heights.clone().rev()),
            Direction::Newer => Box::new(wanted.heights.clone()),
        };
        for number in heights {
            if !go_on() {
                return Ok(false);
            }
            let block = StoredBlock::read(&blocks, number)?;
            let indices = (0..block.block.transactions.len()).collect();
            self.take(wanted, &Found { block, indices }, page)?;
            if page.found >= COUNTED_MAX {
                break;
            }
        }
        Ok(true)
    }

    /// Adds what is wanted of a block.
    fn take(&self, wanted: &Wanted, found: &Found, page: &mut Page) -> Result<(), QueryError> {
        let receipts = receipts(&self.view.blocks()?, found.number())?;
        let mut indices = found.indices.clone();
        if wanted.direction == Direction::Older {
            indices.reverse();
        }
        for index in indices {
            let Some(mined) = found.block.tx(index)? else { break };
            let (tx, response) = self.mined(&mined, &receipts)?;
            if !wanted.conditions.iter().all(|condition| self.is_met(condition, &response)) {
                continue;
            }
            if page.found >= page.skip && page.txs.len() < page.size {
                page.txs.push(tx);
                page.responses.push(response);
            }
            page.found += 1;
        }
        Ok(())
    }

    /// Whether an event of a transaction meets a condition. Addresses are equal in all their forms.
    fn is_met(&self, condition: &Condition, response: &TxResponse) -> bool {
        match &*condition.key {
            "tx.height" => return condition.is_met_by(&response.height.to_string()),
            // It was found by it.
            "tx.hash" => return true,
            _ => {}
        }
        let Some((kind, key)) = condition.key.rsplit_once('.') else { return false };
        let address = match condition.operator {
            Operator::Equal => self.address_in(&condition.value),
            _ => None,
        };
        let events = response.events.iter().filter(|event| event.r#type == kind);
        let mut attributes = events.flat_map(|event| &event.attributes).filter(|a| a.key == key);
        attributes.any(|attribute| match address {
            Some(_) => self.address_in(&attribute.value) == address,
            None => condition.is_met_by(&attribute.value),
        })
    }
}
