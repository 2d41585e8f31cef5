//! Holds proposals, deposits and votes in memory: one entry per proposal, which clones share until it changes.

use alloy_primitives::{Address, B256, keccak256};
use keys::decode_any;
use prost::Message;
use proto::{
    cosmos::gov::v1::{Deposit, Proposal, ProposalStatus, TallyResult, Vote},
    evmd::gov::v1::State,
};
use std::{collections::BTreeMap, sync::Arc};

/// The state of governance after a block. Cheap to clone; a changed clone copies only changed entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GovState {
    /// Id of the last proposal. The first one has id 1.
    pub(super) last_id: u64,
    pub(super) entries: BTreeMap<u64, Arc<Entry>>,
}

/// A proposal with its deposits and votes.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The proposal without its content.
    pub(super) head: Proposal,
    content: Arc<Content>,
    pub(super) deposits: Items<Deposit>,
    pub(super) votes: Items<Vote>,
}

/// Deposits or votes, by account.
pub(super) type Items<T> = BTreeMap<Address, Arc<Placed<T>>>;

/// An item and its position in the order of arrival. Rules version 0 commits to that order, version 1 does
/// not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed<T> {
    pub(super) position: u64,
    pub(super) item: T,
}

/// The immutable part of a proposal: messages, metadata, title, summary and proposer.
#[derive(Debug, PartialEq)]
pub(super) struct Content {
    pub(super) parts: Proposal,
    pub(super) hash: B256,
}

impl Content {
    fn new(parts: Proposal) -> Self {
        let hash = keccak256(parts.encode_to_vec());
        Self { parts, hash }
    }
}

impl GovState {
    /// Returns the proposals, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> + Clone {
        self.entries.values().map(|entry| &**entry)
    }

    /// Returns the proposal with this id, if there is one.
    pub fn entry(&self, id: u64) -> Option<&Entry> {
        self.entries.get(&id).map(|entry| &**entry)
    }

    pub(super) fn entry_mut(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&id).map(Arc::make_mut)
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.values_mut().map(Arc::make_mut)
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.id(), Arc::new(entry));
    }

    /// Encodes the state as the message to which rules version 0 commits.
    pub fn to_message(&self) -> State {
        State {
            last_id: self.last_id,
            proposals: self.entries().map(Entry::proposal).collect(),
            deposits: self.entries().flat_map(|entry| in_order(&entry.deposits)).collect(),
            votes: self.entries().flat_map(|entry| in_order(&entry.votes)).collect(),
        }
    }

    /// Decodes the result of [`Self::to_message`].
    ///
    /// # Errors
    /// The reason if the message is not a valid state of governance.
    pub fn from_message(state: State) -> Result<Self, String> {
        let mut read = Self { last_id: state.last_id, entries: BTreeMap::new() };
        for proposal in state.proposals {
            read.insert(Entry::new(proposal));
        }
        for deposit in state.deposits {
            let (id, address) = (deposit.proposal_id, address(&deposit.depositor)?);
            let entry = read.entry_mut(id).ok_or_else(|| unknown("deposit", id))?;
            push_item(&mut entry.deposits, address, deposit);
        }
        for vote in state.votes {
            let (id, address) = (vote.proposal_id, address(&vote.voter)?);
            let entry = read.entry_mut(id).ok_or_else(|| unknown("vote", id))?;
            push_item(&mut entry.votes, address, vote);
        }
        Ok(read)
    }
}

fn unknown(what: &str, id: u64) -> String {
    format!("a {what} for proposal {id}, which does not exist")
}

impl Entry {
    /// Creates a proposal without deposits and votes.
    pub(super) fn new(mut proposal: Proposal) -> Self {
        let content = Proposal {
            messages: std::mem::take(&mut proposal.messages),
            metadata: std::mem::take(&mut proposal.metadata),
            title: std::mem::take(&mut proposal.title),
            summary: std::mem::take(&mut proposal.summary),
            proposer: std::mem::take(&mut proposal.proposer),
            ..Proposal::default()
        };
        Self::of_parts(proposal, content)
    }

    /// Creates a proposal without deposits and votes from its two parts.
    pub(super) fn of_parts(head: Proposal, content: Proposal) -> Self {
        let content = Arc::new(Content::new(content));
        Self { head, content, deposits: Items::new(), votes: Items::new() }
    }

    /// Returns its id.
    pub const fn id(&self) -> u64 {
        self.head.id
    }

    /// Returns its status.
    pub fn status(&self) -> ProposalStatus {
        self.head.status()
    }

    /// Returns whether it waits for deposits or votes.
    pub fn is_active(&self) -> bool {
        matches!(self.status(), ProposalStatus::DepositPeriod | ProposalStatus::VotingPeriod)
    }

    pub(super) fn content(&self) -> &Arc<Content> {
        &self.content
    }

    /// Returns a copy of the whole proposal.
    pub fn proposal(&self) -> Proposal {
        let Proposal { messages, metadata, title, summary, proposer, .. } =
            self.content.parts.clone();
        Proposal { messages, metadata, title, summary, proposer, ..self.head.clone() }
    }

    /// Returns its deposits, in the order of the depositors' addresses.
    pub fn deposits(&self) -> impl DoubleEndedIterator<Item = (&Address, &Deposit)> + Clone {
        self.deposits.iter().map(|(address, placed)| (address, &placed.item))
    }

    /// Returns the deposit of an account, if it has one.
    pub fn deposit(&self, depositor: Address) -> Option<&Deposit> {
        self.deposits.get(&depositor).map(|placed| &placed.item)
    }

    /// Returns the vote of an account, if it has one.
    pub fn vote(&self, voter: Address) -> Option<&Vote> {
        self.votes.get(&voter).map(|placed| &placed.item)
    }

    /// Returns the final tally, which is zero until the voting period has ended.
    pub fn final_tally(&self) -> Option<TallyResult> {
        self.head.final_tally_result.clone()
    }

    /// Returns its votes, in the order of the voters' addresses.
    pub fn votes(&self) -> impl DoubleEndedIterator<Item = (&Address, &Vote)> + Clone {
        self.votes.iter().map(|(address, placed)| (address, &placed.item))
    }
}

/// Returns the items in the order of arrival.
fn in_order<T: Clone>(items: &Items<T>) -> impl Iterator<Item = T> {
    let mut placed: Vec<_> = items.values().collect();
    placed.sort_by_key(|placed| placed.position);
    placed.into_iter().map(|placed| placed.item.clone())
}

/// Adds an item after all others. It replaces the previous item of the account.
pub(super) fn push_item<T>(items: &mut Items<T>, address: Address, item: T) {
    let last = items.values().map(|placed| placed.position).max().unwrap_or_default();
    items.insert(address, Arc::new(Placed { position: last + 1, item }));
}

/// Parses an address of the state.
fn address(text: &str) -> Result<Address, String> {
    let bytes = decode_any(text).map_err(|error| format!("address {text}: {error}"))?.1;
    Address::try_from(bytes.as_slice()).map_err(|_| format!("address {text}: not 20 bytes"))
}
