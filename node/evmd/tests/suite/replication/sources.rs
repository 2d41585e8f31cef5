//! Tests sources that send invalid data. The replica must stop using such a source, report the reason, and keep its
//! last valid block.

use super::{
    assert_sound, follow, head, produce, producer_home, reach, replica_home, status, url, use_chain,
};
use alloy_primitives::{B256, keccak256};
use bytes::Bytes;
use certificates::{SecretKey, Signer, Term};
use chain::DEV_ACCOUNTS;
use futures_util::{Stream, StreamExt, stream};
use prost::Message;
use replication::protocol::{
    CallRequest, CallResponse, FollowRequest, GovernanceRow, GovernanceRows, Piece, Results,
    SubmitRequest, SubmitResponse, TermsRequest, TermsResponse,
    source_client::SourceClient,
    source_server::{Source, SourceServer},
};
use serde_json::json;
use std::{path::Path, pin::Pin};
use testkit::{MAX_WAIT, NodeProcess, copy_folder};
use tokio::net::TcpListener;
use tonic::{Code, Request, Response, Status, service::Routes};

/// A block in the form in which sources send it.
#[derive(Clone, Debug, Default)]
struct Block {
    header: Bytes,
    certificate: Bytes,
    results: Results,
    governance: Vec<GovernanceRow>,
}

impl Block {
    /// Returns the block in one piece.
    fn piece(&self) -> Piece {
        let governance = GovernanceRows { rows: self.governance.clone() };
        let governance = governance.encode_to_vec().into();
        let results = Results { governance, ..self.results.clone() };
        Piece {
            head: 1_000,
            header: self.header.clone(),
            certificate: self.certificate.clone(),
            data: results.encode_to_vec().into(),
            ends_block: true,
        }
    }
}

impl Block {
    /// Returns the block in pieces of the usual size.
    fn pieces(&self) -> Vec<Piece> {
        let whole = self.piece();
        let starts: Vec<_> = (0..whole.data.len()).step_by(60_000).collect();
        let piece = |start: usize| {
            let end = whole.data.len().min(start + 60_000);
            let (data, ends_block) = (whole.data.slice(start..end), end == whole.data.len());
            match start {
                0 => Piece { data, ends_block, ..whole.clone() },
                _ => Piece { data, ends_block, head: whole.head, ..Piece::default() },
            }
        };
        starts.into_iter().map(piece).collect()
    }
}

pub(super) async fn genesis_hash(node: &NodeProcess) -> Bytes {
    let genesis = node.endpoints().call("eth_getBlockByNumber", json!(["0x0", false])).await;
    let hash: B256 = serde_json::from_value(genesis["hash"].clone()).unwrap();
    hash.to_vec().into()
}

/// Returns the first `count` blocks of a node, as the node sends them.
async fn blocks_of(node: &NodeProcess, count: u64) -> Vec<Block> {
    let endpoint = tonic::transport::Endpoint::from_shared(url(node)).unwrap();
    let mut client = SourceClient::new(endpoint.connect().await.unwrap());
    let genesis = genesis_hash(node).await;
    let request = FollowRequest {
        version: replication::PROTOCOL_VERSION,
        genesis_hash: genesis.clone(),
        parent: 0,
        parent_hash: genesis,
    };
    let mut pieces = client.follow(request).await.unwrap().into_inner();
    let (mut blocks, mut bytes, mut block) = (Vec::new(), Vec::new(), Block::default());
    while (blocks.len() as u64) < count {
        let piece = pieces.message().await.unwrap().unwrap();
        if !piece.header.is_empty() {
            let (header, certificate) = (piece.header.clone(), piece.certificate.clone());
            block = Block { header, certificate, ..Block::default() };
        }
        bytes.extend_from_slice(&piece.data);
        if piece.ends_block {
            block.results = Results::decode(bytes.as_slice()).unwrap();
            let rows = GovernanceRows::decode(block.results.governance.clone()).unwrap();
            block.governance = rows.rows;
            blocks.push(block.clone());
            bytes.clear();
        }
    }
    blocks
}

/// What a fake source sends to a follower.
#[derive(Clone, Debug)]
enum Script {
    /// Sends these pieces, and then nothing more.
    Pieces(Vec<Piece>),
    /// Sends these pieces, and then ends the stream.
    Ends(Vec<Piece>),
    /// Sends the first piece, and then an endless stream of data.
    Endless(Piece),
    /// Fails with this error.
    Fails(Status),
}

