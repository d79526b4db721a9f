//! What a signature must not survive, and what is no key. The keys here were made by openssl for these tests.

use super::*;

const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFSBZJjh8MAL4vVKXVhB8PlCyHcgQtdZWc0G1bQLzayr
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAgWaVrabxd/qngEz6WrPIWKr/394tZCsUmds7UolnWg0=
-----END PUBLIC KEY-----
";
const OTHER: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEACUYW2Uepq/BVtMrtSKAAyhmNegnofwCOtqQJmpa/0/4=
-----END PUBLIC KEY-----
";

fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn keys(text: &str) -> Result<TrustKeys, TrustError> {
    let (_folder, path) = written(text);
    TrustKeys::load(&[path])
}

fn signing() -> SigningKey {
    let (_folder, path) = written(PRIVATE);
    SigningKey::load(&path).unwrap()
}

fn digest() -> Digest {
    Digest::of(b"a plugin")
}

fn signed() -> String {
    signing().sign("acme", "1.0", digest()).unwrap()
}

#[test]
fn what_was_signed_is_what_is_verified() {
    let id = signing().id();
    let file = signed();
    let said = Signed { name: "acme".into(), version: "1.0".into(), key: id.clone() };
    assert_eq!(keys(PUBLIC).unwrap().verify(file.as_bytes(), digest()).unwrap(), said);
    let both = keys(&format!("# of the fabric team\n{OTHER}\n{PUBLIC}")).unwrap();
    assert_eq!(both.ids().count(), 2);
    assert_eq!(both.verify(file.as_bytes(), digest()).unwrap(), said);
    // JSON, in another order.
    let value: serde_json::Value = serde_saphyr::from_str(&file).unwrap();
    assert_eq!(both.verify(value.to_string().as_bytes(), digest()).unwrap(), said);
    let claim = claim(file.as_bytes()).unwrap();
    assert_eq!((claim.name.as_str(), claim.digest, claim.key), ("acme", digest().to_string(), id.to_string()));
}

/// The signature of openssl over the documented lines: the format does not depend on our own code.
#[test]
fn another_program_can_sign() {
    let message = format!("topoloom plugin signature 1\n{}\nacme\n1.0\n", digest());
    assert_eq!(Statement::new("acme", "1.0", digest()).unwrap().message(), message.as_bytes());
    // printf 'topoloom plugin signature 1\n...' > m; openssl pkeyutl -sign -rawin -in m -inkey private.pem | base64 -w0
    let signature = "8hPAfyipXQp0H8P0Hagy5RaXnH/XPTDtplAYftMja7MrvcK+LHnSqOTEs9KToAwh19r+5QEvoJ3WfWeO29APAQ==";
    let file = signed();
    assert!(file.contains(signature), "{file}");
}

#[test]
fn every_part_is_under_the_signature() {
    let keys = keys(PUBLIC).unwrap();
    for (from, to, reason) in [
        ("acme", "acne", "SignatureInvalid"),
        ("\"1.0\"", "\"1.1\"", "SignatureInvalid"),
        ("sha256:", "sha256:0", "SignatureOfOtherPlugin"),
        (&signing().id().to_string(), "0000000000000000", "SignatureKeyUnknown"),
        ("\"acme\"", "\"a\\ncme\"", "SignatureMalformed"),
        ("\"acme\"", "\"\"", "SignatureMalformed"),
        ("name:", "nome:", "SignatureMalformed"),
        ("name:", "name: x\nname:", "SignatureMalformed"),
        ("==", "=", "SignatureMalformed"),
        ("==", "", "SignatureMalformed"),
    ] {
        let file = signed().replacen(from, to, 1);
        assert_ne!(file, signed(), "{from} is not in it");
        let refused = keys.verify(file.as_bytes(), digest()).unwrap_err();
        assert_eq!(refused.reason(), reason, "{from} to {to}: {refused}");
    }
    let other = keys.verify(signed().as_bytes(), Digest::of(b"another")).unwrap_err();
    assert_eq!(other.reason(), "SignatureOfOtherPlugin");
    // The digest in the file is ours, and the signature is not for it.
    let forged = signed().replace(&digest().to_string(), &Digest::of(b"another").to_string());
    assert_eq!(keys.verify(forged.as_bytes(), Digest::of(b"another")).unwrap_err().reason(), "SignatureInvalid");
}

#[test]
fn not_one_bit_of_the_signature_may_be_another() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let (keys, file) = (keys(PUBLIC).unwrap(), signed());
    let good = SignatureFile::parse(file.as_bytes()).unwrap().signature().unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let file = file.replace(&STANDARD.encode(&good), &STANDARD.encode(&bad));
        assert_eq!(keys.verify(file.as_bytes(), digest()).unwrap_err().reason(), "SignatureInvalid", "bit {bit}");
    }
}

