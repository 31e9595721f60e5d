use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One HTTP request, spoken by hand, such as `GET /healthz`: the status and the body of the answer.
///
/// # Errors
/// What the socket says, and `InvalidData` if the answer is no HTTP.
pub async fn http(address: SocketAddr, request: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let len = body.len();
    let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, answer))
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
