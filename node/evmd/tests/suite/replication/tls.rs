//! Tests encrypted connections between nodes.

use super::{
    BLOCK_TIME, PROGRAM, follow, producer_home,
    promotion::{fails_to_start, recoverable_home},
    reach, replica_home, transfer,
};
use crate::start_safety::run;
use certificates::Authority;
use chain::DEV_ACCOUNTS;
use home::{Home, stored_authority};
use replication::{Roots, ask_node};
use serde_json::json;
use std::path::{Path, PathBuf};
use testkit::{NodeProcess, tls_file};
use tokio::net::TcpListener;

/// Writes values of the section `replication` to the settings of a home folder.
fn set(home: &Path, settings: &[(&str, PathBuf)]) {
    for (name, value) in settings {
        let name = format!("replication.{name}");
        let (code, _, error) = run(home, &["config", "set", &name, value.to_str().unwrap()]);
        assert_eq!(code, 0, "{error}");
    }
}

/// Starts a producer that encrypts connections.
fn start_encrypting(home: &Path) -> NodeProcess {
    set(home, &[("tls-certificate", tls_file("node.pem")), ("tls-key", tls_file("node.key"))]);
    // The certificate names only 127.0.0.1.
    let options = ["--replication.address", "127.0.0.1:0", "--block-time", BLOCK_TIME];
    NodeProcess::start(Path::new(PROGRAM), home, &options)
}

fn chain_authority(home: &Path) -> Authority {
    let (chain, _index) = Home::attach(home).unwrap();
    stored_authority(&chain, home).unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_transactions_and_promote_queries_travel_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let (home, recovery) = recoverable_home(folder.path());
    let producer = start_encrypting(&home);
    let url = format!("https://{}", producer.endpoints().replication.unwrap());
    let replica_home = replica_home(&home, "replica");
    set(&replica_home, &[("tls-roots", tls_file("authority.pem"))]);
    // A source that accepts connections and never responds must not stop the replica.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sources = format!("https://{},{url}", silent.local_addr().unwrap());
    let mut replica = follow(&replica_home, &sources, &[]);
    reach(&replica, 1).await;
    let sync = json!([transfer(1, 0, DEV_ACCOUNTS[2].address), 30_000]);
    let receipt = replica.endpoints().call("eth_sendRawTransactionSync", sync).await;
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    let number = receipt["blockNumber"].as_str().unwrap();
    let number = u64::from_str_radix(&number[2..], 16).unwrap();
    replica.kill();
    // The command asks the producer, which already has later blocks.
    reach(&producer, number + 5).await;
    let promote = ["promote", "--signed-by", &recovery, "--ask", &url];
    let (code, _, error) = run(&replica_home, &promote);
    assert!(code == 1 && error.contains(&format!("{url} has block ")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ask_node_requires_a_trusted_certificate_and_a_matching_scheme() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = start_encrypting(&home);
    let at = producer.endpoints().replication.unwrap();
    let roots = Roots::load(Some(&tls_file("authority.pem"))).unwrap();
    let plain_home = replica_home(&home, "plain");
    set(&plain_home, &[("tls-roots", tls_file("authority.pem"))]);
    let plain = follow(&plain_home, &format!("https://{at}"), &[]);
    let plain = plain.endpoints().replication.unwrap();
    let known = chain_authority(&home);
    for url in [format!("https://{at}"), format!("http://{plain}")] {
        assert!(ask_node(&url, &roots, &known).await.is_ok(), "{url}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    for (url, roots) in [
        // The authority of the certificate is not trusted, or the certificate does not name the host.
        (format!("https://{at}"), &Roots::default()),
        (format!("https://localhost:{}", at.port()), &roots),
        // Only one side encrypts.
        (format!("http://{at}"), &roots),
        (format!("https://{plain}"), &roots),
        (format!("https://{silent}"), &roots),
    ] {
        let result = ask_node(&url, roots, &known).await;
        assert!(result.is_err(), "{url}: {result:?}");
    }
}

#[test]
fn invalid_tls_settings_are_named_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let [certificate, key, other] = ["node.pem", "node.key", "other.key"].map(tls_file);
    let start_error = |settings: &[(&str, PathBuf)]| {
        set(&home, settings);
        fails_to_start(&home, &["--replication.address", "127.0.0.1:0"])
    };
    let error = start_error(&[("tls-certificate", certificate)]);
    assert!(error.contains("replication.tls-key is empty"), "{error}");
    let error = start_error(&[("tls-key", other)]);
    assert!(error.contains("replication.tls-certificate: the certificate in "), "{error}");
    let error = start_error(&[("tls-key", key.clone()), ("tls-roots", key)]);
    assert!(error.contains("replication.tls-roots: ") && error.contains("node.key"), "{error}");
}
