//! The responses of every operation, successful or not, must conform to the OpenAPI document.

mod document;

use super::{
    golden::{Recording, scene},
    served::Served,
};
use crate::client::exchange_with_head;
use document::{Checker, Operation};
use std::{path::Path, time::Duration};
use tokio::process::Command;

/// Valid parameter values. An item that a value names does not exist on the chain.
const MISSING: [(&str, &str); 9] = [
    ("address", "0x00000000000000000000000000000000000000bb"),
    ("address_string", "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq"),
    ("cons_address", "0x00000000000000000000000000000000000000bb"),
    ("denom", "other"),
    ("depositor", "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq"),
    ("hash", "0x1111111111111111111111111111111111111111111111111111111111111111"),
    ("name", "nothing"),
    ("proposal_id", "9"),
    ("voter", "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq"),
];

/// Statuses that a client can cause on a healthy node. Each operation that documents one of them must respond
/// with it.
const PROVOKED: [u16; 9] = [200, 308, 400, 403, 404, 413, 414, 431, 501];

/// Maximum time for the validator. It checks each schema against the meta-schema, which takes a few seconds on
/// an idle core.
const VALIDATOR_TIME: Duration = Duration::from_secs(300);

/// A request without the header `Host`.
struct Request {
    verb: String,
    target: String,
    headers: String,
    body: String,
}

impl Request {
    fn new(verb: &str, target: impl Into<String>) -> Self {
        let (verb, headers, body) = (verb.to_uppercase(), String::new(), String::new());
        Self { verb, target: target.into(), headers, body }
    }

    fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        let length = self.body.len();
        self.headers += &format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        self
    }

    fn at(mut self, height: &str) -> Self {
        self.headers += &format!("x-cosmos-block-height: {height}\r\n");
        self
    }

    /// Parses a request from a recording.
    fn recorded(request_line: &str) -> Self {
        let mut words = request_line.splitn(3, ' ');
        let (verb, target) = (words.next().unwrap(), words.next().unwrap());
        let request = Self::new(verb, target);
        match words.next() {
            Some(body) if verb == "POST" => request.with_body(body),
            Some(height) => request.at(height.strip_prefix('@').unwrap()),
            None => request,
        }
    }
}

/// Sends requests and checks the responses.
struct Session {
    served: Served,
    checker: Checker,
}

impl Session {
    async fn new(served: Served) -> Self {
        let checker = Checker::new(served.get("/openapi.json").await);
        Self { served, checker }
    }

    async fn send(&mut self, operation: &Operation, request: &Request) -> u16 {
        self.send_to(operation, request, "Host: localhost\r\n").await
    }

    async fn send_to(&mut self, operation: &Operation, request: &Request, host: &str) -> u16 {
        let Request { verb, target, headers, body } = request;
        let bytes =
            format!("{verb} {target} HTTP/1.1\r\n{headers}{host}Connection: close\r\n\r\n{body}");
        let address = self.served.node.rest;
        let (status, head, text) = exchange_with_head(address, bytes.as_bytes()).await;
        self.checker.check(
            operation,
            &format!("{verb} {target:.200} {body:.80}"),
            status,
            &head,
            &text,
        );
        status
    }

    /// Sends a request, which must fail.
    async fn send_failing(&mut self, operation: &Operation, request: &Request) {
        let status = self.send(operation, request).await;
        let Request { verb, target, body, .. } = request;
        assert!(status >= 400, "{verb} {target} {body}: {status}");
    }

    async fn send_recorded(&mut self) {
        for request_line in Recording::read("rest.txt").requests() {
            let request = Request::recorded(&request_line);
            let operation = self.checker.operation(&request.verb, &request.target);
            let Some(operation) = operation else {
                let (status, _) = self.served.ask(&request.target).await;
                assert_eq!(status, 501, "{request_line} is served but not documented");
                continue;
            };
            if self.send(&operation, &request).await == 200 && request.verb == "POST" {
                self.checker.check_request(&operation, &request.body);
            }
        }
    }

    /// Sends requests that are invalid for any operation, and then for this one.
    async fn send_invalid_requests(&mut self, operation: &Operation) {
        let target = operation.filled(&MISSING);
        let request = Request::new(&operation.verb, &target);
        self.send_to(operation, &request, "Host: foreign.example\r\n").await;
        self.send_to(operation, &request, "").await;
        let headers = "x-any: 1\r\n".repeat(200);
        self.send_to(operation, &request, &format!("Host: localhost\r\n{headers}")).await;
        let long = format!("{target}?{}", "a".repeat(70_000));
        self.send(operation, &Request::new(&operation.verb, long)).await;
        if operation.documents(501) {
            self.send_failing(operation, &Request::new("DELETE", &target)).await;
        }
        if operation.is_query() && operation.verb == "post" {
            self.send_invalid_bodies(operation, &target).await;
        } else if operation.is_query() {
            self.send_invalid_parameters(operation, &target).await;
        }
    }