impl Script {
    fn blocks(blocks: &[Block]) -> Self {
        Self::Pieces(blocks.iter().flat_map(Block::pieces).collect())
    }
}

#[derive(Debug)]
struct Fake {
    script: Script,
    terms: Vec<Bytes>,
}

#[tonic::async_trait]
impl Source for Fake {
    async fn call(&self, _: Request<CallRequest>) -> Result<Response<CallResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn submit(&self, _: Request<SubmitRequest>) -> Result<Response<SubmitResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn terms(&self, _: Request<TermsRequest>) -> Result<Response<TermsResponse>, Status> {
        let head_hash = vec![0; 32].into();
        Ok(Response::new(TermsResponse { terms: self.terms.clone(), head: 0, head_hash }))
    }

    type FollowStream = Pin<Box<dyn Stream<Item = Result<Piece, Status>> + Send>>;

    async fn follow(
        &self,
        _: Request<FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let pieces: Self::FollowStream = match self.script.clone() {
            Script::Pieces(pieces) => {
                Box::pin(stream::iter(pieces.into_iter().map(Ok)).chain(stream::pending()))
            }
            Script::Ends(pieces) => Box::pin(stream::iter(pieces.into_iter().map(Ok))),
            Script::Endless(first) => {
                let data = Piece { data: vec![0xff; 120_000].into(), ..Piece::default() };
                Box::pin(stream::once(async { Ok(first) }).chain(stream::repeat(Ok(data))))
            }
            Script::Fails(status) => return Err(status),
        };
        Ok(Response::new(pieces))
    }
}

/// Serves a fake source, and returns its address. The source ends with the runtime of the test.
async fn fake(script: Script) -> String {
    fake_with_terms(script, Vec::new()).await
}

