//! Goal: a level that is set over HTTP counts for the log of the process, at once. Method: a master, whose port is sent what is no
//! request: only at `DEBUG` it says why it ends such a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Folder, binary};

/// How long a test waits for what should happen.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long for what should not.
const SILENCE: Duration = Duration::from_millis(300);

/// The next line of the log that has such a text, within so long.
fn line_with(lines: &Receiver<String>, text: &str, max: Duration) -> Option<String> {
    let deadline = Instant::now() + max;
    loop {
        let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        if line.contains(text) {
            return Some(line);
        }
    }
}

fn set_level(port: u16, body: &str) -> String {
    let head = "POST /api/v1/loggers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let mut peer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(peer, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_level_that_is_set_over_http_counts_at_once_and_the_log_says_so() {
    let folder = Folder::new();
    let http_port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let http = http_port.to_string();
    let args = ["shuffle", "--log", "warn", "master", "--dir", "m", "--port", "0", "--http-port", &http];
    let mut command = binary();
    command.args(args).current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut master = command.spawn().unwrap();
    let (tell, lines) = channel();
    let log = BufReader::new(master.stderr.take().unwrap());
    thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
    let mut address = String::new();
    BufReader::new(master.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let send_junk = || {
        let mut peer = TcpStream::connect(address.trim()).unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n").unwrap();
        // Until it is ended.
        drop(peer.read_to_end(&mut Vec::new()));
    };
    send_junk();
    assert_eq!(line_with(&lines, "connection ended", SILENCE), None);
    let answer = set_level(http_port, r#"{"name": "yeoul_net::connections", "level": "DEBUG"}"#);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let said = line_with(&lines, "over HTTP", WAIT_MAX).expect("the log says that a level was set");
    assert!(said.contains("yeoul_net::connections") && said.contains("DEBUG"), "{said}");
    send_junk();
    line_with(&lines, "connection ended", WAIT_MAX).expect("the level counts");
    assert!(set_level(http_port, r#"{"name": "yeoul_net::connections", "level": "OFF"}"#).contains("200"));
    line_with(&lines, "over HTTP", WAIT_MAX).expect("the log says so again");
    send_junk();
    assert_eq!(line_with(&lines, "connection ended", SILENCE), None);
    master.kill().unwrap();
    master.wait().unwrap();
}
