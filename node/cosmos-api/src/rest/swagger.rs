//! Serves Swagger UI at `/swagger`, which reads the OpenAPI document at `/openapi.json`.
//!
//! The files are part of the program and stored compressed (`swagger/README.md`).

use axum::{
    Router,
    http::{
        HeaderMap,
        header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use bytes::Bytes;
use flate2::bufread::GzDecoder;
use server::compression::accepts_gzip;
use std::io::Read;

/// Browsers may cache a file for an hour, because files change only with the program.
const CACHE: &str = "public, max-age=3600";

/// A file of Swagger UI.
#[derive(Clone, Copy)]
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    /// Whether the bytes are compressed with gzip.
    gzipped: bool,
}

const FILES: [File; 4] = [
    File {
        path: "/swagger/",
        kind: "text/html; charset=utf-8",
        bytes: include_bytes!("swagger/index.html"),
        gzipped: false,
    },
    File {
        path: "/swagger/start.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("swagger/start.js"),
        gzipped: false,
    },
    File {
        path: "/swagger/swagger-ui.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("swagger/swagger-ui.css.gz"),
        gzipped: true,
    },
    File {
        path: "/swagger/swagger-ui-bundle.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("swagger/swagger-ui-bundle.js.gz"),
        gzipped: true,
    },
];

/// Paths that users may type, which redirect to the start page.
const REDIRECTS: [&str; 2] = ["/swagger", "/swagger/index.html"];

/// Returns the paths of Swagger UI with their media types. A path without a file redirects to the start page.
pub(super) fn pages() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let files = FILES.iter().map(|file| (file.path, Some(file.kind)));
    files.chain(REDIRECTS.map(|path| (path, None)))
}

/// Serves the files and the redirects.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut router = Router::new();
    for path in REDIRECTS {
        router = router.route(path, get(|| async { Redirect::permanent("/swagger/") }));
    }
    for file in FILES {
        router = router.route(file.path, get(async move |headers: HeaderMap| send(file, &headers)));
    }
    router
}

fn send(file: File, headers: &HeaderMap) -> Response {
    let common = [(CONTENT_TYPE, file.kind), (CACHE_CONTROL, CACHE)];
    if !file.gzipped {
        return (common, file.bytes).into_response();
    }
    let vary = [(VARY, "accept-encoding")];
    if accepts_gzip(headers) {
        return (common, vary, [(CONTENT_ENCODING, "gzip")], file.bytes).into_response();
    }
    (common, vary, unzipped(file.bytes)).into_response()
}

/// Decompresses a file. This takes a few milliseconds but is rare, because all browsers accept gzip.
fn unzipped(bytes: &[u8]) -> Bytes {
    let mut whole = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut whole).expect("a file of the program is valid gzip");
    whole.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_files_are_valid() {
        for file in FILES.iter().filter(|file| file.gzipped) {
            let text = String::from_utf8(unzipped(file.bytes).to_vec()).expect("the file is UTF-8");
            assert!(text.contains("swagger-ui"), "{}", file.path);
        }
    }
}