/// Like [`fake`], but the source also sends producer terms.
async fn fake_with_terms(script: Script, terms: Vec<Bytes>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Routes::new(SourceServer::new(Fake { script, terms })).into_axum_router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// Starts a replica that follows a fake source, and then the producer. Checks that the fake source is refused for
/// `reason` (one of several, separated by `|`), and that the replica then follows the producer's blocks.
async fn assert_refused(
    home: &Path,
    producer: &NodeProcess,
    (name, script): (&str, Script),
    options: &[&str],
    reason: &str,
) {
    let home = replica_home(home, name);
    let source = fake(script).await;
    let replica = follow(&home, &format!("{source},{}", url(producer)), options);
    let refused = loop {
        let status = status(&replica).await;
        let refused = status["refused"].get(0).cloned().unwrap_or_default();
        if !refused.is_null() && status["source"] == json!(url(producer)) {
            break refused;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(refused["source"], json!(source), "{name}: {refused}");
    let text = refused["reason"].as_str().unwrap();
    assert!(reason.split('|').any(|reason| text.contains(reason)), "{name}: {text}");
    let next = head(&replica.endpoints()).await + 1;
    reach(&replica, next).await;
}

/// Returns a script that sends all blocks after a change to the block at `index`.
fn changed(blocks: &[Block], index: usize, change: impl FnOnce(&mut Block)) -> Script {
    let mut blocks = blocks.to_vec();
    change(&mut blocks[index]);
    Script::blocks(&blocks)
}

fn flip(bytes: &mut Bytes, index: usize) {
    let mut changed = bytes.to_vec();
    changed[index] ^= 1;
    *bytes = changed.into();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_alters_any_part_of_a_block_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    // There must be more blocks than a source may send without a certificate.
    let last = use_chain(&producer, 0).await.max(36);
    let blocks = blocks_of(&producer, last).await;
    let with = |has: fn(&Block) -> bool| blocks.iter().position(has).unwrap();
    let transfers = with(|block| block.results.senders.len() > 20);
    let proposal = with(|block| !block.governance.is_empty());
    let at = |index: usize, change: &dyn Fn(&mut Block)| changed(&blocks, index, change);
    let first = blocks[0].piece();
    let open = Piece { ends_block: false, ..first.clone() };
    let cases: Vec<(&str, Script, &str)> = vec![
        ("unsigned", at(1, &|block| flip(&mut block.certificate, 20)), "is not signed by"),
        ("header", at(1, &|block| flip(&mut block.header, 100)), "is not signed by"),
        (
            "skipped",
            {
                let mut some = blocks.clone();
                some.remove(1);
                Script::blocks(&some)
            },
            "block 3 was sent, but block 2 was expected",
        ),
        (
            "repeated",
            {
                let mut some = blocks.clone();
                some.insert(1, some[0].clone());
                Script::blocks(&some)
            },
            "block 1 was sent, but block 2 was expected",
        ),
        (
            "transaction",
            at(transfers, &|block| {
                // This byte of the body belongs to the last transaction.
                let end = block.results.body.len() - 40;
                flip(&mut block.results.body, end);
            }),
            "transactionsRoot|its signer is",
        ),
        (
            "fewer-senders",
            at(transfers, &|block| block.results.senders = block.results.senders.slice(20..)),
            "senders were sent",
        ),
        (
            "sender",
            at(transfers, &|block| flip(&mut block.results.senders, 3)),
            "the sender of transaction 0 is",
        ),
        (
            "receipt",
            at(transfers, &|block| {
                let end = block.results.receipts.len() - 2;
                flip(&mut block.results.receipts, end);
            }),
            "receiptsRoot|receipts:",
        ),
        (
            "balance",
            at(transfers, &|block| {
                let address = DEV_ACCOUNTS[2].address;
                let found =
                    block.results.changes.windows(20).position(|found| found == address.as_slice());
                // The address, the flags, and the length of the nonce precede the balance.
                flip(&mut block.results.changes, found.unwrap() + 20 + 8);
            }),
            "stateRoot",
        ),
        (
            "no-changes",
            at(transfers, &|block| block.results.changes = vec![0, 0].into()),
            "stateRoot",
        ),
        (
            "event",
            at(transfers, &|block| {
                let end = block.results.module.len() - 3;
                flip(&mut block.results.module, end);
            }),
            "module row",
        ),
        ("no-module", at(1, &|block| block.results.module = Bytes::new()), "module row"),
        (
            "governance",
            at(proposal, &|block| {
                block.governance.pop();
            }),
            "module row",
        ),
        (
            "governance-key",
            at(proposal, &|block| block.governance[0].key = vec![9].into()),
            "unknown key",
        ),
        (
            "garbage",
            Script::Pieces(vec![Piece { data: vec![0xff; 100].into(), ..first.clone() }]),
            "cannot be decoded",
        ),
        (
            "garbage-header",
            Script::Pieces(vec![Piece { header: vec![0xff; 9].into(), ..first.clone() }]),
            "a header cannot be decoded",
        ),
        (
            "no-header",
            Script::Pieces(vec![Piece { header: Bytes::new(), ..first.clone() }]),
            "data without a header",
        ),
        (
            "two-headers",
            Script::Pieces(vec![open.clone(), open.clone()]),
            "a header in the middle of a block",
        ),
        (
            "large-piece",
            Script::Pieces(vec![Piece { data: vec![0; 200_000].into(), ..Piece::default() }]),
            "limit",
        ),
        (
            "many-slots",
            at(1, &|block| {
                // One account with a million slots, each of two bytes.
                let slots =
                    [&[1][..], &[7; 20], &[0], &[0xc0, 0x84, 0x3d], &[0; 2_000_000], &[0]].concat();
                block.results.changes = slots.into();
            }),
            "more items than allowed",
        ),
        (
            "uncertified",
            {
                let mut some = blocks.clone();
                some.iter_mut().for_each(|block| block.certificate = Bytes::new());
                Script::blocks(&some)
            },
            "have no certificate, and at most 32 are held",
        ),
        // The block is checked even though the stream has ended.
        (
            "ends",
            {
                let mut some = blocks[..2].to_vec();
                some[1].results.senders = vec![9; 20].into();
                Script::Ends(some.iter().map(Block::piece).collect())
            },
            // If block 2 has exactly one transaction, the number of senders is valid.
            "senders were sent|the sender of transaction 0 is",
        ),
        ("other-chain", Script::Fails(Status::failed_precondition("genesis 0x12")), "genesis 0x12"),
    ];
    for (name, script, reason) in cases {
        assert_refused(&home, &producer, (name, script), &[], reason).await;
    }
    // Even if signatures are not checked, the header proves the senders. Cosmos transactions contain their senders.
    let position = |block: &Block| {
        let sender = DEV_ACCOUNTS[1].address;
        block.results.senders.chunks(20).position(|found| found == sender.as_slice()).unwrap()
    };
    let script = at(transfers, &|block| {
        let first = position(block) * 20;
        flip(&mut block.results.senders, first + 3);
    });
    let options = ["--verify", "sample:1000000"];
    assert_refused(&home, &producer, ("sampled-sender", script), &options, "module row").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_refuse_other_versions_and_chains() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    reach(&producer, 2).await;
    let endpoint = tonic::transport::Endpoint::from_shared(url(&producer)).unwrap();
    let mut client = SourceClient::new(endpoint.connect().await.unwrap());
    let version = replication::PROTOCOL_VERSION;
    let genesis = genesis_hash(&producer).await;
    let request = |version, genesis_hash: &Bytes, parent| FollowRequest {
        version,
        genesis_hash: genesis_hash.clone(),
        parent,
        parent_hash: genesis.clone(),
    };
    let other = vec![1; 32].into();
    for (request, code, text) in [
        (request(version + 1, &genesis, 0), Code::Unimplemented, "use the same version of evmd"),
        (request(version, &other, 0), Code::FailedPrecondition, "use the same genesis file"),
        (request(version, &genesis, 1), Code::FailedPrecondition, "that of the follower is 0x"),
        (request(version, &genesis, u64::MAX), Code::OutOfRange, "this node has blocks up to"),
    ] {
        let error = client.follow(request).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(text), "{error}");
    }
}

/// This test takes longer than the others because the source sends all bytes up to the limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_without_an_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    let blocks = blocks_of(&producer, 1).await;
    let open = Piece { ends_block: false, ..blocks[0].piece() };
    let source = fake(Script::Endless(open)).await;
    let replica = follow(&replica_home(&home, "replica"), &source, &[]);
    let reason = loop {
        let status = status(&replica).await;
        if let Some(reason) = status["refused"][0]["reason"].as_str() {
            break reason.to_owned();
        }
        tokio::task::yield_now().await;
    };
    assert!(reason.contains("block 1 has more than 134217728 bytes"), "{reason}");
}

/// A change to a block.
type Change<'a> = &'a dyn Fn(&mut Block);

/// These changes keep all roots, but the replica would serve wrong data.
#[tokio::test(flavor = "multi_thread")]
async fn changes_that_roots_do_not_prove_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    let last = use_chain(&producer, 0).await;
    let blocks = blocks_of(&producer, last).await;
    let creation = |block: &Block| {
        !storage::decode_changes(block.results.changes.clone().into()).unwrap().codes.is_empty()
    };
    let index = blocks.iter().position(creation).unwrap();
    let code_bytes = 10;
    // The list of codes is at the end. It has one code of 10 bytes, which its hash and its length precede.
    let cases: [(&str, Change<'_>, &str); 3] = [
        (
            "other-code",
            &|block| {
                let end = block.results.changes.len() - 1;
                flip(&mut block.results.changes, end);
            },
            "has the hash",
        ),
        (
            "no-code",
            &|block| {
                let mut bytes = block.results.changes.to_vec();
                bytes.truncate(bytes.len() - code_bytes - 1 - 32 - 1);
                bytes.push(0);
                block.results.changes = bytes.into();
            },
            "neither stored nor in the block",
        ),
        (
            "unused-code",
            &|block| {
                let bytes = block.results.changes.to_vec();
                let (before, code) = bytes.split_at(bytes.len() - code_bytes - 1 - 32);
                // Codes are in ascending order of their hashes.
                let (hash, other) = (0u32..)
                    .map(|number| (keccak256(number.to_be_bytes()), number.to_be_bytes()))
                    .find(|(hash, _)| hash.as_slice() > &code[..32])
                    .unwrap();
                let count = before.len() - 1;
                let codes = [&before[..count], &[2], code, hash.as_slice(), &[4], &other].concat();
                block.results.changes = codes.into();
            },
            "no account of the block has the code",
        ),
    ];
    for (name, change, reason) in cases {
        let script = changed(&blocks, index, change);
        assert_refused(&home, &producer, (name, script), &[], reason).await;
    }
}

/// Imported blocks, and blocks from before the producer had a key, have no certificates of their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_later_certificate_covers_earlier_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    let last = use_chain(&producer, 0).await + 8;
    let mut blocks = blocks_of(&producer, last).await;
    // Every fifth block keeps its certificate. No certificate covers the blocks after the last one that has its own.
    for (index, block) in blocks.iter_mut().enumerate() {
        if index % 5 != 4 {
            block.certificate = Bytes::new();
        }
    }
    let proved = blocks.iter().rposition(|block| !block.certificate.is_empty()).unwrap() as u64 + 1;
    let replica_home = replica_home(&home, "replica");
    let source = fake(Script::blocks(&blocks)).await;
    let mut replica = follow(&replica_home, &source, &[]);
    reach(&replica, proved).await;
    assert_eq!(head(&replica.endpoints()).await, proved);
    assert_eq!(status(&replica).await["refused"], json!([]));
    replica.stop();
    assert_sound(&replica_home);
}

