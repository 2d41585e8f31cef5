//! Writes governance in blocks and reads it back at every height, in both formats and under both rules versions.

use super::*;
use crate::{
    Modules,
    gov::state::{Entry, Placed, push_item},
};
use RulesVersion::{V0, V1};
use alloy_primitives::Address;
use chain::{Genesis, RulesVersion};
use feemarket::store::encode;
use keys::bech32;
use prost_types::Any;
use proto::cosmos::{
    base::v1beta1::Coin,
    gov::v1::{Deposit, Proposal, ProposalStatus, Vote},
};
use storage::{BlockRecord, ChainDb, ChainOptions, GovernanceRow, StateChanges};

/// Size of the summary of each proposal, in bytes.
const SUMMARY_BYTES: usize = 41_000;

struct Chain {
    folder: tempfile::TempDir,
    chain: ChainDb,
    modules: Modules,
    native: Native,
    /// Governance after each block.
    known: Vec<Governance>,
}

impl Chain {
    /// Creates a chain with block 0 under rules of this version.
    fn new(version: RulesVersion) -> Self {
        let genesis = Genesis::native_dev(0);
        let mut native = genesis.spec.native().unwrap().clone();
        native.rules = chain::RulesSchedule::starting_with(version);
        let folder = tempfile::tempdir().unwrap();
        let chain = ChainDb::open(folder.path(), ChainOptions { map_bytes: 256 << 20 }).unwrap();
        let modules = Modules::genesis(&native);
        let mut new = Self { folder, chain, modules, native, known: Vec::new() };
        new.append(None, Vec::new());
        new
    }

    /// Changes governance in the next block. Returns the rows that it wrote.
    fn block(&mut self, change: impl FnOnce(&mut GovState)) -> Vec<GovernanceRow> {
        let mut state = self.modules.gov.state().clone();
        change(&mut state);
        let number = self.known.len() as u64;
        let version = self.native.rules.version(number);
        let (gov, rows) = self.modules.gov.changed(state, number, version);
        self.modules.gov = gov;
        self.append(None, rows.clone());
        rows
    }

    /// Writes the next block as older programs did: the whole state is in its record.
    fn old_block(&mut self, change: impl FnOnce(&mut GovState)) {
        let mut state = self.modules.gov.state().clone();
        change(&mut state);
        let whole = Bytes::from(state.to_message().encode_to_vec());
        let mark = Mark { hash: keccak256(&whole), height: self.known.len() as u64 };
        let state = Arc::new(state);
        self.modules.gov =
            Governance { state, digests: Arc::default(), mark: Some(mark), has_no_rows: true };
        self.append(Some(whole), Vec::new());
    }

    fn append(&mut self, gov: Option<Bytes>, governance: Vec<GovernanceRow>) {
        let number = self.known.len() as u64;
        let record = Record { row: encode(&self.modules.pairs()), events: Vec::new(), gov };
        let block = BlockRecord {
            number,
            hash: B256::with_last_byte(number as u8),
            flags: storage::BlockFlags::NONE,
            header: Bytes::new(),
            body: Bytes::new(),
            senders: Vec::new(),
            receipts: Vec::new(),
            changes: StateChanges::default().into(),
            fees: Bytes::new(),
            module: record.to_bytes(),
            governance,
            certificate: None,
        };
        self.chain.append(&[block]).unwrap();
        self.known.push(self.modules.gov.clone());
    }

