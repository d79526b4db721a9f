//! The CA bundle: Mozilla's authorities from a crate, so that `Cargo.lock` decides its content, and not the machine
//! that builds.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Characters in a line of PEM (RFC 7468, 2).
const LINE: usize = 64;

/// All of them, as PEM.
pub(super) fn pem() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let body = STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in body.as_bytes().chunks(LINE) {
            writeln!(text, "{}", String::from_utf8_lossy(line)).expect("a String takes everything");
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_holds_every_authority_in_lines_that_every_reader_takes() {
        let pem = pem();
        assert!(pem.lines().all(|line| line.len() <= LINE));
        let bodies = pem.split("-----BEGIN CERTIFICATE-----\n").skip(1).map(|part| {
            let body = part.split("-----END CERTIFICATE-----\n").next().unwrap();
            STANDARD.decode(body.replace('\n', "")).unwrap()
        });
        let wanted = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|certificate| certificate.to_vec());
        assert!(wanted.len() > 100);
        assert!(bodies.eq(wanted));
    }
}
