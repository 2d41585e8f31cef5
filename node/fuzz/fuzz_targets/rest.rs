//! Sends bytes to the REST server as a path, a query string and a body; see
//! `node/cosmos-api/src/rest/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cosmos_api::rest::fuzzing::rest_request(data));