    /// Checks that the state read at each height is the one after that block.
    fn check(&self) {
        let reader = self.chain.reader().unwrap();
        for (number, known) in self.known.iter().enumerate() {
            let read = load(&reader, &self.native, number as u64).unwrap();
            assert_eq!(read.mark(), known.mark(), "block {number}");
            assert_eq!(read.state().to_message(), known.state().to_message(), "block {number}");
        }
        for number in 1..self.known.len() {
            let (after, mut rows) = self.received(number, |_| {}).unwrap();
            rows.sort_by_key(|row| row.key);
            assert_eq!(rows, reader.governance_rows(number as u64).unwrap(), "block {number}");
            let record = reader.module(number as u64).unwrap().unwrap();
            let is_changed = is_changed_by(&record, number as u64).unwrap();
            assert!(is_changed || rows.is_empty(), "block {number}");
            assert_eq!(after.mark(), self.known[number].mark(), "block {number}");
            let messages = [&after, &self.known[number]].map(|known| known.state().to_message());
            assert_eq!(messages[0], messages[1], "block {number}");
        }
    }

    /// Applies `change` to the stored rows of a block. Returns governance after the block and its rows, computed from
    /// governance before it, its record and these rows.
    fn received(
        &self,
        number: usize,
        change: impl FnOnce(&mut Vec<GovernanceRow>),
    ) -> Result<(Governance, Vec<GovernanceRow>), StoreError> {
        let reader = self.chain.reader().unwrap();
        let record = reader.module(number as u64).unwrap().unwrap();
        let record = Record::from_bytes(&record).unwrap();
        let mut rows = reader.governance_rows(number as u64).unwrap();
        change(&mut rows);
        after_block(&self.known[number - 1], &self.native, number as u64, &record, &rows)
    }

    fn used_bytes(&self) -> u64 {
        self.chain.stats().used_bytes
    }
}

fn account(number: u8) -> Address {
    Address::repeat_byte(number)
}

fn coins(amount: u64) -> Vec<Coin> {
    vec![Coin { denom: "atest".to_owned(), amount: amount.to_string() }]
}

fn propose(state: &mut GovState) {
    state.last_id += 1;
    state.insert(Entry::new(Proposal {
        id: state.last_id,
        messages: vec![Any { type_url: "/a".to_owned(), value: vec![7; 10] }],
        status: ProposalStatus::DepositPeriod.into(),
        title: "t".to_owned(),
        summary: "s".repeat(SUMMARY_BYTES),
        proposer: bech32("cosmos", account(1)),
        ..Proposal::default()
    }));
}

fn deposit(state: &mut GovState, id: u64, from: u8, amount: u64) {
    let depositor = bech32("cosmos", account(from));
    let entry = state.entry_mut(id).unwrap();
    entry.head.total_deposit = coins(amount);
    let item = Deposit { proposal_id: id, depositor, amount: coins(amount) };
    match entry.deposits.get(&account(from)) {
        Some(known) => {
            let placed = Placed { position: known.position, item };
            entry.deposits.insert(account(from), Arc::new(placed));
        }
        None => push_item(&mut entry.deposits, account(from), item),
    }
}

fn vote(state: &mut GovState, id: u64, from: u8) {
    let entry = state.entry_mut(id).unwrap();
    entry.head.set_status(ProposalStatus::VotingPeriod);
    let voter = bech32("cosmos", account(from));
    push_item(&mut entry.votes, account(from), Vote { proposal_id: id, voter, ..Vote::default() });
}

fn finish(state: &mut GovState, id: u64) {
    let entry = state.entry_mut(id).unwrap();
    entry.head.set_status(ProposalStatus::Rejected);
    entry.deposits.clear();
    entry.votes.clear();
}

/// Adds, changes and removes proposals in several blocks.
fn append_history(chain: &mut Chain) {
    chain.block(propose);
    chain.block(|state| deposit(state, 1, 9, 5));
    chain.append(None, Vec::new());
    chain.block(|state| {
        propose(state);
        // This order differs from that of the addresses: version 0 commits to the order of arrival.
        deposit(state, 1, 3, 5);
        deposit(state, 2, 4, 5);
    });
    chain.block(|state| deposit(state, 1, 9, 6));
    chain.block(|state| [8, 2, 5].into_iter().for_each(|from| vote(state, 1, from)));
    chain.block(|state| vote(state, 1, 8));
    chain.append(None, Vec::new());
    chain.block(|state| finish(state, 1));
    chain.block(|state| {
        state.entries.remove(&2);
        propose(state);
    });
    chain.block(|state| {
        state.entries.remove(&1);
    });
}

