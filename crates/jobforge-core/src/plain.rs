//! One server: its connection, not encrypted, whose questions take turns until it is shown that no pooler is in between.
//!
//! The driver lets nobody in between but who encrypts, so that is what this is to it: it is told to require encryption and
//! to begin with it at once, and what it is given puts nothing on the wire. A URL that itself requires encryption is refused.

use std::future::{Ready, poll_fn, ready};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Client, Config, Error, Socket};

use crate::connect::Connection;
use crate::rpc::backend_pid;
use crate::turns::{Turns, Way};

/// Connects to this one server.
pub(crate) async fn connect(mut config: Config) -> Result<(Client, Connection), Error> {
    let plain = Plain { encrypts: config.get_ssl_mode() == SslMode::Require, way: Arc::default() };
    let way = plain.way.clone();
    if !plain.encrypts {
        disguise(&mut config);
    }
    let (client, mut connection) = config.connect(plain).await?;
    if way.can_be_shown() {
        way.answered_by(backend(&client, &mut connection).await?);
    }
    Ok((client, connection))
}

/// Tells the server to stop what goes on there.
pub async fn cancel(token: &CancelToken) -> Result<(), Error> {
    token.cancel_query(Plain { encrypts: false, way: Arc::default() }).await
}

/// Makes the driver hand its stream over. It does so only where it knows a name; on a Unix socket there is none.
fn disguise(config: &mut Config) {
    let mut config = config;
    if let (true, Some(address)) = (config.get_hosts().is_empty(), config.get_hostaddrs().first().copied()) {
        config = config.host(address.to_string());
    }
    match config.get_hosts() {
        [Host::Tcp(_)] => config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct),
        _ => config.ssl_mode(SslMode::Disable),
    };
}

/// The process of the session that answers.
async fn backend(client: &Client, connection: &mut Connection) -> Result<i32, Error> {
    let mut asked = pin!(backend_pid(client));
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(answer) = asked.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            match connection.poll_message(cx) {
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                // A notice. It does not end while it has a client.
                Poll::Ready(_) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// What the driver takes for encryption.
#[derive(Clone, Debug)]
struct Plain {
    /// Whether real encryption was asked for, which there is none of.
    encrypts: bool,
    way: Arc<Way>,
}

impl MakeTlsConnect<Socket> for Plain {
    type Stream = Turns<Socket>;
    type TlsConnect = Plain;
    type Error = io::Error;

    fn make_tls_connect(&mut self, _: &str) -> io::Result<Plain> {
        Ok(self.clone())
    }
}

impl TlsConnect<Socket> for Plain {
    type Stream = Turns<Socket>;
    type Error = io::Error;
    type Future = Ready<io::Result<Turns<Socket>>>;

    fn connect(self, stream: Socket) -> Self::Future {
        ready(match self.encrypts {
            true => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "sslmode=require, and connections are not encrypted here",
            )),
            false => Ok(Turns::new(stream, self.way)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_hands_over_every_stream_but_a_sockets() {
        for (given, expected) in [
            ("host=db", "host=db sslmode=require sslnegotiation=direct"),
            ("host=db sslmode=disable", "host=db sslmode=require sslnegotiation=direct"),
            ("hostaddr=10.0.0.1", "host=10.0.0.1 hostaddr=10.0.0.1 sslmode=require sslnegotiation=direct"),
            ("host=/run/pg", "host=/run/pg sslmode=disable"),
        ] {
            let mut config: Config = given.parse().unwrap();
            disguise(&mut config);
            assert_eq!(config, expected.parse().unwrap(), "{given}");
        }
    }
}
