//! The page with the live view: one document without outside parts. Its policy allows exactly its own style and script.

use data_encoding::BASE64;
use hotcc_host::metrics_server::Html;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = concat!(
    include_str!("page/data.js"),
    include_str!("page/charts.js"),
    include_str!("page/views.js"),
    include_str!("page/main.js"),
);
const BODY: &str = include_str!("page/body.html");

/// Makes the page. Its memory is never freed.
pub(super) fn html() -> Html {
    let document = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>hotcc</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n{BODY}<script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    let hash = |text: &str| BASE64.encode(&Sha256::digest(text));
    // with `require-trusted-types-for`, a browser refuses to parse a text as HTML
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        hash(SCRIPT),
        hash(STYLE)
    );
    Html { document: document.leak(), policy: policy.leak() }
}
