//! Reads bytes as the body of a JSON-RPC request; see `node/rpc/src/fuzzing.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rpc::fuzzing::envelope(data));
