//! Where requests may go.

use std::net::IpAddr;

use ipnet::IpNet;
use url::{Host, Url};

use super::address::is_global;
use super::error::{EgressError, UrlFault};

/// Ports below this are services that no webhook lives on: mail, shells, directories.
const FIRST_FREE_PORT: u16 = 1024;

/// Where requests may go beyond the public internet, and where not even there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Ranges that may be reached although they are not globally routable.
    pub allow: Vec<IpNet>,
    /// Ranges that may not be reached, whatever else says so: one's own public addresses, say.
    pub deny: Vec<IpNet>,
    /// Ports below 1024 that may be reached beside 80 and 443.
    pub ports: Vec<u16>,
}

impl EgressPolicy {
    /// Whether this address may be reached.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let within = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
        !within(&self.deny) && (within(&self.allow) || is_global(address))
    }

    /// Refuses what can be refused by looking at the URL. Names are checked when they are resolved; an
    /// address in the URL is never resolved, so it is checked here.
    pub(super) fn check(&self, url: &Url) -> Result<(), EgressError> {
        let fault = |fault| Err(EgressError::Url(fault));
        if !matches!(url.scheme(), "http" | "https") {
            return fault(UrlFault::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return fault(UrlFault::UserInfo);
        }
        let Some(host) = url.host() else { return fault(UrlFault::NoHost) };
        if !url.port_or_known_default().is_some_and(|port| self.permits_port(port)) {
            return fault(UrlFault::Port);
        }
        match literal(&host) {
            Some(address) if !self.permits(address) => Err(EgressError::Denied { host: host.to_string() }),
            _ => Ok(()),
        }
    }

    fn permits_port(&self, port: u16) -> bool {
        matches!(port, 80 | 443) || port >= FIRST_FREE_PORT || self.ports.contains(&port)
    }
}

/// The address that a host is, if it is one. The URL's parser reads every spelling of IPv4; a name that the
/// system's library might still read as an address is one too.
fn literal(host: &Host<&str>) -> Option<IpAddr> {
    match host {
        Host::Ipv4(address) => Some(IpAddr::V4(*address)),
        Host::Ipv6(address) => Some(IpAddr::V6(*address)),
        Host::Domain(name) => name.trim_end_matches('.').parse().ok(),
    }
}

/// Ranges from their texts, `10.0.0.0/8` or a single address. Of the first that is none its place is told: its text may be a
/// URL with a password.
pub fn parse_nets<T: AsRef<str>>(texts: &[T]) -> Result<Vec<IpNet>, String> {
    let parse = |(at, text): (usize, &T)| {
        let text = text.as_ref();
        let single = || text.parse::<IpAddr>().ok().map(IpNet::from);
        let none = || format!("entry {} is no address range", at + 1);
        text.parse::<IpNet>().ok().or_else(single).ok_or_else(none)
    };
    texts.iter().enumerate().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str]) -> EgressPolicy {
        EgressPolicy { allow: parse_nets(allow).unwrap(), deny: parse_nets(deny).unwrap(), ports: vec![] }
    }

    #[test]
    fn allowed_ranges_open_and_denied_ones_win() {
        let policy = policy(&["127.0.0.0/8", "10.1.0.0/16"], &["10.1.2.3", "1.1.1.0/24"]);
        let permits = |text: &str| policy.permits(text.parse().unwrap());
        assert!(
            permits("127.0.0.1") && permits("::ffff:127.0.0.1") && permits("10.1.9.9") && permits("8.8.8.8")
        );
        assert!(
            !permits("10.2.0.1")
                && !permits("10.1.2.3")
                && !permits("::ffff:10.1.2.3")
                && !permits("1.1.1.1")
        );
        assert!(!permits("::1"), "the loopback of IPv6 is a range of its own");
    }

    #[test]
    fn urls_are_refused_by_their_looks() {
        let policy = EgressPolicy { ports: vec![25], ..policy(&[], &[]) };
        let check = |text: &str| policy.check(&text.parse().unwrap());
        assert!(check("https://example.com/a").is_ok() && check("http://1.1.1.1:8080/").is_ok());
        assert!(check("http://example.com:25/").is_ok(), "a port that the policy names");
        let faults = [
            ("ftp://example.com/", UrlFault::Scheme),
            ("file:///etc/passwd", UrlFault::Scheme),
            ("http://user@example.com/", UrlFault::UserInfo),
            ("http://:word@example.com/", UrlFault::UserInfo),
            ("http://example.com:22/", UrlFault::Port),
            ("https://example.com:1023/", UrlFault::Port),
        ];
        for (url, expected) in faults {
            assert!(matches!(check(url), Err(EgressError::Url(fault)) if fault == expected), "{url}");
        }
        assert!(matches!(check("http://[::]/"), Err(EgressError::Denied { .. })));
    }

    #[test]
    fn ranges_that_are_none_are_told() {
        assert_eq!(parse_nets(&["10.0.0.0/8", "ten"]), Err("entry 2 is no address range".to_owned()));
        assert_eq!(parse_nets(&["10.0.0.0/33"]).map_err(|_| ()), Err(()));
    }
}
