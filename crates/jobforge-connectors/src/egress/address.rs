//! Which addresses belong to the public internet. Everything else is denied, known or not: the list of what is
//! reserved grows, the list of what is global does not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 that is not globally routable, and what a cloud answers on although it looks global.
const DENIED_V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),        // "this network"; 0.0.0.0 reaches the machine itself
    ([10, 0, 0, 0], 8),       // private
    ([100, 64, 0, 0], 10),    // carrier-grade NAT; metadata of some clouds
    ([127, 0, 0, 0], 8),      // loopback
    ([168, 63, 129, 16], 32), // the host agent of Azure
    ([169, 254, 0, 0], 16),   // link-local; metadata of most clouds
    ([172, 16, 0, 0], 12),    // private
    ([192, 0, 0, 0], 24),     // protocol assignments; metadata of Oracle's cloud
    ([192, 0, 2, 0], 24),     // documentation
    ([192, 88, 99, 0], 24),   // 6to4 relays
    ([192, 168, 0, 0], 16),   // private
    ([198, 18, 0, 0], 15),    // benchmarks
    ([198, 51, 100, 0], 24),  // documentation
    ([203, 0, 113, 0], 24),   // documentation
    ([224, 0, 0, 0], 4),      // multicast
    ([240, 0, 0, 0], 4),      // reserved; broadcast
];

/// What is not global inside 2000::/3, the only IPv6 range that is global at all.
const DENIED_V6: [([u16; 4], u32); 4] = [
    ([0x2001, 0, 0, 0], 23),     // protocol assignments: Teredo, benchmarks, ORCHID
    ([0x2001, 0xdb8, 0, 0], 32), // documentation
    ([0x2002, 0, 0, 0], 16),     // 6to4, with an IPv4 address inside
    ([0x3fff, 0, 0, 0], 20),     // documentation
];

/// Whether an address is globally routable. IPv4 written as IPv6 is judged as the IPv4 it reaches.
pub(super) fn is_global(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_global_v4(address),
        IpAddr::V6(address) => is_global_v6(address),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !DENIED_V4.iter().any(|(net, length)| (bits ^ u32::from_be_bytes(*net)) >> (32 - length) == 0)
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let high = address.to_bits() >> 64;
    let within = |net: &[u16; 4], length: &u32| {
        let net = net.iter().fold(0_u128, |bits, segment| bits << 16 | u128::from(*segment));
        (high ^ net) >> (64 - length) == 0
    };
    let is_unicast = segments[0] & 0xe000 == 0x2000;
    // ISATAP puts an IPv4 address behind this mark, under any prefix.
    let is_isatap = segments[4] & 0xfdff == 0 && segments[5] == 0x5efe;
    is_unicast && !is_isatap && !DENIED_V6.iter().any(|(net, length)| within(net, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn judged(expected: bool, addresses: &[&str]) {
        for address in addresses {
            assert_eq!(is_global(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn public_addresses_are_global() {
        judged(
            true,
            &["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0"],
        );
        judged(true, &["192.0.1.0", "168.63.129.17", "198.17.255.255", "198.20.0.0", "223.255.255.255"]);
        judged(true, &["2606:4700::1111", "2a00:1450:4001::1", "2001:200::1", "::ffff:8.8.8.8"]);
    }

    #[test]
    fn special_ipv4_is_not_global() {
        judged(false, &["0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1"]);
        judged(
            false,
            &["127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255"],
        );
        judged(
            false,
            &["192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255"],
        );
        judged(false, &["198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1"]);
        judged(false, &["255.255.255.255"]);
    }

    #[test]
    fn special_ipv6_is_not_global() {
        judged(false, &["::", "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "100::1"]);
        judged(
            false,
            &["2001:db8::1", "3fff::1", "2001:2::1", "2001:10::1", "2001:20::1", "5f00::1", "4000::1"],
        );
    }

    #[test]
    fn ipv4_inside_ipv6_is_not_global_in_any_form() {
        // Mapped, compatible, translated, NAT64 in both ranges, 6to4, Teredo, ISATAP.
        judged(false, &["::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "::ffff:0:127.0.0.1"]);
        judged(false, &["64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:1::1"]);
        judged(false, &["2606:4700::5efe:7f00:1", "2606:4700::200:5efe:7f00:1"]);
        // Nor where the IPv4 address inside is public: a relay decides where the packet ends.
        judged(false, &["64:ff9b::808:808", "2002:808:808::1"]);
    }
}
