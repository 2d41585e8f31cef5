//! Encrypts the connections of HTTP/2 servers with TLS 1.2 (RFC 5246) or TLS 1.3 (RFC 8446).

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    },
    server::TlsStream,
};

/// Maximum time of a handshake.
const MAX_HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The name of HTTP/2 in a handshake (RFC 9113, section 3.2).
const HTTP2: &[u8] = b"h2";

/// The certificate of a server, and its key.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why a certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, is not PEM, or has no certificate or key.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: pem::Error,
    },
    /// The certificate of an authority is not valid.
    #[error("{path}: {source}", path = .path.display())]
    Root {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// There is no certificate, the certificate or the key is of an unknown kind, or they do not belong together.
    #[error("the certificate in {certificate} with the key in {key}: {source}", certificate = .certificate.display(), key = .key.display())]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("the TLS handshake failed: {0}")]
    Failed(#[from] io::Error),
    #[error("the TLS handshake took more than {} s", MAX_HANDSHAKE_TIME.as_secs())]
    TimedOut,
}

impl Tls {
    /// Reads the certificate chain of a server, which starts with its own certificate, and its private key.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::File { path, source }
        };
        let chain = CertificateDer::pem_file_iter(certificate).map_err(at(certificate))?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(at(certificate))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(at(key))?;
        let pair = |source| TlsError::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(pair)?;
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Checks and returns the PEM file with the certificates of the authorities that a client trusts.
    ///
    /// # Errors
    /// See [`TlsError`]. A file without a certificate is an error too.
    pub fn read_roots(path: &Path) -> Result<Vec<u8>, TlsError> {
        let at = |source| TlsError::File { path: path.to_owned(), source };
        let bytes = std::fs::read(path).map_err(|error| at(pem::Error::Io(error)))?;
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&bytes) {
            let invalid = |source| TlsError::Root { path: path.to_owned(), source };
            roots.add(root.map_err(at)?).map_err(invalid)?;
        }
        match roots.is_empty() {
            true => Err(at(pem::Error::NoItemsFound)),
            false => Ok(bytes),
        }
    }

    /// Performs the handshake with a client.
    pub(crate) async fn accept<S>(&self, socket: S) -> Result<TlsStream<S>, HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let accepted = timeout(MAX_HANDSHAKE_TIME, self.0.accept(socket)).await;
        Ok(accepted.map_err(|_| HandshakeError::TimedOut)??)
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tls_file;
    use tokio::{io::duplex, time::Instant};

    #[test]
    fn errors_name_the_files_that_cannot_be_used() {
        let [certificate, key, other, missing] =
            ["node.pem", "node.key", "other.key", "missing.pem"].map(tls_file);
        let load_error = |certificate: &Path, key: &Path| {
            Tls::load(certificate, key).expect_err("not a pair").to_string()
        };
        assert!(Tls::load(&certificate, &key).is_ok());
        assert!(load_error(&missing, &key).contains("missing.pem: "));
        assert!(load_error(&certificate, &missing).contains("missing.pem: "));
        // Each file contains only one part of the pair.
        assert!(load_error(&certificate, &certificate).contains("node.pem: "));
        assert!(load_error(&key, &key).contains("node.key"));
        let text = load_error(&certificate, &other);
        assert!(text.contains("node.pem") && text.contains("other.key"), "{text}");
        assert!(Tls::read_roots(&tls_file("authority.pem")).is_ok());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let damaged = folder.path().join("damaged.pem");
        let roots = std::fs::read_to_string(tls_file("authority.pem")).expect("it exists");
        for second in [
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\n",
        ] {
            std::fs::write(&damaged, format!("{roots}{second}")).expect("it is written");
            let error = Tls::read_roots(&damaged).expect_err("damaged").to_string();
            assert!(error.contains("damaged.pem: "), "{error}");
        }
        let error = Tls::read_roots(&key).expect_err("no certificate").to_string();
        assert!(error.contains("node.key: "), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_disconnected() {
        let tls = Tls::load(&tls_file("node.pem"), &tls_file("node.key")).expect("a pair");
        let (_client, server) = duplex(1024);
        let began = Instant::now();
        let error = tls.accept(server).await.expect_err("no handshake");
        assert!(matches!(error, HandshakeError::TimedOut), "{error}");
        assert_eq!(began.elapsed(), MAX_HANDSHAKE_TIME);
    }
}
