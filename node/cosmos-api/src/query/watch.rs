//! Matches the events of a block (the block, its header, its events and its transactions) against the queries
//! of subscribers, in the language of [`event_query`].

use super::{
    MinedTxResponse, QueryError, Snapshot,
    events::Outcomes,
    proto::{cosmos::base::abci::v1beta1::TxResponse, tendermint::abci::Event},
};
use alloy_primitives::{B256, hex};
use event_query::{Condition, Operator, parse_all};
use state::stored::StoredBlock;
use std::collections::BTreeMap;
use transactions::cosmos;

/// The attribute that holds the kind of an event.
const KIND: &str = "tm.event";
/// The kind of event of a transaction.
const TX: &str = "Tx";

/// An event that a query may match.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchedEvent<'a> {
    kind: &'static str,
    tx: Option<&'a TxResponse>,
    events: &'a [Event],
}

impl<'a> WatchedEvent<'a> {
    /// Creates the event of a mined transaction.
    pub(super) fn tx(response: &'a TxResponse) -> Self {
        Self { kind: TX, tx: Some(response), events: &response.events }
    }

    /// Creates an event of the block itself.
    pub(super) const fn block(events: &'a [Event]) -> Self {
        Self { kind: BlockEventKind::Events.kind(), tx: None, events }
    }

    /// Returns all attributes, by the names that queries use.
    fn attributes(&self) -> Attributes {
        let mut all = Attributes::new();
        all.insert(KIND.to_owned(), vec![self.kind.to_owned()]);
        if let Some(tx) = self.tx {
            let hash = tx.txhash.strip_prefix("0x").unwrap_or(&tx.txhash).to_ascii_uppercase();
            all.insert("tx.hash".to_owned(), vec![hash]);
            all.insert("tx.height".to_owned(), vec![tx.height.to_string()]);
        }
        for event in self.events {
            for attribute in &event.attributes {
                let name = format!("{}.{}", event.r#type, attribute.key);
                all.entry(name).or_default().push(attribute.value.clone());
            }
        }
        all
    }
}

/// The attributes of an event, each with its values.
pub type Attributes = BTreeMap<String, Vec<String>>;

/// A subscriber's query.
#[derive(Clone, Debug)]
pub struct Watch(Vec<Condition>);

impl Watch {
    /// # Errors
    /// If the query is invalid or has no condition.
    pub fn parse(query: &str) -> Result<Self, QueryError> {
        let conditions = parse_all(std::iter::once(query))?;
        if conditions.is_empty() {
            return Err(QueryError::invalid("query cannot be empty"));
        }
        Ok(Self(conditions))
    }

    /// Returns whether the query may match an event of this kind.
    fn may_match(&self, kind: &str) -> bool {
        self.0.iter().filter(|condition| condition.key == KIND).all(|c| c.is_met_by(kind))
    }

    /// Returns whether the query may match a transaction with this hash. This avoids converting transactions and
    /// events that a query by hash cannot match.
    fn may_match_hash(&self, hash: B256) -> bool {
        let mut named = self.0.iter().filter(|condition| condition.key == "tx.hash");
        named.all(|condition| condition.is_met_by_hash(&hex::encode(hash)))
    }
}

/// An event of a block that does not belong to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEventKind {
    /// The whole block.
    Whole,
    /// Its header.
    Header,
    /// Its events.
    Events,
}

impl BlockEventKind {
    /// All kinds, in the order in which they are sent.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Header, Self::Events];

    /// Returns the name of the kind in queries.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Whole => "NewBlock",
            Self::Header => "NewBlockHeader",
            Self::Events => "NewBlockEvents",
        }
    }
}

impl Snapshot {
    /// Returns the indices of the queries that match this event of a block, and the attributes of the event, or `None`
    /// if no query matches. `events` are the events of the block itself.
    pub fn watched_block(
        &self,
        part: BlockEventKind,
        events: &[Event],
        watches: &[Watch],
    ) -> Option<(Vec<usize>, Attributes)> {
        let events = if part == BlockEventKind::Header { &[] } else { events };
        self.watched(&WatchedEvent { kind: part.kind(), tx: None, events }, watches)
    }

    /// Calls `visit` for each transaction of a block from `from` on that at least one query matches, with the indices
    /// of these queries and the attributes, until `visit` returns false. Returns the index at which to continue.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub fn watched_txs(
        &self,
        number: u64,
        from: usize,
        watches: &[Watch],
        mut visit: impl FnMut(&MinedTxResponse, Vec<usize>, Attributes) -> bool,
    ) -> Result<Option<usize>, QueryError> {
        if !watches.iter().any(|watch| watch.may_match(TX)) {
            return Ok(None);
        }
        let blocks = self.view.blocks()?;
        let block = StoredBlock::read(&self.spec, &blocks, number)?;
        let outcomes = Outcomes::read(&blocks, number)?;
        for index in from..block.block.transactions.len() {
            let Some(mined) = block.tx(index)? else { break };
            let cosmos = mined.cosmos.is_some().then(|| cosmos::cosmos_hash(&mined.raw));
            let hash = cosmos.unwrap_or(mined.hash);
            if !watches.iter().any(|watch| watch.may_match(TX) && watch.may_match_hash(hash)) {
                continue;
            }
            let shown = self.mined(&mined, &outcomes)?;
            let watched = self.watched(&WatchedEvent::tx(&shown.response), watches);
            if let Some((which, attributes)) = watched
                && !visit(&shown, which, attributes)
            {
                return Ok(Some(index + 1));
            }
        }
        Ok(None)
    }

    fn watched(
        &self,
        event: &WatchedEvent<'_>,
        watches: &[Watch],
    ) -> Option<(Vec<usize>, Attributes)> {
        let met = |watch: &Watch| watch.0.iter().all(|condition| self.is_met(condition, event));
        let which: Vec<_> = (0..watches.len()).filter(|index| met(&watches[*index])).collect();
        (!which.is_empty()).then(|| (which, event.attributes()))
    }

    /// Returns whether an event satisfies a condition. Addresses in different formats are equal if their bytes are.
    pub(super) fn is_met(&self, condition: &Condition, event: &WatchedEvent<'_>) -> bool {
        match (&*condition.key, event.tx) {
            (KIND, _) => return condition.is_met_by(event.kind),
            ("tx.height", Some(tx)) => return condition.is_met_by(&tx.height.to_string()),
            ("tx.hash", Some(tx)) => return condition.is_met_by_hash(&tx.txhash),
            _ => {}
        }
        let Some((kind, key)) = condition.key.rsplit_once('.') else { return false };
        let address = match condition.operator {
            Operator::Equal => self.address_in(&condition.value),
            _ => None,
        };
        let events = event.events.iter().filter(|event| event.r#type == kind);
        let mut attributes = events.flat_map(|event| &event.attributes).filter(|a| a.key == key);
        attributes.any(|attribute| match address {
            Some(_) => self.address_in(&attribute.value) == address,
            None => condition.is_met_by(&attribute.value),
        })
    }
}
