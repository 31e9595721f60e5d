//! By which address others reach this worker, and which one it listens on, where nobody has said so.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{UdpSocket, lookup_host};

use crate::error::{Error, Kind, Result};

const NO_WAY_HINT: &str =
    "is --master right? where there is no route yet, give this worker's address with --host";

/// The address from which this machine reaches the first of `masters` to which there is a route.
///
/// # Errors
/// `Unavailable` if no master's name is known or there is a route to none.
pub async fn towards(masters: &[String]) -> Result<IpAddr> {
    let mut why = io::Error::from(io::ErrorKind::NotFound);
    for master in masters {
        match from_here_to(master).await {
            Ok(address) => return Ok(address),
            Err(error) => why = error,
        }
    }
    let text =
        format!("cannot tell by which address others reach this worker: no way to {}", masters.join(", "));
    Err(Error::new(Kind::Unavailable, text).with_hint(NO_WAY_HINT).with_source(why))
}

async fn from_here_to(master: &str) -> io::Result<IpAddr> {
    let mut why = io::Error::from(io::ErrorKind::NotFound);
    for address in lookup_host(master).await? {
        match route(address).await {
            Ok(local) => return Ok(local),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Asks the kernel for the route: a connect of UDP sends nothing.
async fn route(to: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    Ok(socket.local_addr()?.ip())
}

/// What to listen on: nothing but this machine if `host` is that, else every address of the host's family.
pub fn listening_for(host: &str) -> IpAddr {
    if host == "localhost" {
        return Ipv4Addr::LOCALHOST.into();
    }
    match host.parse() {
        Ok(address) if IpAddr::is_loopback(&address) => address,
        Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        Ok(IpAddr::V4(_)) | Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_beside_its_master_is_of_this_machine() {
        let masters = ["127.0.0.1:9097".to_owned()];
        assert_eq!(towards(&masters).await.unwrap(), Ipv4Addr::LOCALHOST);
        let later = ["no.such.host.invalid:9097".to_owned(), "127.0.0.1:9097".to_owned()];
        assert_eq!(
            towards(&later).await.unwrap(),
            Ipv4Addr::LOCALHOST,
            "the second, as the first has no address"
        );
    }

    #[tokio::test]
    async fn without_a_way_to_a_master_nothing_is_guessed() {
        let error = towards(&["no.such.host.invalid:9097".to_owned()]).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains("no.such.host.invalid"), "{error}");
        assert_eq!(error.hint(), Some(NO_WAY_HINT));
    }

    #[test]
    fn only_a_host_that_others_reach_is_listened_to_for_others() {
        let listened = |host: &str| listening_for(host).to_string();
        assert_eq!(
            ["127.0.0.1", "127.0.0.2", "localhost", "::1"].map(listened),
            ["127.0.0.1", "127.0.0.2", "127.0.0.1", "::1"]
        );
        assert_eq!(["10.0.0.7", "worker-3", "fd00::7"].map(listened), ["0.0.0.0", "0.0.0.0", "::"]);
    }
}
