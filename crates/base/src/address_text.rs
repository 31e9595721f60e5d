//! Texts with addresses in them, without the users and passwords that an address may have.

use std::borrow::Cow;

/// The text whose addresses (`scheme://user:password@host`) have lost what is before the host.
///
/// ```
/// use yeoul_base::without_users;
///
/// assert_eq!(without_users("no answer from 'http://ann:pw@host:80/a@b'"), "no answer from 'http://host:80/a@b'");
/// ```
pub fn without_users(text: &str) -> Cow<'_, str> {
    replaced(text, |_, _| ())
}

/// The text with a star for each character of the users and passwords in its addresses: what stands behind them stays in its column.
pub(crate) fn with_stars_for_users(text: &str) -> Cow<'_, str> {
    replaced(text, |shown, user| shown.extend(user.chars().map(|c| if c == '@' { c } else { '*' })))
}

/// The text with what `replace` pushes in place of each user.
fn replaced(text: &str, replace: impl Fn(&mut String, &str)) -> Cow<'_, str> {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + "://".len());
        let (user, host) = tail.split_at(user_bytes(tail));
        shown.push_str(head);
        replace(&mut shown, user);
        rest = host;
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Length of the user's part of an address, with its `@`, given what follows the scheme.
fn user_bytes(address: &str) -> usize {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>');
    let word = &address[..address.find(is_end).unwrap_or(address.len())];
    let authority = &word[..word.find(['/', '?', '#']).unwrap_or(word.len())];
    if let Some(at) = authority.rfind('@') {
        return at + 1;
    }
    // A password with a slash that was not written as %2F: what looks like a port is none.
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match authority.rsplit_once(':') {
        Some((_, port)) if !is_port(port) => word.rfind('@').map_or(0, |at| at + 1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_loses_its_user_and_nothing_else() {
        for (text, shown) in [
            ("s3://key:secret@bucket/a", "s3://bucket/a"),
            ("'hdfs://ann@host:8020/x' and 'http://b:c@d'", "'hdfs://host:8020/x' and 'http://d'"),
            ("http://a:b@c@host/", "http://host/"),
            ("http://a:b/c@host/x", "http://host/x"),
            ("SASL_SSL://u:p@h1:9092,SASL_SSL://u:p@h2:9092", "SASL_SSL://h1:9092,SASL_SSL://h2:9092"),
        ] {
            assert_eq!(without_users(text), shown);
            assert_eq!(with_stars_for_users(text).chars().count(), text.chars().count());
        }
        assert_eq!(with_stars_for_users("http://a:b@c/d e"), "http://***@c/d e");
        for text in
            ["", "no address: a@b", "http://host:80/a@b?c=d@e", "s3://bucket/day=1@2", "x://", "://@é"]
        {
            let expected = if text == "://@é" { "://é" } else { text };
            assert_eq!(without_users(text), expected);
        }
    }
}
