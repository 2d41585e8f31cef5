//! Renders the header and the footer of each page, and sets the headers of responses.

use crate::error::PageError;
use axum::{
    body::Body,
    http::{
        HeaderValue, Response, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS,
        },
    },
};
use maud::{DOCTYPE, Markup, html};

/// Allows only resources of this server, and no inline scripts or styles, so text from the chain could not run a script
/// even if it were not escaped.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
    img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";
/// Lets a browser keep an asset for a day. The path contains the version of the node.
const ASSET_CACHE: &str = "public, max-age=86400, immutable";

/// The links at the top of each page: path and text.
const LINKS: [(&str, &str); 4] =
    [("/", "Dashboard"), ("/blocks", "Blocks"), ("/fees", "Fees"), ("/governance", "Governance")];
/// The link that only a chain with validators has.
const VALIDATORS: (&str, &str) = ("/validators", "Validators");

/// The description of the chain in the header of each page.
#[derive(Debug)]
pub(crate) struct ChainTitle {
    pub(crate) name: String,
    /// Whether validators produce the blocks.
    pub(crate) has_validators: bool,
}

/// Returns the path of an asset.
macro_rules! asset_path {
    ($name:literal) => {
        concat!("/assets/", env!("CARGO_PKG_VERSION"), "/", $name)
    };
}

/// The path, the media type and the content of an asset.
pub(crate) type Asset = (&'static str, &'static str, &'static str);

const STYLE: Asset =
    (asset_path!("style.css"), "text/css; charset=utf-8", include_str!("assets/style.css"));
const SCRIPT: Asset =
    (asset_path!("live.js"), "text/javascript; charset=utf-8", include_str!("assets/live.js"));
const ICON: Asset = (asset_path!("icon.svg"), "image/svg+xml", include_str!("assets/icon.svg"));
pub(crate) const ASSETS: [Asset; 3] = [STYLE, SCRIPT, ICON];

/// The contents of a page.
#[derive(Debug)]
pub(crate) struct Page {
    /// The heading, also the title of the window.
    pub(crate) title: String,
    /// The part after the heading.
    pub(crate) contents: Markup,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, contents: Markup) -> Self {
        Self { title: title.into(), contents }
    }

    /// Renders the whole page. `path` is that of the request.
    pub(crate) fn render(&self, chain: &ChainTitle, path: &str) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " - evmd" }
                    link rel="icon" href=(ICON.0);
                    link rel="stylesheet" href=(STYLE.0);
                    script src=(SCRIPT.0) defer {}
                }
                body {
                    a.skip href="#contents" { "Skip to the contents" }
                    (header(chain, path))
                    main #contents tabindex="-1" {
                        h1 { (self.title) }
                        (self.contents)
                    }
                    footer { "evmd " (env!("CARGO_PKG_VERSION")) ". Times are in UTC." }
                }
            }
        }
    }
}

fn header(chain: &ChainTitle, path: &str) -> Markup {
    let links = LINKS.into_iter().chain(chain.has_validators.then_some(VALIDATORS));
    html! {
        header {
            nav aria-label="Pages" {
                ul {
                    @for (target, text) in links {
                        li { a href=(target) aria-current=[(target == path).then_some("page")] { (text) } }
                    }
                }
            }
            span.chain { (chain.name) }
            form action="/search" role="search" {
                label.hidden for="q" { "Block number, hash, address or proposal" }
                input #q name="q" type="search" required maxlength="200" autocomplete="off" spellcheck="false"
                    placeholder="Block, hash, address, proposal";
                button { "Search" }
            }
        }
    }
}

/// Returns a response with these contents.
pub(crate) fn respond(status: StatusCode, markup: Markup) -> Response<Body> {
    let mut response = Response::new(Body::from(markup.into_string()));
    *response.status_mut() = status;
    set_headers(&mut response, HTML, "no-store");
    response
}

/// Returns the response with an asset.
pub(crate) fn asset((_, kind, text): Asset) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    set_headers(&mut response, kind, ASSET_CACHE);
    response
}

fn set_headers(response: &mut Response<Body>, kind: &'static str, cache: &'static str) {
    let set: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in set {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

/// Renders the page of an error.
pub(crate) fn error_page(error: &PageError) -> Page {
    let title = match error {
        PageError::NotFound(_) => "Not found",
        PageError::Refused(_) => "Refused",
        PageError::Invalid(_) => "Not a valid request",
        PageError::Busy(_) => "The node is busy",
        PageError::TooLarge(_) => "The page would be too large",
        PageError::Failed(_) => "The page cannot be shown",
    };
    Page::new(title, html! { p { (error) } })
}

/// Renders a list of terms with their values.
pub(crate) fn terms(rows: &[(&str, Markup)]) -> Markup {
    html! {
        dl {
            @for (term, value) in rows {
                div { dt { (term) } dd { (value) } }
            }
        }
    }
}
