//! One HTTP request, spoken by hand.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One HTTP request, such as `GET /healthz`, with JSON if it has a body: the status and the body of the answer.
///
/// # Errors
/// What the socket says, and `InvalidData` if the answer is no HTTP.
pub async fn http(address: SocketAddr, request: &str, body: &str) -> io::Result<(u16, String)> {
    http_with(address, request, "content-type: application/json", body).await
}

/// The same with other headers, one in each line, instead of the type of the body.
///
/// # Errors
/// As of [`http`].
pub async fn http_with(
    address: SocketAddr,
    request: &str,
    headers: &str,
    body: &str,
) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let has_host = headers.to_ascii_lowercase().lines().any(|line| line.starts_with("host:"));
    let mut head = format!("{request} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !has_host {
        head += &format!("host: {address}\r\n");
    }
    headers.lines().for_each(|line| head += &format!("{line}\r\n"));
    stream.write_all((head + "\r\n" + body).as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer =
        String::from_utf8(answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, answer))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => joined(body)?,
        false => body.to_owned(),
    };
    Some((head.split(' ').nth(1)?.parse().ok()?, body))
}

/// A body that was sent in chunks.
fn joined(mut chunks: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (len, rest) = chunks.split_once("\r\n")?;
        let len = usize::from_str_radix(len.split(';').next()?, 16).ok()?;
        if len == 0 {
            return Some(body);
        }
        body += rest.get(..len)?;
        chunks = rest.get(len..)?.strip_prefix("\r\n")?;
    }
}
