//! Connections to other nodes.

use server::tls::{Tls, TlsError};
use std::{path::Path, time::Duration};
use tokio::time::timeout;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Error};

/// Maximum time to connect, with the TLS handshake.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(5);

/// The authorities that certify the nodes at addresses that begin with `https://`.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// Their certificates in PEM; `None` for those of the system.
    certificates: Option<Certificate>,
}

impl Roots {
    /// Reads the certificates from a file in PEM; without a file, the authorities of the system are used.
    ///
    /// # Errors
    /// If the file cannot be read, has no certificate, or has an invalid one.
    pub fn load(file: Option<&Path>) -> Result<Self, TlsError> {
        let pem = file.map(Tls::read_roots).transpose()?;
        Ok(Self { certificates: pem.map(Certificate::from_pem) })
    }
}

/// Returns the endpoint of the node at an address such as `https://10.0.0.1:9100`.
///
/// # Errors
/// The reason why the text is not the address of a node.
pub(crate) fn endpoint(url: &str, roots: &Roots) -> Result<Endpoint, String> {
    let is_encrypted = match url.split_once("://") {
        Some(("http", _)) => false,
        Some(("https", _)) => true,
        _ => return Err("it must begin with http:// or https://".to_owned()),
    };
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| error.to_string())?;
    if !is_encrypted {
        return Ok(endpoint);
    }
    let tls = match &roots.certificates {
        Some(certificates) => ClientTlsConfig::new().ca_certificate(certificates.clone()),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    endpoint.tls_config(tls).map_err(|error| causes_of(&error))
}

/// Connects to a node.
///
/// # Errors
/// The cause.
pub(crate) async fn connect(endpoint: &Endpoint) -> Result<Channel, String> {
    // The limit of the endpoint itself does not include the handshake.
    match timeout(MAX_CONNECT_TIME, endpoint.connect()).await {
        Ok(connected) => connected.map_err(|error| causes_of(&error)),
        Err(_) => Err(format!("no connection within {} s", MAX_CONNECT_TIME.as_secs())),
    }
}

/// Returns why a connection failed. The message of the error itself is only "transport error".
fn causes_of(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let causes: Vec<_> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}