#[test]
fn state_of_every_height_is_read_back() {
    for version in [V0, V1] {
        let mut chain = Chain::new(version);
        append_history(&mut chain);
        chain.check();
        if version == V0 {
            let gov = &chain.modules.gov;
            let whole = keccak256(gov.state().to_message().encode_to_vec());
            assert_eq!(gov.mark().unwrap().hash, whole, "the commitment does not depend on rows");
        }
    }
}

#[test]
fn state_of_older_programs_is_read_and_then_written_as_rows() {
    let mut chain = Chain::new(V0);
    chain.old_block(propose);
    chain.old_block(|state| deposit(state, 1, 9, 5));
    chain.old_block(|state| deposit(state, 1, 3, 5));
    chain.append(None, Vec::new());
    chain.check();
    // A program that starts at this block continues with the state that it reads.
    let reader = chain.chain.reader().unwrap();
    chain.modules.gov = load(&reader, &chain.native, 4).unwrap();
    let rows = chain.block(|state| vote(state, 1, 2));
    assert_eq!(rows.len(), 6, "the list, the proposal, its content, two deposits and the vote");
    let rows = chain.block(|state| vote(state, 1, 4));
    assert_eq!(rows.len(), 1);
    chain.check();
    // Rolls back to a block before the first rows, and continues.
    chain.chain.truncate_after(3).unwrap();
    chain.known.truncate(4);
    chain.modules.gov = load(&chain.chain.reader().unwrap(), &chain.native, 3).unwrap();
    chain.block(|state| deposit(state, 1, 3, 9));
    chain.check();
}

#[test]
fn version_1_commitment_does_not_depend_on_positions_in_memory() {
    let mut chain = Chain::new(V0);
    append_history(&mut chain);
    chain.block(|state| [8, 2, 5].into_iter().for_each(|from| vote(state, 3, from)));
    // The position of the vote changes: a program that reads the state from one message assigns new numbers.
    chain.block(|state| vote(state, 3, 8));
    let running = chain.modules.gov.clone();
    let state = GovState::from_message(running.state().to_message()).unwrap();
    let restarted = Governance { state: Arc::new(state), ..running.clone() };
    let after = |gov: &Governance| {
        let mut state = gov.state().clone();
        deposit(&mut state, 3, 7, 7);
        gov.changed(state, 99, V1).0.mark()
    };
    assert_eq!(after(&running), after(&restarted));
}

#[test]
fn commitment_of_a_change_is_that_of_the_whole_state() {
    let mut chain = Chain::new(V1);
    append_history(&mut chain);
    let gov = &chain.modules.gov;
    let (hash, digests) = commit(gov.state(), None, V1);
    assert_eq!((hash, &digests), (gov.mark().unwrap().hash, &*gov.digests));
    // The commitment covers every field of every item.
    let changes: [fn(&mut GovState); 6] = [
        |state| state.last_id += 1,
        |state| drop(state.entries.remove(&3)),
        |state| state.entry_mut(3).unwrap().head.expedited = true,
        |state| deposit(state, 3, 1, 1),
        |state| vote(state, 3, 1),
        |state| {
            let mut proposal = state.entry(3).unwrap().proposal();
            proposal.summary.pop();
            state.insert(Entry::new(proposal));
        },
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut state = gov.state().clone();
        change(&mut state);
        assert_ne!(commit(&state, None, V1).0, hash, "{index}");
    }
}

