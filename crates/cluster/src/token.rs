//! Token of a cluster: a secret of its clients, its scheduler and its executors, by which a server knows that one of them calls.
//!
//! Ballista lets whoever opens a connection decide on nothing that every call says but its user agent, so the token stands there.

use std::fmt;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use ballista_core::extension::{BallistaConfigGrpcEndpoint, EndpointOverrideFn};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use subtle::ConstantTimeEq;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::USER_AGENT;
use tonic::transport::Endpoint;
use yeoul_base::{Error, ErrorKind, Result};

/// Characters of a token. A shorter one could be guessed.
const CHARACTERS_MIN: usize = 16;
const CHARACTERS_MAX: usize = 512;

/// The word of the user agent that has the token.
const WORD: &str = "yeoul-token/";

/// The hint for a client whose calls are refused.
pub(crate) const TOKEN_HINT: &str = "--cluster-token-file names a file that holds it";

/// Secret that the members of a cluster share.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// The token that a file holds, without the white space around it.
    ///
    /// # Errors
    /// Those of the file; `Invalid` for one that is no token: fewer than 16 or more than 512 characters, or others than ASCII
    /// letters, digits and punctuation.
    pub fn of_file(path: &Path) -> Result<Self> {
        let longest = CHARACTERS_MAX as u64 * 2;
        let mut text = String::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(longest).read_to_string(&mut text));
        let shown = path.display();
        read.map_err(|error| {
            Error::new(ErrorKind::of_io(&error), format!("cannot read the token in '{shown}': {error}"))
                .with_source(error)
        })?;
        Self::of_text(text.trim()).ok_or_else(|| {
            let text = format!(
                "'{shown}' holds no token, which is {CHARACTERS_MIN} to {CHARACTERS_MAX} letters, digits and punctuation"
            );
            let hint = format!("openssl rand -hex 32 > '{shown}' makes one");
            Error::new(ErrorKind::Invalid, text).with_hint(hint)
        })
    }

    fn of_text(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_long = (CHARACTERS_MIN..=CHARACTERS_MAX).contains(&text.len());
        (is_plain && is_long).then(|| Self(text.into()))
    }

    /// The connection, whose calls say the token.
    ///
    /// # Errors
    /// None: a token is a valid user agent.
    pub(crate) fn said_by(&self, endpoint: Endpoint) -> Result<Endpoint, tonic::transport::Error> {
        endpoint.user_agent(format!("{WORD}{}", self.0))
    }

    /// The same for connections that Ballista opens.
    pub(crate) fn said_by_all(&self) -> EndpointOverrideFn {
        let token = self.clone();
        Arc::new(move |endpoint| Ok(token.said_by(endpoint)?))
    }

    /// Reason to refuse a call with these headers; none if it says the token.
    pub(crate) fn refusal(&self, headers: &HeaderMap) -> Option<&'static str> {
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        match agent.split(' ').find_map(|word| word.strip_prefix(WORD)) {
            Some(said) if bool::from(said.as_bytes().ct_eq(self.0.as_bytes())) => None,
            Some(_) => Some("this cluster has another token"),
            None => Some("this cluster asks for its token"),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Refuses to listen without a token where other machines reach a server.
///
/// # Errors
/// `Invalid`.
pub(crate) fn check(listening: IpAddr, token: Option<&Token>) -> Result<()> {
    if listening.is_loopback() || token.is_some() {
        return Ok(());
    }
    let text = format!(
        "other machines may reach {listening}, and whoever reaches a cluster without a token runs what he likes on it"
    );
    let hint = "--token-file names a file with a secret that all of the cluster have; openssl rand -hex 32 makes one";
    Err(Error::new(ErrorKind::Invalid, text).with_hint(hint))
}

/// The IPv4 address of a host's name, on which an executor listens.
///
/// # Errors
/// `Unavailable` for a name that has none.
pub(crate) async fn address_of(host: &str, port: u16) -> Result<SocketAddr> {
    let unknown = |why: String| {
        let error = Error::new(ErrorKind::Unavailable, format!("cannot listen on '{host}': {why}"));
        error.with_hint("--host is a name or an IPv4 address of this machine")
    };
    let mut found =
        tokio::net::lookup_host((host, port)).await.map_err(|error| unknown(error.to_string()))?;
    found.find(SocketAddr::is_ipv4).ok_or_else(|| unknown("it has no IPv4 address".to_owned()))
}

/// Address of a scheduler, with the token that it asks for, if it asks for one.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerAddress {
    /// `host:port`.
    pub address: String,
    pub token: Option<Token>,
}

impl SchedulerAddress {
    /// The way to it.
    ///
    /// # Errors
    /// That of an address that is none.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Box<dyn std::error::Error + Send + Sync>> {
        let to = format!("http://{}", self.address);
        let endpoint = create_grpc_client_endpoint(to, Some(&GrpcClientConfig::default()))?;
        Ok(match &self.token {
            Some(token) => token.said_by(endpoint)?,
            None => endpoint,
        })
    }

    /// The way to an executor, as Ballista's client has it.
    pub(crate) fn to_executors(&self) -> Option<Arc<BallistaConfigGrpcEndpoint>> {
        let token = self.token.as_ref()?;
        Some(Arc::new(BallistaConfigGrpcEndpoint::new(token.said_by_all())))
    }
}

impl fmt::Display for SchedulerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn token() -> Token {
        Token::of_text(SECRET).unwrap()
    }

    fn refusal(agent: Option<&str>) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        if let Some(agent) = agent {
            headers.insert(USER_AGENT, agent.parse().unwrap());
        }
        token().refusal(&headers)
    }

    #[test]
    fn a_call_is_taken_with_the_whole_token_only() {
        assert_eq!(refusal(Some("yeoul-token/0123456789abcdef tonic/0.14.2")), None);
        assert_eq!(refusal(Some("yeoul-token/0123456789abcdef")), None);
        for other in ["yeoul-token/", "yeoul-token/0123456789abcde", "yeoul-token/0123456789abcdef0"] {
            assert_eq!(refusal(Some(other)), Some("this cluster has another token"), "{other}");
        }
        for none in
            [None, Some(""), Some("tonic/0.14.2"), Some(SECRET), Some("xyeoul-token/0123456789abcdef")]
        {
            assert_eq!(refusal(none), Some("this cluster asks for its token"), "{none:?}");
        }
    }

    #[test]
    fn a_file_holds_a_token_or_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Token::of_file(&path)
        };
        assert_eq!(&*of("\n 0123456789abcdef\r\n").unwrap().0, SECRET);
        assert_eq!(&*of(&"x".repeat(512)).unwrap().0, "x".repeat(512));
        for none in [
            "",
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcdeü",
            &"x".repeat(513),
            &"x".repeat(9999),
        ] {
            assert_eq!(of(none).unwrap_err().kind(), ErrorKind::Invalid, "{none:?}");
        }
        assert_eq!(Token::of_file(&dir.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(!format!("{:?}", token()).contains(SECRET));
    }

    #[test]
    fn only_the_loopback_does_without_one() {
        for address in ["127.0.0.1", "127.9.9.9", "::1"] {
            check(address.parse().unwrap(), None).unwrap();
        }
        for address in ["0.0.0.0", "10.0.0.1", "::", "fe80::1"] {
            let address = address.parse().unwrap();
            assert_eq!(check(address, None).unwrap_err().kind(), ErrorKind::Invalid, "{address}");
            check(address, Some(&token())).unwrap();
        }
    }
}
