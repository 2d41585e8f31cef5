//! Tests raw transactions over TCP: every accepted one is mined exactly once, and invalid input is answered.

use crate::common::{native_home, producing, transfer, wait_until};
use alloy_primitives::{Address, B256, Bytes, keccak256};
use pipeline::{MAX_FRAME_BYTES, MAX_TX_BYTES, Pipeline};
use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};
use storage::StateRead;
use testkit::MAX_WAIT;

/// A client of the frame protocol.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
        Self(stream)
    }

    fn send(&mut self, raw: &[u8]) {
        let length = u32::try_from(raw.len()).unwrap();
        self.0.write_all(&length.to_be_bytes()).unwrap();
        self.0.write_all(raw).unwrap();
    }

    fn response(&mut self) -> Result<B256, String> {
        let mut status = [0];
        self.0.read_exact(&mut status).unwrap();
        if status == [0] {
            let mut hash = B256::ZERO;
            self.0.read_exact(hash.as_mut_slice()).unwrap();
            return Ok(hash);
        }
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut text).unwrap();
        Err(String::from_utf8(text).unwrap())
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// Returns how many times each transaction of the chain was mined.
fn mined(pipeline: &Pipeline) -> HashMap<B256, u32> {
    let view = pipeline.published.load();
    let blocks = view.blocks().unwrap();
    let mut mined = HashMap::new();
    for number in 1..=view.number() {
        let (hash, header) = blocks.header(number).unwrap().unwrap();
        let body = blocks.body(number).unwrap().unwrap();
        let block = chain::block::Block::from_parts(hash, &header, &body).unwrap();
        for raw in block.transactions {
            *mined.entry(keccak256(&raw)).or_default() += 1;
        }
    }
    mined
}

#[test]
fn twenty_thousand_transfers_are_mined_exactly_once() {
    const SENDERS: usize = 10;
    const EACH: u64 = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(50)))).unwrap();
    let address = pipeline.ingest_address.unwrap();
    let recipient = Address::repeat_byte(0x77);
    let clients: Vec<_> = (0..SENDERS)
        .map(|from| {
            std::thread::spawn(move || {
                let raw: Vec<Bytes> =
                    (0..EACH).map(|nonce| transfer(from, nonce, recipient)).collect();
                let mut client = Client::connect(address);
                for raw in &raw {
                    client.send(raw);
                }
                for raw in &raw {
                    assert_eq!(client.response(), Ok(keccak256(raw)), "responses keep the order");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let total = SENDERS as u64 * EACH;
    let received = |pipeline: &Pipeline| {
        let state = pipeline.published.load().state.reader().unwrap();
        state.account(recipient).unwrap().unwrap_or_default().balance.to::<u64>()
    };
    wait_until("all transfers are mined", || received(&pipeline) == total);
    let mined = mined(&pipeline);
    assert_eq!(mined.len() as u64, total);
    assert!(mined.values().all(|times| *times == 1));
    for stage in pipeline.monitor().readings() {
        eprintln!(
            "{:<8} in {:>6} out {:>6} batches {:>5} busy {:.3} s",
            stage.name, stage.received, stage.sent, stage.batches, stage.busy_seconds
        );
    }
    pipeline.stop();
    pipeline.join().unwrap();
}

#[test]
fn invalid_frames_are_answered_and_valid_ones_still_served() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    let mut client = Client::connect(pipeline.ingest_address.unwrap());
    let valid = transfer(0, 0, Address::ZERO);
    client.send(&[]);
    client.send(&[0x02, 0xff, 0x00]);
    client.send(&vec![0x02; MAX_TX_BYTES + 1]);
    client.send(&valid);
    client.send(&valid);
    assert!(client.response().unwrap_err().contains("too short"));
    assert!(client.response().is_err());
    assert!(client.response().unwrap_err().contains("oversized"));
    assert_eq!(client.response(), Ok(keccak256(&valid)));
    assert_eq!(client.response().unwrap_err(), "already known");

    // After a frame that is too large to skip, the node sends the reason and closes the connection.
    client.0.write_all(&u32::try_from(MAX_FRAME_BYTES + 1).unwrap().to_be_bytes()).unwrap();
    assert!(client.response().unwrap_err().contains("limit 1048576"));
    assert!(client.is_closed());

    // Read as a length, the first bytes of an HTTP request announce a frame of more than a gigabyte.
    let mut http = Client::connect(pipeline.ingest_address.unwrap());
    http.0.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(http.response().is_err());
    assert!(http.is_closed());
    pipeline.stop();
    pipeline.join().unwrap();
}

#[test]
fn shutdown_loses_no_accepted_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    let mut client = Client::connect(pipeline.ingest_address.unwrap());
    let raw: Vec<_> = (0..100).map(|nonce| transfer(1, nonce, Address::ZERO)).collect();
    for raw in &raw {
        client.send(raw);
    }
    for raw in &raw {
        assert_eq!(client.response(), Ok(keccak256(raw)));
    }
    pipeline.stop();
    pipeline.join().unwrap();

    let block_time = Some(Duration::from_millis(20));
    let pipeline = Pipeline::start(&home, producing(block_time)).unwrap();
    wait_until("the pooled transactions are mined", || mined(&pipeline).len() == raw.len());
    pipeline.stop();
    pipeline.join().unwrap();
    let head = home.view().unwrap().head.hash;
    drop(home);
    let home = crate::common::reopened(folder.path());
    assert_eq!(home.view().unwrap().head.hash, head);
}