    async fn send_invalid_bodies(&mut self, operation: &Operation, target: &str) {
        // These bytes are not a transaction, so a simulation fails with 500, as in the SDK.
        let junk = Request::new("POST", target).with_body("{\"tx_bytes\":\"AQ==\"}");
        self.send(operation, &junk).await;
        let mut bodies = vec![String::new(), "{".into(), "[]".into(), "{\"unknown\":1}".into()];
        let fields = self.checker.request_fields(operation);
        bodies.extend(fields.iter().map(|name| format!("{{\"{name}\":[[]]}}")));
        bodies.push(" ".repeat(200_000));
        for body in bodies {
            self.send_failing(operation, &Request::new("POST", target).with_body(body)).await;
        }
    }

    async fn send_invalid_parameters(&mut self, operation: &Operation, target: &str) {
        for height in ["x", "-1", "999999999"] {
            self.send_failing(operation, &Request::new("GET", target).at(height)).await;
        }
        self.send_failing(operation, &Request::new("GET", format!("{target}?unknown=1"))).await;
        for parameter in operation.parameters("query") {
            let name = parameter["name"].as_str().unwrap();
            // A string accepts any text.
            let is_text = parameter["schema"] == serde_json::json!({ "type": "string" });
            if !is_text && parameter["schema"]["type"] != "array" {
                self.send_failing(operation, &Request::new("GET", format!("{target}?{name}=!")))
                    .await;
            }
        }
        for parameter in operation.parameters("path") {
            let name = parameter["name"].as_str().unwrap();
            let without = operation.filled(&[&[(name, "")][..], &MISSING].concat());
            self.send_failing(operation, &Request::new("GET", without)).await;
            let invalid = operation.filled(&[&[(name, "!")][..], &MISSING].concat());
            self.send(operation, &Request::new("GET", invalid)).await;
        }
        let query = operation.parameters("query").filter_map(|parameter| {
            let name = parameter["name"].as_str().unwrap();
            let (_, value) = MISSING.iter().find(|(known, _)| *known == name)?;
            Some(format!("{name}={value}"))
        });
        let query: Vec<_> = query.collect();
        let missing = Request::new("GET", format!("{target}?{}", query.join("&")));
        self.send(operation, &missing).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_conform_to_the_openapi_document() {
    let served = scene().await;
    let mut session = Session::new(served).await;
    session.send_recorded().await;
    for operation in session.checker.operations() {
        if !operation.is_query() {
            let request = Request::new(&operation.verb, operation.filled(&MISSING));
            session.send(&operation, &request).await;
        }
        session.send_invalid_requests(&operation).await;
    }
    let Session { served, checker } = session;
    let mut violations = checker.violations().to_vec();
    for operation in checker.operations() {
        let seen = checker.seen(&operation);
        let provoked = PROVOKED.iter().filter(|status| operation.documents(**status));
        let missed: Vec<_> = provoked.filter(|status| !seen.contains(status)).collect();
        if !missed.is_empty() {
            violations.push(format!("{operation:?}: {missed:?} did not occur, only {seen:?}"));
        }
    }
    assert!(violations.is_empty(), "{}:\n{}", violations.len(), violations.join("\n"));
    served.stop().await;
}

/// A chain that follows Ethereum's rules has no fee market and no governance, and only the accounts of genesis.
#[tokio::test(flavor = "multi_thread")]
async fn responses_of_an_ethereum_chain_conform_to_the_openapi_document() {
    let served = Served::with_ethereum_rules().await;
    let mut session = Session::new(served).await;
    session.send_recorded().await;
    let Session { served, checker } = session;
    let violations = checker.violations();
    assert!(violations.is_empty(), "{}:\n{}", violations.len(), violations.join("\n"));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs openapi-spec-validator: run .ci/clients"]
async fn document_is_valid_openapi() {
    let served = Served::start().await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/openapi.py");
    let child = Command::new("python3")
        .arg(script)
        .arg(format!("http://{}/openapi.json", served.node.rest))
        .kill_on_drop(true)
        .output();
    let output =
        tokio::time::timeout(VALIDATOR_TIME, child).await.expect("the script ends").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), "ok");
    served.stop().await;
}