#[test]
fn a_key_that_was_not_named_is_not_trusted() {
    let refused = keys(OTHER).unwrap().verify(signed().as_bytes(), digest()).unwrap_err();
    let id = signing().id();
    let words = format!("the plugin is signed with the key {id}, which is not trusted; trusted are ");
    assert!(refused.to_string().starts_with(&words), "{refused}");
    let refused = TrustKeys::default().verify(signed().as_bytes(), digest()).unwrap_err();
    assert!(refused.to_string().ends_with("no key is trusted: name one with --plugin-trust-key"), "{refused}");
    // Under the id of a key that is trusted, with the signature of one that is not.
    let theirs = keys(OTHER).unwrap();
    let their_id = theirs.ids().next().unwrap().to_string();
    let file = signed().replace(&id.to_string(), &their_id);
    assert_eq!(theirs.verify(file.as_bytes(), digest()).unwrap_err().reason(), "SignatureInvalid");
}

#[test]
fn what_is_no_signature_file_is_refused() {
    let keys = keys(PUBLIC).unwrap();
    for (bytes, words) in [
        (&b""[..], "cannot be read"),
        (b"\0asm\x0d\0\x01\0", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[1, 2]", "cannot be read"),
        (b"a: &a [*a, *a]", "cannot be read"),
        (&[b' '; MAX_SIGNATURE_FILE + 1], "has 4097 bytes and may have 4096"),
    ] {
        let refused = keys.verify(bytes, digest()).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!(refused.reason(), "SignatureMalformed");
    }
    // A large one that is otherwise right.
    let padded = format!("{}#{}", signed(), "x".repeat(MAX_SIGNATURE_FILE));
    assert!(matches!(keys.verify(padded.as_bytes(), digest()), Err(TrustError::TooLarge { .. })));
}

#[test]
fn what_is_no_public_key_is_said_so() {
    let rsa = "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAL==\n-----END PUBLIC KEY-----";
    let long = PUBLIC.replace("Wg0=", "Wg0AAA==");
    let cut = PUBLIC.lines().take(2).collect::<Vec<_>>().join("\n");
    for (text, words) in [
        ("", "there is no key in it"),
        ("\n# nothing\n", "there is no key in it"),
        ("ssh-ed25519 AAAA", "line 1 belongs to no key"),
        (&format!("{PUBLIC}x"), "line 4 belongs to no key"),
        (PRIVATE, "line 1 begins a \"PRIVATE KEY\", and a \"PUBLIC KEY\" is needed; the public half"),
        (&PUBLIC.replace("PUBLIC KEY", "CERTIFICATE"), "line 1 begins a \"CERTIFICATE\""),
        (rsa, "the key that begins in line 1 is no ed25519 key"),
        (&long, "the key that begins in line 1 is no ed25519 key"),
        (&PUBLIC.replace("MCow", "MCoX"), "the key that begins in line 1 is no ed25519 key"),
        (&PUBLIC.replace("gWaV", "g!aV"), "the key that begins in line 1 is no ed25519 key"),
        (&cut, "the key that begins in line 1 has no end"),
        (&format!("{PUBLIC}\n{rsa}"), "the key that begins in line 5 is no ed25519 key"),
    ] {
        let refused = keys(text).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!(refused.reason(), "TrustKeyInvalid");
        assert!(!refused.to_string().contains("MC4C"), "a private key is shown: {refused}");
    }
    assert!(matches!(TrustKeys::load(&["/nowhere".into()]), Err(TrustError::Read { .. })));
    assert!(matches!(keys(&PUBLIC.repeat(1_000)), Err(TrustError::Read { .. })), "a part of the keys would be taken");
}

#[test]
fn what_is_no_private_key_signs_nothing() {
    let encrypted = PRIVATE.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    for (text, words) in [
        (PUBLIC, "line 1 begins a \"PUBLIC KEY\", and a \"PRIVATE KEY\" is needed"),
        (encrypted.as_str(), "without a passphrase"),
        (&PRIVATE.replace("MC4C", "MC4D"), "no ed25519 key"),
        (&format!("{PRIVATE}{PRIVATE}"), "there are 2 private keys in it"),
    ] {
        let (_folder, path) = written(text);
        let refused = SigningKey::load(&path).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
    }
    for (name, version) in
        [("", "1"), ("a", ""), ("a\nb", "1"), ("a b", "1"), ("ä", "1"), ("a", "1\n"), (&"x".repeat(64), "1")]
    {
        let refused = signing().sign(name, version, digest()).unwrap_err();
        assert!(matches!(refused, TrustError::Word { .. }), "{refused}");
    }
    assert!(!format!("{:?}", signing()).contains("MC4C"));
}

#[test]
fn trust_is_ordered_by_what_it_asks_for() {
    assert!(Trust::None < Trust::Digest && Trust::Digest < Trust::Signature);
    assert_eq!(Trust::None.max(Trust::Signature), Trust::Signature);
}
