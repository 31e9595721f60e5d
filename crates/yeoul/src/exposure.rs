//! What a server says when it listens on every address of its machine.

use std::net::SocketAddr;

/// Says what whoever reaches a port may do there, if it is bound to every address: nothing asks for a password.
#[cfg(any(feature = "dfs", feature = "shuffle"))]
pub fn warn_of_exposure(listening: Option<SocketAddr>, may: &str, hint: &str) {
    if let Some(text) = exposure(listening, may, hint) {
        tracing::warn!("{text}");
    }
}

/// The same as a text.
pub fn exposure(listening: Option<SocketAddr>, may: &str, hint: &str) -> Option<String> {
    let address = listening.filter(|address| address.ip().is_unspecified())?;
    Some(format!(
        "{address} is every address of this machine: whoever reaches port {} may {may}, as nobody has to say who he is; \
         {hint}, or let a firewall keep others out (docs/security.md)",
        address.port()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_port_on_every_address_is_warned_of() {
        let said = |address: &str| exposure(Some(address.parse().unwrap()), "delete files", "give --host");
        for address in ["127.0.0.1:9098", "10.0.0.7:9098", "[::1]:9098"] {
            assert_eq!(said(address), None, "{address}");
        }
        for address in ["0.0.0.0:9098", "[::]:9098"] {
            let text = said(address).unwrap();
            assert!(text.contains("port 9098 may delete files") && text.contains("give --host"), "{text}");
        }
        assert_eq!(exposure(None, "", ""), None);
    }
}
