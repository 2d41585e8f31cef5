//! A TLS certificate for tests, its key, and the certificate of its authority. The certificates are valid until 2126.

use std::path::{Path, PathBuf};

/// The path of a file in the folder `tls`: `authority.pem` is the authority; `node.pem`, with the key `node.key`, is
/// its certificate for the host 127.0.0.1; `other.key` belongs to no certificate.
pub fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tls").join(name)
}
