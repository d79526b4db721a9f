//! Rules for single values of the configuration.

/// The length of names of endpoints: at most 63 lower-case letters, digits and hyphens.
const MAX_NAME: usize = 63;

/// A base URL as an operator writes it. The message never repeats the text: people put passwords into URLs.
pub(super) fn url(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest),
        Some(_) => return Err("a URL must begin with https://, http:// or the name of the host"),
        None => ("https", text),
    };
    let rest = rest.trim_end_matches('/');
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || authority.starts_with(':') {
        return Err("the URL has no host");
    }
    if rest.contains('@') {
        return Err("a URL must not contain a user or a password; name a Secret under `credentials`");
    }
    if rest.contains(['?', '#']) {
        return Err("a base URL must not have a query or a fragment");
    }
    if rest.chars().any(|letter| letter.is_whitespace() || letter.is_control() || letter == '\\') {
        return Err("a URL must not contain white space or a backslash");
    }
    Ok(format!("{scheme}://{rest}"))
}

/// A path prefix without a slash at its end.
pub(super) fn prefix(text: &str) -> Result<String, String> {
    let path = text.trim().trim_end_matches('/');
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    if path.is_empty() || (path.starts_with('/') && path.bytes().all(good) && !path.split('/').any(|part| part == ".."))
    {
        return Ok(path.to_owned());
    }
    Err(format!("{text:?} is not a path prefix such as \"/ufmRest\""))
}

/// The name of an endpoint.
pub(super) fn name(text: &str) -> Result<(), String> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(good) && !text.starts_with('-') && !text.ends_with('-')
    {
        return Ok(());
    }
    Err(format!("{text:?} is not a valid name: expected 1 to {MAX_NAME} lower-case letters, digits and hyphens"))
}
