//! The port for pages and metrics, of both servers.

use std::sync::Arc;

use yeoul_net::http::{PageOptions, Pages, serve_pages_with};
use yeoul_net::{Listener, Serving, cannot_bind};

use crate::error::Result;
use crate::memory::Memory;

/// Serves pages on a port, if there is to be one; 0 takes a free one. They may be asked for by `host` and by `names`.
///
/// # Errors
/// The port is taken.
pub(crate) async fn serve(
    host: &str,
    port: Option<u16>,
    mut names: Vec<String>,
    memory: &Memory,
    pages: impl Pages,
) -> Result<Option<Serving>> {
    let Some(port) = port else { return Ok(None) };
    let listener = Listener::bind((host, port)).await;
    let listener = listener.map_err(|error| cannot_bind("http", host, port, error))?;
    names.push(host.to_owned());
    let serving =
        serve_pages_with(listener, PageOptions { names, account: memory.account() }, Arc::new(pages));
    let address = serving.address();
    tracing::info!("http://{address}/status and http://{address}/metrics/prometheus");
    Ok(Some(serving))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use yeoul_net::http::{Response, Routes};

    use super::*;
    use crate::memory::MEMORY_BYTES_MIN;

    struct Status;

    impl Routes for Status {
        const LIST: &str = "GET /status\n";

        fn get(&self, _: &str, _: &str) -> Option<Response> {
            Some(Response::text(200, "fine"))
        }

        async fn post(&self, _: &str, _: &[u8]) -> Option<Result<Response, Response>> {
            None
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn pages_are_given_to_who_asks_by_a_name_of_the_server() {
        let memory = Memory::new(MEMORY_BYTES_MIN).unwrap();
        let names = vec!["files.example.com".to_owned()];
        let served = serve("127.0.0.1", Some(0), names, &memory, Status).await.unwrap().unwrap();
        let status = async |host: &str| {
            let (address, host) = (served.address(), host.to_owned());
            let asked = move || {
                let mut stream = TcpStream::connect(address).unwrap();
                write!(stream, "GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer.split(' ').nth(1).unwrap().to_owned()
            };
            tokio::task::spawn_blocking(asked).await.unwrap()
        };
        let port = served.port();
        for (host, expected) in [
            (format!("127.0.0.1:{port}"), "200"),
            ("Files.Example.com".into(), "200"),
            ("evil.example".into(), "421"),
        ] {
            assert_eq!(status(&host).await, expected, "{host}");
        }
    }
}
