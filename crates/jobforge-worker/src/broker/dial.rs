//! A connection to the broker, or none: what is given up on the way is closed.
//!
//! The client has a thread for each connection, which waits for the broker's first words for ever, whether or not
//! anybody still waits for the connection. Only the end of the socket ends it.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lapin::tcp::AMQPUriTcpExt;
use lapin::uri::AMQPUri;
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, runtime};
use tokio::time::timeout;

use super::PATIENCE;

/// Connects. Dropped before it is done, it leaves nothing behind.
pub(super) async fn dial(uri: AMQPUri, properties: ConnectionProperties) -> lapin::Result<Connection> {
    let attempt = Attempt::default();
    let line = attempt.0.clone();
    let connection = Connection::connector(
        uri,
        runtime::default_runtime()?,
        async move |uri, runtime| {
            let stream = timeout(PATIENCE, uri.connect_async(&runtime)).await.map_err(io::Error::from)??;
            if let AsyncTcpStream::Plain(plain) = &stream {
                let socket = plain.get_ref().as_fd().try_clone_to_owned()?;
                lock(&line).hold(socket.into())?;
            }
            Ok(stream)
        },
        properties,
    );
    let connection = connection.await?;
    *lock(&attempt.0) = Line::Idle;
    Ok(connection)
}

/// Hangs up when it is dropped while the line is held.
#[derive(Default)]
struct Attempt(Arc<Mutex<Line>>);

#[derive(Default)]
enum Line {
    /// Not there yet, or the client's own business.
    #[default]
    Idle,
    /// There, and the broker is to speak.
    Held(TcpStream),
    /// Nobody waits for it any more.
    GivenUp,
}

impl Line {
    fn hold(&mut self, socket: TcpStream) -> io::Result<()> {
        match self {
            Line::GivenUp => Err(io::ErrorKind::ConnectionAborted.into()),
            Line::Idle | Line::Held(_) => {
                *self = Line::Held(socket);
                Ok(())
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Line::Held(socket) = std::mem::replace(&mut *lock(&self.0), Line::GivenUp) {
            // One that is closed already needs no more.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}