/// Whatever the rows are, the result is an error or the state that the producer had.
#[test]
fn altered_rows_cannot_change_the_state() {
    for version in [V0, V1] {
        let mut chain = Chain::new(version);
        append_history(&mut chain);
        let mut refused = 0;
        for number in 1..chain.known.len() {
            let rows = chain.chain.reader().unwrap().governance_rows(number as u64).unwrap();
            let mut check = |what: &str, change: &dyn Fn(&mut Vec<GovernanceRow>)| match chain
                .received(number, change)
            {
                Err(_) => refused += 1,
                Ok((after, mut stored)) => {
                    let states = [&after, &chain.known[number]];
                    // From version 1 on, the order of arrival is neither committed to nor served.
                    let [found, known] = states.map(|gov| commit(gov.state(), None, V1).0);
                    assert_eq!(found, known, "{version:?}, block {number}: {what}");
                    if version == V1 {
                        return;
                    }
                    let [found, known] = states.map(|gov| gov.state().to_message());
                    assert_eq!(found, known, "{version:?}, block {number}: {what}");
                    stored.sort_by_key(|row| row.key);
                    let keys =
                        |rows: &[GovernanceRow]| rows.iter().map(|row| row.key).collect::<Vec<_>>();
                    assert_eq!(keys(&stored), keys(&rows), "{version:?}, block {number}: {what}");
                }
            };
            for index in 0..rows.len() {
                check("removed", &|rows| drop(rows.remove(index)));
                check("twice", &|rows| rows.push(rows[index].clone()));
                check("emptied", &|rows| rows[index].value = Bytes::new());
                for byte in 0..rows[index].value.len().min(60) {
                    check("flipped", &|rows| {
                        let mut value = rows[index].value.to_vec();
                        value[byte] ^= 1;
                        rows[index].value = value.into();
                    });
                }
            }
            let other =
                GovernanceRow { key: GovernanceKey::Vote(1, account(99)), value: Bytes::new() };
            check("another", &|rows| rows.push(other.clone()));
        }
        assert!(refused > 100, "{refused}");
    }
}

#[test]
fn block_writes_only_changed_rows() {
    let mut chain = Chain::new(V1);
    for _ in 0..20 {
        chain.block(propose);
    }
    let before = chain.used_bytes();
    for amount in 1..=20 {
        let rows = chain.block(|state| deposit(state, 7, 9, amount));
        let bytes: usize = rows.iter().map(|row| row.value.len()).sum();
        assert!(rows.len() == 2 && bytes < 300, "{} rows of {bytes} bytes", rows.len());
    }
    let grown = chain.used_bytes() - before;
    assert!(grown < 20 * 20_000, "{grown} bytes in {:?}", chain.folder.path());
    let rows = chain.block(propose);
    let bytes: usize = rows.iter().map(|row| row.value.len()).sum();
    assert!(bytes < SUMMARY_BYTES + 300, "{bytes}");
}

#[test]
fn missing_or_altered_row_is_an_error() {
    let mut chain = Chain::new(V1);
    chain.block(propose);
    let mut rows = chain.block(|state| deposit(state, 1, 9, 5));
    // A block without a change has neither rows nor a new commitment.
    let mark = chain.modules.gov.mark();
    chain.append(None, Vec::new());
    chain.check();
    rows.iter_mut().for_each(|row| row.value = Bytes::new());
    chain.append(None, rows);
    let reader = chain.chain.reader().unwrap();
    let error = load(&reader, &chain.native, 4).unwrap_err();
    assert!(matches!(error, StoreError::MissingRow { number: 4, .. }), "{error}");
    let other = vec![GovernanceRow {
        key: GovernanceKey::Proposal(1),
        value: Proposal { id: 1, status: 1, ..Proposal::default() }.encode_to_vec().into(),
    }];
    chain.append(None, other);
    let reader = chain.chain.reader().unwrap();
    let error = load(&reader, &chain.native, 5).unwrap_err();
    let height = mark.unwrap().height;
    assert!(matches!(error, StoreError::Commitment { height: at } if at == height), "{error}");
}
