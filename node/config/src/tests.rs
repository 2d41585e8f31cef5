//! Tests of valid and invalid settings files.

use super::*;
use mempool::SLOT_BYTES;

#[test]
fn defaults_are_read_from_a_new_file() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let config = Config::default();
    config.write_new(home.path()).expect("written");
    assert_eq!(Config::load(home.path()).expect("read"), config);
}

#[test]
fn mempool_settings_default_to_the_limits_of_the_mempool() {
    assert_eq!(Mempool::default().limits_on(24 << 30), Limits::default());
    let small = Mempool::default().limits_on(2 << 30);
    assert_eq!((small.global_slots, small.global_queue), (16_384, 4_096));
    let set = Mempool { global_slots: 7, global_queue: 8, ..Mempool::default() };
    let set = set.limits_on(2 << 30);
    assert_eq!((set.global_slots, set.global_queue), (7, 8));
}

/// The memory that a node on a small machine uses for tables, caches, its mempool and its clients.
#[test]
fn derived_defaults_fit_into_two_gibibytes() {
    let on = |full: u64, minimum| memory::derived_on(2 << 30, full, minimum);
    let trie = on(TRIE_CACHE_BYTES_DEFAULT, MIN_TRIE_CACHE_BYTES);
    let recent = on(FULL_RECENT_ACCOUNTS as u64, MIN_RECENT_ACCOUNTS as u64);
    let answers = on(FULL_ANSWER_CACHE_BYTES, MIN_ANSWER_CACHE_BYTES);
    let limits = Mempool::default().limits_on(2 << 30);
    let pool = (limits.global_slots + limits.global_queue) as u64 * SLOT_BYTES as u64;
    let clients = on(server::FULL_CLIENT_BYTES, server::MIN_CLIENT_BYTES);
    // Two copies of each account at 85 bytes, and one slot at 171 bytes for every four accounts.
    let tables = recent * (2 * 85 + 171 / 4);
    let all = trie + tables + answers + pool + clients;
    assert!(all < 1700 << 20, "{all}");
}

#[test]
fn socket_threads_equal_cores_by_default() {
    let threads = |set, cores| JsonRpc { threads: set, ..JsonRpc::default() }.threads_on(cores);
    assert_eq!([1, 2, 8, 1000].map(|cores| threads(0, cores)), [1, 2, 8, 64]);
    assert_eq!([threads(1, 2), threads(3, 2), threads(65, 2)], [1, 3, 64]);
}

/// Loads a file with this text, and returns the error.
fn load_error(text: &str) -> String {
    let home = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(home.path().join(CONFIG_FILE), text).expect("written");
    let error = Config::load(home.path()).expect_err("refused").to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn unknown_key_is_an_error_with_its_line() {
    let error = load_error("[engine]\nblok-time-ms = 5\n");
    assert!(error.contains("line 2: ") && error.contains("blok-time-ms"), "{error}");
}

#[test]
fn numbers_outside_their_limits_are_refused() {
    for ms in ["0", "86400001"] {
        let error = load_error(&format!("[engine]\n\nblock-time-ms = {ms}\n"));
        let reason =
            format!("line 3: engine.block-time-ms must be between 1 and 86400000, got {ms}");
        assert!(error.ends_with(&reason), "{error}");
    }
    for wait in ["slow-client-s = 0", "idle-timeout-s = 86401", "call-timeout-ms = 86400001"] {
        let error = load_error(&format!("[json-rpc]\n{wait}\n"));
        assert!(
            error.contains("line 2: ") && error.contains(" must be between 1 and 86400"),
            "{error}"
        );
    }
    let error = load_error("[json-rpc]\nmax-connections = 0\n");
    assert!(
        error.ends_with("line 2: json-rpc.max-connections must be at least 1, got 0"),
        "{error}"
    );
    let error = load_error("[rest]\nmax-concurrent = 0\n");
    assert!(error.ends_with("line 2: rest.max-concurrent must be at least 1, got 0"), "{error}");
}

#[test]
fn value_of_another_type_is_refused_with_an_example() {
    for (text, reason) in [
        (
            "[engine]\nblock-time-ms = \"1s\"\n",
            "line 2: engine.block-time-ms must be a whole number, such as 1000, got \"1s\"",
        ),
        ("[engine]\nproduce = 1\n", "line 2: engine.produce must be true or false, got \"1\""),
        (
            "[rest]\n\naddress = \"on\"\n",
            "line 3: rest.address must be an IP address and a port, such as 127.0.0.1:8545, or off, got \"on\"",
        ),
    ] {
        for following in ["", "# A comment.\n\n"] {
            let error = load_error(&format!("{text}{following}"));
            assert!(error.ends_with(reason), "{error}");
        }
    }
}
