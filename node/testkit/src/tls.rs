//! A certificate for tests, with its key and its authority. They are valid until 2126.

use std::path::{Path, PathBuf};

/// A file of the folder `tls`: `authority.pem`; `node.pem` for the host 127.0.0.1, which it certifies, with `node.key`; and
/// `other.key`, which belongs to no certificate.
pub fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tls").join(name)
}
