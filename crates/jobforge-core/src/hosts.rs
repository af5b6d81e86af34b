//! One server of several: whichever takes writes, found without waiting for those that say nothing.
//!
//! The driver tries a URL's hosts one after the other. After a failover the first is often a machine that is gone, and every
//! new connection would wait for it: here the next one is tried beside it after a moment.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use rand::seq::SliceRandom;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::{Client, Config, Error};

use crate::connect::Connection;
use crate::plain;

/// How long a server is waited for before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// Connects to the first server that will do. The whole is not bounded here: a frozen server says nothing, ever.
pub async fn reach(config: &Config) -> Result<(Client, Connection), Error> {
    let count = config.get_hosts().len().max(config.get_hostaddrs().len());
    let mut order: Vec<usize> = (0..count).collect();
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        order.shuffle(&mut rand::rng());
    }
    // One alone, or lists of different lengths, which the driver refuses.
    let lists = [config.get_hosts().len(), config.get_hostaddrs().len()];
    let fit = lists.iter().all(|length| [0, count].contains(length))
        && [0, 1, count].contains(&config.get_ports().len());
    if count < 2 || !fit {
        return plain::connect(config.clone()).await;
    }
    let mut attempts = FuturesUnordered::new();
    let mut refusal: Option<Error> = None;
    for (tried, index) in order.iter().enumerate() {
        let one = only(config, *index);
        attempts.push(plain::connect(one));
        let is_last = tried + 1 == count;
        loop {
            let answer = match is_last {
                true => attempts.next().await,
                false => match timeout(HEAD_START, attempts.next()).await {
                    Ok(answer) => answer,
                    Err(_) => break,
                },
            };
            match answer {
                Some(Ok(connected)) => return Ok(connected),
                Some(Err(error)) => refusal = Some(plainer(refusal, error)),
                None => break,
            }
        }
    }
    match refusal {
        Some(refusal) => Err(refusal),
        None => plain::connect(config.clone()).await,
    }
}

/// What a server said tells more than that another was not to be reached.
fn plainer(before: Option<Error>, error: Error) -> Error {
    match before {
        Some(before) if before.as_db_error().is_some() => before,
        _ => error,
    }
}

/// The same configuration for one of its servers.
fn only(config: &Config, index: usize) -> Config {
    let mut one = Config::new();
    config.get_user().map(|user| one.user(user));
    config.get_password().map(|password| one.password(password));
    config.get_dbname().map(|dbname| one.dbname(dbname));
    config.get_options().map(|options| one.options(options));
    config.get_application_name().map(|name| one.application_name(name));
    match config.get_hosts().get(index) {
        Some(Host::Tcp(host)) => drop(one.host(host)),
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    config.get_hostaddrs().get(index).map(|address| one.hostaddr(*address));
    config.get_ports().get(index).or(config.get_ports().first()).map(|port| one.port(*port));
    config.get_connect_timeout().map(|after| one.connect_timeout(*after));
    config.get_tcp_user_timeout().map(|after| one.tcp_user_timeout(*after));
    config.get_keepalives_interval().map(|every| one.keepalives_interval(every));
    config.get_keepalives_retries().map(|times| one.keepalives_retries(times));
    one.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_has_everything_but_the_others() {
        let rest = "user=app password=secret dbname=jobs options='-c x=1' application_name=it sslmode=disable \
            sslnegotiation=direct connect_timeout=9 tcp_user_timeout=8 keepalives=0 keepalives_idle=7 \
            keepalives_interval=6 keepalives_retries=5 target_session_attrs=read-only channel_binding=disable \
            load_balance_hosts=random";
        let parse = |hosts: &str| format!("{hosts} {rest}").parse::<Config>().unwrap();
        let several = parse("host=a,/run/b hostaddr=10.0.0.1,10.0.0.2 port=1,2");
        assert_eq!(only(&several, 0), parse("host=a hostaddr=10.0.0.1 port=1"));
        assert_eq!(only(&several, 1), parse("host=/run/b hostaddr=10.0.0.2 port=2"));
        let one_port = parse("host=a,b port=7");
        assert_eq!(only(&one_port, 1), parse("host=b port=7"));
    }
}