/// A source with a different version may be upgraded, so the replica tries it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_of_another_version_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    reach(&producer, 2).await;
    let source = fake(Script::Fails(Status::unimplemented("version 0"))).await;
    let replica =
        follow(&replica_home(&home, "replica"), &format!("{source},{}", url(&producer)), &[]);
    reach(&replica, 2).await;
    let status = status(&replica).await;
    assert_eq!(status["refused"], json!([]));
    assert_eq!(status["source"], json!(url(&producer)));
}

/// Even if a producer signs two blocks at one height, a replica does not replace the block that it has.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_block_at_one_height_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let mut producer = produce(&home);
    use_chain(&producer, 0).await;
    producer.stop();
    // A copy of the home folder has the same key but produces different blocks.
    let other = home.with_file_name("other");
    copy_folder(&home, &other);
    let mut producer = produce(&home);
    // Empty blocks with the same timestamp would be equal in both homes.
    let last = use_chain(&producer, 1).await;
    let replica_home = replica_home(&home, "replica");
    let mut replica = follow(&replica_home, &url(&producer), &[]);
    reach(&replica, last).await;
    let kept = replica.endpoints().call("eth_getBlockByNumber", json!(["latest", false])).await;
    replica.kill();
    producer.kill();
    let other = produce(&other);
    let replica = follow(&replica_home, &url(&other), &[]);
    let endpoints = replica.endpoints();
    let refused = async {
        loop {
            let status = status(&replica).await;
            if let Some(reason) = status["refused"][0]["reason"].as_str() {
                return reason.to_owned();
            }
            tokio::task::yield_now().await;
        }
    };
    let Ok(reason) = tokio::time::timeout(MAX_WAIT, refused).await else {
        panic!("the source is not refused: {}", status(&replica).await);
    };
    assert!(reason.contains("that of the follower is 0x"), "{reason}");
    let number = kept["number"].clone();
    assert_eq!(endpoints.call("eth_getBlockByNumber", json!([number, false])).await, kept);
}

/// Terms are signed, so a source cannot forge them.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_with_invalid_producer_terms_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    reach(&producer, 2).await;
    let key = SecretKey::from_bytes(&[7; 32]);
    let last = certificates::BlockId { number: 1, hash: B256::ZERO };
    let forged = Term::sign((Signer::Producer, &key), B256::ZERO, 1, last, key.public());
    let forged = serde_json::to_vec(&forged).unwrap();
    for (name, terms, reason) in [
        ("garbage", vec![Bytes::from_static(b"no term")], "a producer term"),
        ("forged", vec![forged.clone().into()], "is not signed by"),
        ("many", vec![forged.into(); 1_025], "at most 1024 producer terms"),
        ("large", vec![vec![b' '; 1_025].into()], "at most 1024 bytes"),
    ] {
        let source = fake_with_terms(Script::Pieces(Vec::new()), terms).await;
        let sources = format!("{source},{}", url(&producer));
        let replica = follow(&replica_home(&home, name), &sources, &[]);
        reach(&replica, 2).await;
        let refused = status(&replica).await["refused"][0].take();
        assert_eq!(refused["source"], json!(source), "{name}: {refused}");
        assert!(refused["reason"].as_str().unwrap().contains(reason), "{name}: {refused}");
    }
}
